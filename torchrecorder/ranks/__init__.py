"""Ranks: joins the recordings of the processes of one run."""

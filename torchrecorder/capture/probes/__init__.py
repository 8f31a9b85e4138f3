"""Probes: optional measurements during the run."""

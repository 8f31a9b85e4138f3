"""Probes: what is measured on request while the model runs."""

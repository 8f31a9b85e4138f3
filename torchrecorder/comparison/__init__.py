"""Comparison: what is different between two recordings."""

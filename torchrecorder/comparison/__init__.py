"""Comparison: the differences between two recordings."""

"""Folding: repeated siblings as one box."""

"""Queries on parts of a recording: find them, paths between them, missing gradients."""

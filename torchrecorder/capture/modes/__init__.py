"""Modes: record calls of torch functions and dispatched operators as ops."""

"""Modes: calls of torch functions and of dispatched operators become ops."""

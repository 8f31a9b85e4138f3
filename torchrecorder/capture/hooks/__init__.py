"""Hooks: record module calls, regions, optimizer steps and backward runs."""

"""Edits: a random model before and after a change at one place."""

"""Hooks: module calls, regions, optimizer steps and backward runs become scopes."""

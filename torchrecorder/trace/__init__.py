"""Traces of a profiler: measurements of each op and grad node, and recordings as traces."""

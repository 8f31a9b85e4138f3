"""Traces of a profiler: what each op and grad node really cost, and recordings as traces."""

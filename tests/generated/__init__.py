"""Models that nobody wrote: random nested modules, recorded and held against every witness."""

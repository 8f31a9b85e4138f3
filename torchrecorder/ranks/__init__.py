"""Many recordings of one run, one per process, put together."""

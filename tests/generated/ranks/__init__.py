"""Random programs of several processes."""

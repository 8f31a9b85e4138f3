"""See a PyTorch model: record one run, draw it, compute with it."""

"""Plans a distributed run: records its ranks on one machine with fake tensors."""

"""Planning: records the ranks of a distributed run on one machine, with fake tensors."""

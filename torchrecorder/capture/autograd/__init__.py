"""Autograd: walk the graph behind the tensors and match its nodes with ops."""

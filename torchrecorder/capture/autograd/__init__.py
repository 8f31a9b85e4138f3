"""Autograd: the graph behind the tensors, walked and matched with ops."""

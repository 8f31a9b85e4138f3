"""Tensors: the value of each tensor, its producer, and the tensors that share its memory."""

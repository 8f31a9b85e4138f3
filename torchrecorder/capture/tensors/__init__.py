"""Tensors: which value a tensor is, who made it, and what shares its memory."""

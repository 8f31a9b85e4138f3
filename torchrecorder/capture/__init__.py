"""The instruments: what a run does, told as events. Only here is PyTorch imported."""

"""The recording: what ran, as frozen data that needs neither the model nor PyTorch."""

"""Graph: the recording, frozen data about a run that needs neither the model nor PyTorch."""

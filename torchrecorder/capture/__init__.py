"""The instruments: what a run does, told as events. Only here is PyTorch imported."""

import torchrecorder.capture.internals  # noqa: F401  (refuses a PyTorch that is too old)

"""The instruments, which record a run as events. No other folder imports PyTorch when loaded."""

import torchrecorder.capture.internals  # noqa: F401  (refuses a PyTorch that is too old)

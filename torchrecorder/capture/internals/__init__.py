"""Private, new or changing parts of PyTorch and CPython that capture uses.

No other file of ``capture`` imports a private name of PyTorch. Importing this package checks first
that this PyTorch has everything required.
"""

from torchrecorder.capture.internals.table import require

require()

"""Private, new or changing parts of PyTorch and CPython that capture uses.

No other file of ``capture`` imports a private name of PyTorch. Importing this package first checks
that this PyTorch has all required internals.
"""

from torchrecorder.capture.internals.table import require

require()

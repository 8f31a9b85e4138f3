"""What capture uses of PyTorch and CPython that is private, new or changing.

No other file of ``capture`` imports a private name of PyTorch. Whoever imports this package
learns first whether this PyTorch has what nothing can be recorded without.
"""

from torchrecorder.capture.internals.table import require

require()

"""Private, new or changing parts of PyTorch and CPython that capture uses.

No other file of ``capture`` imports a private name of PyTorch. Importing this package first checks
that this PyTorch has all required internals.
"""

import torch

from torchrecorder.capture.internals.table import INTERNALS
from torchrecorder.capture.internals.trials import OLDEST
from torchrecorder.errors import UnsupportedTorch

_lacking = [path for internal in INTERNALS if internal.needed for path in internal.missing]
if _lacking:
    raise UnsupportedTorch(
        f"torchrecorder records with PyTorch {OLDEST} or newer; this is PyTorch "
        f"{torch.__version__}, which has no {_lacking[0]}. Install another version of "
        "PyTorch, or a newer torchrecorder if PyTorch is newer than it"
    )

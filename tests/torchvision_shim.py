"""Let torchvision be imported where its compiled part does not load.

The wheel that matches a CPU build of PyTorch is not always at hand. Without its compiled
operators ``import torchvision`` fails, and timm and parts of transformers with it. Declaring
the few operators that the package registers at import is enough; non-maximum suppression also
gets a body in plain PyTorch, so that detection models run.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path

import torch
from torch import Tensor

_DECLARED: list[torch.library.Library] = []

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)


def _loads() -> bool:
    """Whether torchvision's own operators can be loaded."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    for library in sorted(Path(spec.origin).parent.glob("_C*.so")):
        try:
            torch.ops.load_library(str(library))
        except (ImportError, OSError):
            return False
        return True
    return False


def _nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Greedy non-maximum suppression, one box at a time."""
    left = scores.argsort(descending=True)
    kept = []
    while left.numel():
        best, left = left[0], left[1:]
        kept.append(best)
        low = torch.maximum(dets[best, :2], dets[left, :2])
        high = torch.minimum(dets[best, 2:], dets[left, 2:])
        both = (high - low).clamp(min=0).prod(1)
        size = (dets[:, 2:] - dets[:, :2]).prod(1)
        left = left[both <= iou_threshold * (size[best] + size[left] - both)]
    return torch.stack(kept) if kept else torch.zeros(0, dtype=torch.long)


def install() -> None:
    """Declare what is missing; does nothing where torchvision works as it is."""
    if "torchvision" in sys.modules or _DECLARED or _loads():
        return
    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS:
        library.define(schema)
    library.impl("nms", _nms, "CPU")
    _DECLARED.append(library)


def allow_boxes() -> None:
    """Let detection models run: on the declared operator, without a compiler."""
    install()
    import torchvision

    if _DECLARED:
        torchvision.ops.boxes._assert_has_ops = lambda: None
        align = sys.modules["torchvision.ops.roi_align"]
        align._roi_align = inspect.unwrap(align._roi_align)  # a minute of compilation less

"""What is kept for backward in place of autograd: what hooks of the program pack tensors into, the
results that a selective checkpoint does not compute again, and attributes of custom functions.

A checkpoint has such hooks, too, and packs nothing. What hooks move to another device does not
take memory where the model runs, and tensors in objects of unknown classes are not found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from torchrecorder.capture.internals.access import (
    CHECKPOINT_FUNCTION, TorchDispatchMode, input_metadata, saved_tensor_hooks,
)
from torchrecorder.capture.tensors.describe import tensors_in

Note = Callable[[str], None]
"""Takes what is not counted."""


def packs_tensors(hook: Any) -> bool:
    """Whether *hook* is one of the program, which keeps something for each saved tensor."""
    return getattr(hook, "__module__", None) != checkpoint.__module__


def hooks_pack() -> bool:
    """Whether hooks of the program pack what is saved now."""
    hooks = saved_tensor_hooks()
    return hooks is not None and packs_tensors(hooks[0])


def packed_tensors(saved: Iterable[Any], source: Any, note: Note) -> list[Tensor]:
    """The tensors that hooks keep in place of what was *saved* of *source*, a node or tensors."""
    found = list[Tensor]()
    for entry in saved:
        if entry is not None and entry.unpack_hook is not None and packs_tensors(entry.unpack_hook):
            kept = [tensor for _, tensor in tensors_in(entry.data)]
            if not kept:
                note(f"hooks pack into objects of the class {type(entry.data).__name__}")
            found += kept
    around = source if isinstance(source, list) else input_metadata(source)
    own = {item.device for item in around} or {tensor.device for tensor in found}
    elsewhere = {tensor.device for tensor in found} - own
    for device in sorted(map(str, elsewhere)):
        note(f"hooks keep on {device}")
    return [tensor for tensor in found if tensor.device not in elsewhere]


def attributes_of(node: Any) -> list[Tensor]:
    """The tensors that a custom function has as attributes of its context, which is *node*."""
    if type(node).__name__.removesuffix("Backward") == CHECKPOINT_FUNCTION:
        return []  # random states
    return [tensor for _, tensor in tensors_in(dict(vars(node)))]


def kept_by_context(context: TorchDispatchMode, note: Note) -> list[Tensor]:
    """The results that the *context* of a checkpoint has kept, instead of computing them again."""
    storage: Any = getattr(context, "storage", None)
    if storage is None:
        note(f"{type(context).__name__} keeps")
    found, waiting = list[Tensor](), [storage]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Tensor):
            found.append(item)
        elif isinstance(item, Mapping):
            waiting += item.values()
        elif isinstance(item, (list, tuple)):
            waiting += item
        elif hasattr(item, "val"):
            waiting.append(item.val)
    return found

"""Memory access: arguments that operations do not read, and results that they leave unset."""

from __future__ import annotations

from collections.abc import Iterator

from torchrecorder.events import Slot
from torchrecorder.graph.nodes import Op

FORM_OF_FIRST = frozenset(
    """
    empty_like full_like ones_like rand_like randint_like randn_like zeros_like
    new_empty new_empty_strided new_full new_ones new_tensor new_zeros
    """.split()
)
"""Functions that only read the form of their first argument."""

FORM_OF_OTHER = frozenset(("expand_as", "reshape_as", "type_as", "view_as"))
"""Functions that only read the form of the argument ``other``."""

LEAVES_UNSET = frozenset(
    "empty empty_like new_empty empty_strided new_empty_strided empty_permuted empty_quantized "
    "resize_ resize_as_".split()
)
"""Functions that return uninitialized memory."""

PART_READ = {"embedding": 1, "gather": 0, "getitem": 0, "index_select": 0, "take_along_dim": 0}
"""Functions that look up elements, with the position of the argument that has them: they read as
many as they return."""

PART_WRITTEN = {
    "index_copy_": "source", "index_put_": "values", "scatter_": "src", "setitem": "value",
}
"""Functions that write to a part of their first argument, with the argument that they write."""

_OUT = "out"
"""The argument of functions that write their result into it; its parts are ``out.0`` and so on."""


def read_for_form(op: Op) -> Iterator[Slot]:
    """The arguments of which *op* only reads shape, dtype and device."""
    if not op.qualname.startswith("torch."):
        return
    if op.name in FORM_OF_FIRST:
        yield from op.inputs[:1]
    elif op.name in FORM_OF_OTHER:
        yield from (slot for slot in op.inputs if slot.name == "other")


def replaced(op: Op) -> Iterator[Slot]:
    """The arguments whose contents *op* replaces without reading them."""
    for slot in op.inputs:
        if slot.name.partition(".")[0] == _OUT or (op.name, slot.name) == ("copy_", "self"):
            yield slot


def contents_read(op: Op) -> Iterator[Slot]:
    """The arguments whose contents *op* reads, at least in part."""
    unread = {*read_for_form(op), *replaced(op)}
    slots = op.inputs[1:] if op.name in PART_WRITTEN else op.inputs
    return (slot for slot in slots if slot not in unread)

"""Composites: captions of closed modules with a few modules inside, such as ``3 → 32, 3×3, s2 + BN
+ ReLU``.

They describe the recorded contents: one convolution or linear layer with its norm and activation,
several equal blocks, the only module in a region, or the arguments of the only op.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.structural_hash import is_inactive
from torchrecorder.style.families import class_family, op_family
from torchrecorder.style.hyperparameters import SHOWN_BY_SHAPE, arguments, hyperparameters
from torchrecorder.style.labels import shorten
from torchrecorder.views.quiet_ops import hook_registrations, is_identity, returns_no_tensor

MAX_CAPTION_LENGTH = 40
"""The maximum number of letters of a caption."""

MAX_LAYERS = 5
"""The maximum number of layers that are listed one by one."""

CONTAINER = "Sequential"
"""The class of a container, whose name says nothing about its contents."""

NORMS = {"batch": "BN", "layer": "LN", "group": "GN", "instance": "IN", "rms": "RMSNorm"}
"""Norms by the beginning of the name of their op or class, as papers write them."""

ACTIVATIONS = {
    "relu": "ReLU", "relu6": "ReLU6", "gelu": "GELU", "silu": "SiLU", "elu": "ELU", "selu": "SELU",
    "celu": "CELU", "leaky_relu": "LeakyReLU", "prelu": "PReLU", "rrelu": "RReLU", "glu": "GLU",
    "log_softmax": "LogSoftmax", "logsigmoid": "LogSigmoid",
}
"""Activations with the spelling of their modules; other names are capitalized."""


class Layer(NamedTuple):
    """One layer inside a closed module: its family and its caption."""

    family: str  # only weights, norm and activation make a caption
    text: str


class Composites:
    """Captions of containers: their contents in one line; *cls* gives the displayed class."""

    def __init__(self, recording: RecordedRun, cls: Callable[[Scope], str]) -> None:
        self.recording = recording
        self.cls = cls

    @cached_property
    def active(self) -> set[str]:
        """The scopes and ops with an effect, unlike identities and dropout in evaluation mode."""
        recording = self.recording
        values, modules = recording.values, recording.modules.values()
        stored = {values[slot.value].storage for module in modules for slot in module.buffers}
        found: set[str] = set()
        for op in recording.ops.values():
            made = {values[value].storage for value in op.outputs}
            if not (is_identity(op) or returns_no_tensor(op) or op.writes and made <= stored):
                found.add(op.id)
        found -= hook_registrations(recording)
        for scope in reversed(list(recording.scopes.values())):  # inner ones come later
            module = recording.module_of(scope)
            steps = recording.children[scope.id]
            if module is None or not is_inactive(module, steps):
                if any(item.id in found for item in steps):
                    found.add(scope.id)
        return found

    def caption(self, scope: Scope) -> str:
        """The caption of a closed module or region; empty for other scopes."""
        text = self._layer(scope) or self._blocks(scope) or self._alone(scope) or self._op(scope)
        return shorten(text, MAX_CAPTION_LENGTH)

    def _alone(self, scope: Scope) -> str:
        """The class of the only module in a region or function."""
        inside = self._inside(scope) if scope.module is None else []
        if len(inside) != 1 or not isinstance(inside[0], Scope) or inside[0].module is None:
            return ""
        return self.cls(inside[0])

    def _op(self, scope: Scope) -> str:
        """The arguments of the only op of a module, such as the reduction of a loss."""
        inside = self._inside(scope) if scope.module is not None else []
        if len(inside) != 1 or not isinstance(op := inside[0], Op) or op.name in SHOWN_BY_SHAPE:
            return ""
        return ", ".join(arguments(op.name, op.arguments))

    def _layer(self, scope: Scope) -> str:
        """One convolution or linear layer with norm, activation or both, as they ran."""
        steps: list[Layer] = []
        for step in self._steps(scope):
            steps.append(step)
            if len(steps) > MAX_LAYERS or step.family not in ("weights", "norm", "activation"):
                return ""
        weights = [step.text for step in steps if step.family == "weights"]
        if len(steps) < 2 or len(weights) != 1 or not weights[0]:
            return ""
        return " + ".join(step.text for step in steps)

    def filled_by(self, op: Op) -> Scope | None:
        """The scope in which only *op* had an effect; None if there is none."""
        scope = self.recording.scopes[op.scope] if op.scope is not None else None
        if scope is None:
            return None
        two = [*islice(self._active_in(scope), 2)]  # an optimizer's step has thousands
        return scope if two == [op] else None

    def _blocks(self, scope: Scope) -> str:
        """Several modules of one class, and nothing else: ``4 × (Linear, ReLU)``."""
        inside = self._inside(scope)
        blocks = [child for child in inside if isinstance(child, Scope)]
        distinct = {child.module for child in blocks if child.module is not None}
        if len(inside) < 2 or len(distinct) < len(inside) or len({item.cls for item in blocks}) > 1:
            return ""
        text = f"{len(blocks)} × {self._contents(blocks)}"
        return text if len(text) <= MAX_CAPTION_LENGTH else f"{len(blocks)} × {self.cls(blocks[0])}"

    def _contents(self, blocks: list[Scope]) -> str:
        """The class of blocks; for containers with equal contents, the contents."""
        name = self.cls(blocks[0])
        if name != CONTAINER:
            return name
        found = {", ".join(map(self._title, self._inside(block))) for block in blocks}
        return f"({found.pop()})" if len(found) == 1 else name

    def _title(self, item: Scope | Op) -> str:
        return item.name if isinstance(item, Op) else self.cls(item)

    def _inside(self, scope: Scope) -> list[Scope | Op]:
        """The active scopes and ops directly in a scope."""
        return [*self._active_in(scope)]

    def _active_in(self, scope: Scope) -> Iterator[Scope | Op]:
        former = self.recording.former if scope.id not in self.recording.former else ()
        inside = self.recording.children[scope.id]
        return (item for item in inside if item.id in self.active and item.id not in former)

    def _steps(self, scope: Scope) -> Iterator[Layer]:
        """The layers inside, at any depth, in the order in which they ran."""
        waiting = self._inside(scope)[::-1]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Op):
                yield _named(op_family(item.name), item.name)
                continue
            inside = self._inside(item)
            family = class_family(item.cls)
            leaf = all(isinstance(each, Op) for each in inside)
            if leaf and (family or len(inside) == 1):
                yield self._leaf(item, family, inside)
            else:
                waiting += inside[::-1]

    def _leaf(self, scope: Scope, family: str, inside: list[Scope | Op]) -> Layer:
        """A module that holds no other."""
        alone = inside[0].name if len(inside) == 1 else scope.cls
        family = op_family(alone) or family
        if family != "weights":
            return _named(family, alone)
        module = self.recording.module_of(scope)
        return Layer(family, _brief(scope.cls, module.detail) if module is not None else "")


def _brief(cls: str, detail: str) -> str:
    """Sizes, kernel, stride and groups of a layer; empty for one without sizes."""
    size, *others = hyperparameters(cls, detail) or ("",)
    if "→" not in size:
        return ""
    shown = (text.replace("stride ", "s") for text in others if not text.startswith(("pad", "no")))
    return ", ".join([size, *shown])


def _named(family: str, name: str) -> Layer:
    """A norm, an activation or another layer, by the name of its op or class."""
    plain = name.rstrip("_")
    if family == "norm":
        begins = (text for sign, text in NORMS.items() if plain.lower().startswith(sign))
        return Layer(family, next(begins, plain))
    if family == "activation":
        text = plain if plain[:1].isupper() else plain.title().replace("_", "")
        return Layer(family, ACTIVATIONS.get(plain, text))
    return Layer(family, plain)

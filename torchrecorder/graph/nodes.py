"""Nodes: the parts of a recording (scope, module, op, value, grad node), and the edges between
them.

Instruments write them as events. A run has tens of thousands, so they are structs of msgspec, which
are created fifteen times faster than frozen dataclasses and skipped by the garbage collector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from torchrecorder.events import (
    HOOK_REGISTRATIONS, GradEdge, GradId, Gradient, ModuleId, OpId, OpKind, Role, ScopeId,
    ScopeKind, Slot, SourceLine, ValueId,
)

RowT = TypeVar("RowT", bound="Row")


class Row(msgspec.Struct, frozen=True, gc=False):
    """A part of a recording, or of a view over one: plain data, with references by id."""

    def replace(self: RowT, **fields: Any) -> RowT:
        """A copy with these *fields* replaced."""
        return msgspec.structs.replace(self, **fields)


class Module(Row, frozen=True, gc=False):
    """One module object of the model, called or not.

    Attributes:
        names: Its dotted paths from the recorded root, beginning with that of
            ``named_modules()``; ``""`` is the root. The paths in another model begin with the
            variable of the recorded function that contains the model, else with its class. A
            submodule that ``forward`` creates has the path under which it is first called, with a
            number if another module had this path before: ``"proj_1"``. Empty for a module without
            submodules that is in none of these.
        cls: Class name, ``"Conv2d"``; for a compiled or scripted module, that of the module from
            which it was made.
        qualname: Class name with its module, ``"torch.nn.modules.conv.Conv2d"``.
        detail: The result of ``extra_repr()``, on one line; for ``nn.MultiheadAttention``, which
            has none, ``embed_dim`` and ``num_heads``.
        parameters: Its own parameters (not those of its children): name and value.
        buffers: Its own buffers.
        training: Whether it was in training mode.
        calls: The scopes that are calls of it, in run order.
        apart: Whether it is not part of the recorded model.
    """

    id: ModuleId
    names: tuple[str, ...]
    cls: str
    qualname: str
    detail: str
    parameters: tuple[Slot, ...]
    buffers: tuple[Slot, ...]
    training: bool
    calls: tuple[ScopeId, ...]
    apart: bool = False

    def around(self) -> Iterator[str]:
        """Its paths and those of the modules that contain it: ``a.b``, ``a`` and the root."""
        for path in self.names:
            while path:
                yield path
                path = path.rpartition(".")[0]
            if not self.apart:
                yield ""

    @property
    def is_parameter_list(self) -> bool:
        """Whether it is a ``ParameterList`` or ``ParameterDict``, which is never called."""
        return self.qualname.startswith("torch.nn.modules.container.Parameter")

    @property
    def stored(self) -> tuple[Slot, ...]:
        """Its own parameters and buffers."""
        return (*self.parameters, *self.buffers)


class Scope(Row, frozen=True, gc=False):
    """One call of a module or function, or a region such as ``no_grad``.

    Attributes:
        parent: The scope around it; None at the top.
        index: Position in run order, counted over scopes and ops together.
        kind: Whether it is a call of a module or function, or which kind of region.
        name: Its short name: ``"conv1"``; class or function name at the top.
        path: Dotted path from the recorded root, ``"layer1.0.conv1"``.
        cls: Class name of the module, or the name of the region.
        module: The module that is called; None for functions and regions.
        call: The number of the call of that module, from 0.
        inputs: Tensors in its arguments, by name.
        outputs: Tensors in its results, by name.
        seconds: Wall-clock time inside, including that of the recorder.
        recompute: Whether it ran again during backward, for activation checkpointing or in a custom
            function.
        failed: Whether it raised an exception.
    """

    id: ScopeId
    parent: ScopeId | None
    index: int
    kind: ScopeKind
    name: str
    path: str
    cls: str
    module: ModuleId | None
    call: int
    source: SourceLine | None
    recompute: bool
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    seconds: float | None
    failed: bool

    @property
    def registers_hooks(self) -> bool:
        """Whether PyTorch ran it beside the ops of a module, to call hooks in the backward pass."""
        return self.kind is ScopeKind.CUSTOM_FUNCTION and self.cls in HOOK_REGISTRATIONS


class Op(Row, frozen=True, gc=False):
    """One call of a torch function.

    Attributes:
        scope: The scope it ran in.
        index: Position in run order, counted over scopes and ops together.
        kind: The way in which it was recorded.
        name: Its short name, ``"linear"``.
        qualname: Its full name, ``"torch.nn.functional.linear"``.
        inputs: One slot per tensor argument, in order; ``x * x`` has two.
        outputs: The values that it returned or wrote in place.
        writes: The outputs that were written in place.
        arguments: Its other arguments as ``(name, text)``.
        source: The user's line that called it.
        seconds: Wall-clock time of the call itself, without the recorder.
        recompute: Whether it ran again during backward, for activation checkpointing or in a custom
            function.
        failed: Whether the run ended with an exception in it, or in its grad node. A call that
            runs a backward pass also failed if the program caught the exception.
        random: Whether it drew from a random generator of PyTorch; for fake tensors, whether it
            would. False if unknown: for hidden ops, and in files of earlier versions.
    """

    id: OpId
    scope: ScopeId | None
    index: int
    kind: OpKind
    name: str
    qualname: str
    inputs: tuple[Slot, ...]
    outputs: tuple[ValueId, ...]
    writes: tuple[ValueId, ...]
    arguments: tuple[tuple[str, str], ...]
    source: SourceLine | None
    seconds: float | None
    recompute: bool
    failed: bool = False
    random: bool = False


class Value(Row, frozen=True, gc=False):
    """A tensor between two in-place writes; each write creates another value.

    Attributes:
        shape: Sizes; empty for a scalar.
        dtype: ``"float32"``.
        device: ``"cpu"``, ``"cuda:0"``, ``"meta"``.
        role: Its role in the run. Outputs are listed in ``outputs`` of the scope.
        names: Dotted names of a parameter or buffer (several when tied), or the
            argument name of an input.
        producer: The op that returned or wrote it; None if it existed before the run.
        requires_grad: ``requires_grad`` of the tensor when it was first seen.
        grad: Its ``grad_fn`` and ``output_nr``.
        bytes: Number of elements times element size; of a sparse tensor, or a subclass that wraps
            others, such as a quantized weight, the sum of those of the tensors that it consists of.
        kind: ``"Tensor"``, ``"Parameter"``, the subclass, or a layout that is not strided.
        trainable: Whether it is a parameter that requires grad, at least where one operation reads
            it: a critic that is frozen while its generator is trained has trainable weights.
        storage: The number of its storage: values with equal numbers share memory; -1 without one.
    """

    id: ValueId
    shape: tuple[int, ...]
    dtype: str
    device: str
    role: Role
    names: tuple[str, ...]
    producer: OpId | None
    requires_grad: bool
    grad: GradEdge | None
    bytes: int
    kind: str
    trainable: bool
    storage: int


class GradNode(Row, frozen=True, gc=False):
    """One node of the autograd graph.

    Attributes:
        name: ``"AddmmBackward0"``.
        owner: The op whose forward created it.
        scope: The scope in which it was created.
        next: The next nodes, by input of the forward; None for inputs without a gradient.
        variable: The leaf into whose ``grad`` an ``AccumulateGrad`` accumulates.
        made_by: The grad node whose run created it, for double backward or for a backward pass
            that this node runs.
        failed: Whether the backward pass failed in it.
    """

    id: GradId
    name: str
    owner: OpId | None
    scope: ScopeId | None
    next: tuple[GradEdge | None, ...]
    variable: ValueId | None
    made_by: GradId | None = None
    failed: bool = False


class BackwardRun(Row, frozen=True, gc=False):
    """One call of ``backward()`` or ``grad()``.

    Attributes:
        run: Its number, counted from 0.
        op: The call.
        seconds: Wall-clock time, without that of the recorder.
        create_graph: Whether it was called with ``create_graph=True``.
        failed: Whether it raised an exception.
        replacements: Results of hooks that its nodes received or returned in place of the gradients
            that PyTorch computed.
        cleared: The leaves whose ``grad`` was None again at its end, each named after the hooks
            that run when a gradient was accumulated: ``"update() at train.py:12"``.
    """

    run: int
    op: OpId
    seconds: float | None
    create_graph: bool
    failed: bool
    replacements: tuple[ValueId, ...] = ()
    cleared: tuple[Slot, ...] = ()


class GradRun(Row, frozen=True, gc=False):
    """One run of a grad node.

    Attributes:
        grad: The node.
        run: The backward run it ran in.
        order: Its position among the nodes of that run.
        seconds: Wall-clock time, without the recorder's hooks; None for ``AccumulateGrad`` in a
            backward pass that another node runs, to which the time belongs.
        given: The gradients it received, one per output of the forward.
        gave: The gradients it returned, one per input of the forward; empty for
            ``AccumulateGrad``, and from PyTorch 2.15 on for a custom function, whose behavior a
            hook would change.
        failed: Whether it raised an exception.
    """

    grad: GradId
    run: int
    order: int
    seconds: float | None
    given: tuple[Gradient | None, ...]
    gave: tuple[Gradient | None, ...]
    failed: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """A value is the input or output of an op.

    Attributes:
        slot: The name of the argument (``"weight"``, ``"0"``), or the index of the result.
        in_place: Whether the op wrote it in place.
    """

    slot: str
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class GradFlow:
    """A gradient goes from one grad node to the next.

    Attributes:
        source: The index of the input of the forward that this gradient belongs to.
        index: The index of the output of the next node's forward that it belongs to.
    """

    source: int
    index: int

"""Replay: run the recorded graph again, op by op, along its edges only.

A witness of its own keeps which function was called with which other arguments, and what
the tensors held. The recording says which value goes in where. If every output comes out
bit for bit as in the run, the edges carry what they should.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tests.agreement import Agreement
from tests.callers import ATTENTION, called_inside, is_of_attention, is_of_checkpoint
from tests.witness import Read, Witness, innermost, name_of, results_of, tensors_of
from torchrecorder.events import OpKind, ValueId
from torchrecorder.graph.nodes import Op
from torchrecorder.recording import Recording

_CANNOT = {"backward", "grad", "run_backward"}
"""Functions that need the autograd graph of the run: their results are taken as given."""

_UNINITIALIZED = ("empty", "new_empty", "new", "resize_", "resize_as_")
"""Functions that give whatever the memory held."""


@dataclass
class Kept:
    """What it takes to make one call again, if that can be done."""

    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    random: list[Tensor]
    autocast: tuple[bool, Any]
    grad: bool
    again: bool
    given: list[Tensor] = field(default_factory=list)
    gave: list[Tensor] = field(default_factory=list)


class Keeper(TorchFunctionMode):
    """Keeps every call that *witness* hears too; enter it inside the witness."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self.calls: list[Kept] = []
        self.roots: dict[int, Tensor] = {}
        self._below = _KeepBelow(self, witness)

    def __enter__(self):
        self._below.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self._below.__exit__(*error)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if is_of_checkpoint():
            return func(*args, **(kwargs or {}))
        if func is ATTENTION and is_of_attention():
            return called_inside(self, args, kwargs or {})
        return self.keep(func, args, kwargs or {})

    def keep(self, func, args, kwargs):
        """Make a call, and keep it."""
        autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        args, kwargs = _filled((args, kwargs), tensors_of((args, kwargs)))  # lists may grow later
        modes = autocast, torch.is_grad_enabled(), name_of(func) not in _CANNOT and not _within()
        kept = Kept(func, args, kwargs, _random(), *modes)
        kept.given = [_copy(innermost(each)) for each in tensors_of((args, kwargs))]
        self.calls.append(kept)
        made = func(*args, **kwargs)
        kept.gave = [_copy(innermost(each)) for each in tensors_of(made)]
        return made


def _random() -> list[Tensor]:
    """The state of the random generators, of the CPU and of the GPUs in use."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        more = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        return [torch.get_rng_state(), *more]


def _within() -> bool:
    """Whether ``vmap`` or its kin is at work: a call of one sample cannot be made alone."""
    return torch._C._functorch.peek_interpreter_stack() is not None


class _KeepBelow(TorchDispatchMode):
    """Keeps the calls that the witness hears inside of scripts."""

    def __init__(self, keeper: Keeper, witness: Witness) -> None:
        super().__init__()
        self.keeper = keeper
        self.witness = witness

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        scripted = self.witness.is_scripted and func is not torch.ops.aten.detach.default
        with torch._C.DisableTorchFunction():
            if scripted:
                return self.keeper.keep(func, args, kwargs or {})
            return func(*args, **(kwargs or {}))


def _copy(tensor: Tensor) -> Tensor:
    """The same bits in memory of its own, laid out the same way."""
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        plain = tensor.detach()
        odd = plain.is_nested or plain.is_quantized or plain.is_meta
        if odd or isinstance(plain, FakeTensor) or plain.layout is not torch.strided:
            return plain.clone().requires_grad_(tensor.requires_grad)
        try:
            storage = plain.untyped_storage().clone()
        except (NotImplementedError, RuntimeError):
            return plain.clone()
        made = torch.empty(0, dtype=plain.dtype, device=plain.device).set_(
            storage, plain.storage_offset(), plain.size(), plain.stride()
        )
        made = made.conj() if plain.is_conj() else made
        return made.requires_grad_() if tensor.requires_grad and not _within() else made


@dataclass(frozen=True)
class KeptRun:
    """One run of a model under a witness and a keeper.

    Attributes:
        read: What the witness reads of the outputs.
        outputs: Copies of them.
    """

    witness: Witness
    keeper: Keeper
    read: list[Read]
    outputs: list[Tensor]


def kept_run(run: Any) -> KeptRun:
    """Run a model under a witness and a keeper."""
    witness = Witness(run.model)
    keeper = Keeper(witness)
    witness.meet(run)
    with witness, keeper:
        output = run.model(*run.args, **(run.kwargs or {}))
    read = [witness.read(each) for each in results_of(output)]
    return KeptRun(witness, keeper, read, [_copy(each) for each in tensors_of(output)])


class Replay:
    """Runs a recording again.

    Attributes:
        problems: Where a value came out differently.
        ran: How many ops were run again.
    """

    def __init__(self, recording: Recording, agreement: Agreement, keeper: Keeper) -> None:
        self.recording = recording
        self.keeper = keeper
        self.calls = {op: call.number for op, call in agreement.call_of.items()}
        self.values: dict[ValueId, Tensor] = {}
        self.memory: dict[int, Tensor] = {}
        self.problems: list[str] = []
        self.written: set[ValueId] = set()
        self.ran = 0

    def run(self, outputs: list[Tensor]) -> list[str]:
        """All ops in order, then compare the *outputs*."""
        with torch.no_grad():
            for op in self.recording.ops.values():
                self._step(op)
            for slot, wanted in zip(self.recording.outputs, outputs):
                self._compare(self._get(slot.value, wanted), wanted, f"output {slot.name}")
        return self.problems

    def _step(self, op: Op) -> None:
        number = self.calls.get(op.id)
        if op.kind is OpKind.PASS:
            source = self.values.get(op.inputs[0].value)
            if source is None and number is not None:
                source = self._get(op.inputs[0].value, self.keeper.calls[number].given[0])
            if source is not None:
                self.values.update(dict.fromkeys(op.outputs, source))
        if op.kind is OpKind.PASS or number is None:
            return
        kept = self.keeper.calls[number]
        given = [
            self._get(slot.value, held) for slot, held in zip(op.inputs, kept.given)
        ]
        for slot, tensor, held in zip(op.inputs, given, kept.given):
            self._compare(tensor, held, f"{op.id} {op.name} reads {slot.name}")
        if not kept.again or not op.outputs:
            return
        made = self._call(kept, given, quietly=bool(op.writes))
        if op.name in _UNINITIALIZED or op.name.startswith("empty_"):
            for tensor, wanted in zip(made, kept.gave):
                tensor.copy_(wanted)
        self.ran += 1
        for tensor, wanted in zip(made, kept.gave):
            self._compare(tensor, wanted, f"{op.id} {op.name} gives")
        self._keep(op, given, made)

    def _call(self, kept: Kept, given: list[Tensor], *, quietly: bool) -> list[Tensor]:
        """Once more, in the modes of the run: some kernels look at who requires grad."""
        if kept.grad and not quietly:
            ready = {  # one object stays one object: some functions ask for identity
                id(each): each.detach().requires_grad_() if held.requires_grad else each
                for each, held in zip(given, kept.given)
            }
            given = [ready[id(each)] for each in given]
        left = iter(given)
        args = _filled(kept.args, left)
        kwargs = {name: _filled(each, left) for name, each in kept.kwargs.items()}
        enabled, dtype = kept.autocast
        torch.set_rng_state(kept.random[0])
        if kept.random[1:]:
            torch.cuda.set_rng_state_all(kept.random[1:])
        with torch.autocast("cpu", enabled=enabled, dtype=dtype):
            with torch.set_grad_enabled(kept.grad and not quietly):
                made = list(tensors_of(kept.func(*args, **kwargs)))
        return made if quietly else [each.detach() for each in made]

    def _keep(self, op: Op, given: list[Tensor], made: list[Tensor]) -> None:
        """What came out, under the names the recording gives it."""
        written = [value for value in op.outputs if value in op.writes]
        fresh = [value for value in op.outputs if value not in op.writes]
        new = [each for each in made if not any(each is other for other in given)]
        self.values.update(zip(fresh, new))
        for value in written:
            tensor = self._alias(value, op, given)
            if tensor is not None:
                self.values[value] = tensor
                self.written.add(value)

    def _alias(self, value: ValueId, op: Op, given: list[Tensor]) -> Tensor | None:
        """The tensor in which a written value lies: by memory and shape, the nearest."""
        wanted = self.recording.values[value]
        near = [
            (slot.value, tensor) for slot, tensor in zip(op.inputs, given)
        ] + list(reversed(self.values.items()))
        for other, tensor in near:
            known = self.recording.values[other]
            shape = known.shape if tensor.is_nested else tuple(tensor.shape)
            if known.storage == wanted.storage and shape == wanted.shape:
                return tensor
        return None

    def _get(self, value: ValueId, held: Tensor) -> Tensor:
        """A value; one that nothing recorded made is taken as the run had it."""
        if value not in self.values:
            producer = self.recording.values[value].producer
            if producer in self.calls and self.keeper.calls[self.calls[producer]].again:
                name = self.recording.ops[producer].name
                self.problems.append(f"{value} should come out of {producer} {name}")
            self.values[value] = held.clone() if held.is_quantized else _copy(held)
        elif value in self.written:
            self.values[value] = _placed(self.values[value], held)
        return self.values[value]

    def _compare(self, found: Tensor, wanted: Tensor, where: str) -> None:
        if len(self.problems) < 20 and not _same(found, wanted):
            self.problems.append(f"{where}: {tuple(found.shape)} differs")


def _placed(found: Tensor, held: Tensor) -> Tensor:
    """The part of the memory behind *found* that the tensor read covers."""
    if found.layout is not torch.strided or found.is_nested or found.is_quantized or found.is_meta:
        return found
    same = found.stride() == held.stride() and found.storage_offset() == held.storage_offset()
    if same and found.shape == held.shape or found.dtype != held.dtype:
        return found
    if found.untyped_storage().nbytes() != held.untyped_storage().nbytes():
        return found
    return found.as_strided(held.size(), held.stride(), held.storage_offset())


def _filled(found: Any, left: Any) -> Any:
    """*found* with the next tensors in place of those it held."""
    if isinstance(found, Tensor):
        return next(left)
    if isinstance(found, tuple):
        parts = [_filled(each, left) for each in found]
        return type(found)(*parts) if hasattr(found, "_fields") else tuple(parts)
    if isinstance(found, list):
        return [_filled(each, left) for each in found]
    if isinstance(found, dict):
        return {name: _filled(each, left) for name, each in found.items()}
    return found


def _same(one: Tensor, other: Tensor) -> bool:
    if one.is_nested:
        return all(_same(a, b) for a, b in zip(one.unbind(), other.unbind()))
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.is_meta:
        return True
    if one.layout is not torch.strided:
        return _same(one.to_dense(), other.to_dense())
    if one.is_quantized:
        one, other = one.int_repr(), other.int_repr()
    one, other = one.resolve_conj().resolve_neg(), other.resolve_conj().resolve_neg()
    return torch.equal(_bytes(one), _bytes(other))


def _bytes(tensor: Tensor) -> Tensor:
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype)
    return flat.copy_(tensor.detach().reshape(-1)).view(torch.uint8)

"""Witness: what really ran, seen without any of the recorder's code.

A function mode of its own lists the calls; a dispatch mode below it keeps, for every byte of
every storage, which call wrote it last; forward hooks list the module calls. All tensors are
kept, so that an identity means one tensor for the whole run.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.callers import ATTENTION, called_inside, is_of_attention, is_of_checkpoint

with contextlib.suppress(ImportError):
    import numpy as np

BEFORE = -1
"""Made or written before the run."""
UNSEEN = -2
"""Made or written during the run, outside every call that the function mode heard."""


def tensors_of(found: Any) -> Iterator[Tensor]:
    """Tensors in nested tuples, lists, dicts, slices and dataclasses, in reading order."""
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, (tuple, list)):
        for each in found:
            yield from tensors_of(each)
    elif isinstance(found, dict):
        for each in list(found):
            yield from tensors_of(found[each])
    elif isinstance(found, slice):
        for end in (found.start, found.stop, found.step):
            yield from tensors_of(end)
    elif dataclasses.is_dataclass(found) and not isinstance(found, type):
        for field in dataclasses.fields(found):
            yield from tensors_of(getattr(found, field.name, None))


def results_of(output: Any) -> list[Tensor]:
    """Tensors in what a module returned; if there are none, those in attributes of objects."""
    parts = output if isinstance(output, (tuple, list)) else [output]
    held = [getattr(part, "__dict__", None) for part in parts]
    return list(tensors_of(output)) or list(tensors_of(held))


def innermost(tensor: Tensor) -> Tensor:
    """The tensor that *tensor* stands for inside ``vmap`` and the like; else itself."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def _shape(tensor: Tensor) -> tuple[int, ...]:
    try:
        return tuple(tensor.shape)
    except RuntimeError:  # a nested tensor
        return tuple(-1 for _ in range(tensor.dim()))


def _key(tensor: Tensor) -> Any:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return ("tensor", id(tensor))


def _elements(tensor: Tensor) -> Any:
    """Which bytes of its storage *tensor* covers, as an index; all of them if unclear."""
    if tensor.layout is not torch.strided:  # one without elements has strides all the same
        return slice(None)
    try:
        size, stride, start = tensor.size(), tensor.stride(), tensor.storage_offset()
        if 0 in size:
            return np.zeros(0, dtype=np.int64)
        index = np.array([start], dtype=np.int64)
        for length, step in zip(size, stride):
            places = np.arange(1 if step == 0 else int(length), dtype=np.int64) * int(step)
            index = (index[:, None] + places[None, :]).reshape(-1)
        width = tensor.element_size()
        return (index[:, None] * width + np.arange(width)[None, :]).reshape(-1)
    except (NotImplementedError, RuntimeError, TypeError):
        return slice(None)


class Memory:
    """Who wrote each byte of each storage last; a test that asks is skipped without numpy."""

    def __init__(self) -> None:
        pytest.importorskip("numpy")
        self.made: dict[Any, int] = {}
        self.marks: dict[Any, np.ndarray] = {}
        self.history: dict[Any, list[int]] = {}
        self.kept: list[Any] = []

    def born(self, tensor: Tensor, by: int) -> None:
        """A storage is met for the first time."""
        key = _key(tensor)
        if key not in self.made:
            self.made[key] = by
            self.kept.append(tensor)

    def write(self, tensor: Tensor, by: int) -> None:
        """*by* writes the bytes of *tensor*."""
        key = _key(tensor)
        self.born(tensor, BEFORE)
        if key not in self.marks:
            try:
                size = tensor.untyped_storage().nbytes()
            except (NotImplementedError, RuntimeError):
                size = 1
            self.marks[key] = np.full(size, self.made[key], dtype=np.int64)
        self.marks[key][_elements(tensor)] = by
        self.history.setdefault(key, []).append(by)

    def writers(self, tensor: Tensor) -> set[int]:
        """The last writer of each byte that *tensor* covers."""
        key = _key(tensor)
        if key in self.marks:
            return set(np.unique(self.marks[key][_elements(tensor)]).tolist())
        return {self.made.get(key, BEFORE)}

    def writes(self, tensor: Tensor) -> list[int]:
        """Every write to the storage of *tensor*, in order."""
        return self.history.get(_key(tensor), [])


@dataclasses.dataclass
class Read:
    """One tensor at one moment.

    Attributes:
        shape: Its shape at that moment; -1 where it has no one size.
        own: The calls that gave this very tensor, in order; none if it came otherwise.
        place: Its place among the results of the last of them.
        writers: The last writers of its bytes.
        writes: All writers of its storage until then.
        names: Its names in the model, if it is a parameter or buffer.
    """

    tensor: Tensor
    shape: tuple[int, ...]
    own: tuple[int, ...]
    place: int
    writers: set[int]
    writes: tuple[int, ...]
    names: tuple[str, ...]


@dataclasses.dataclass
class Call:
    """One call of a torch function."""

    number: int
    name: str
    reads: list[Read]
    results: list[Tensor] = dataclasses.field(default_factory=list)
    wrote: bool = False
    drew: bool = False  # from the random generator of the CPU

    @property
    def matters(self) -> bool:
        """It gives tensors, or writes one; otherwise it only asks."""
        return bool(self.results) or self.wrote


class _Dispatch(TorchDispatchMode):
    """Marks what the operators below a call make and write."""

    def __init__(self, witness: Witness) -> None:
        super().__init__()
        self.witness = witness

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not self.witness.is_scripted:
            return self._run(func, *args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            if func is torch.ops.aten.detach.default:
                return self.witness.set_aside(args[0])
            return self.witness.hear(func, args, kwargs or {}, self._run)

    def _run(self, func, *args, **kwargs):
        with torch._C.DisableTorchFunction():
            if torch.is_inference_mode_enabled() and func._can_decompose():
                with self:  # its schema may promise a write that does not happen
                    made = func.decompose(*args, **kwargs)
                if made is not NotImplemented:
                    return made
            made = func(*args, **kwargs)
            self._mark(func, args, kwargs, made)
        return made

    def _mark(self, func, args, kwargs, made):
        memory, by = self.witness.memory, self.witness.current
        schema = getattr(func, "_schema", None)  # None for a higher-order operator
        for number, argument in enumerate(schema.arguments if schema else ()):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            found = args[number] if number < len(args) else kwargs.get(argument.name)
            for tensor in tensors_of(found):
                memory.write(tensor, by)
                self.witness.wrote = True
        named = {each.name: arg for each, arg in zip(schema.arguments if schema else (), args)}
        if named.get("training") is True and "running_mean" in named:  # its schema is silent
            for tensor in tensors_of((named["running_mean"], named["running_var"])):
                memory.write(tensor, by)
                self.witness.wrote = True
        read = {_key(each) for each in tensors_of((args, kwargs))}
        for tensor in tensors_of(made):
            if _key(tensor) not in read:
                memory.born(tensor, by)


class Witness(TorchFunctionMode):
    """Listens to one run of *model*; enter it around the call.

    Attributes:
        calls: Every call of a torch function, in order.
        modules: Every call of a module: its path, its inputs, its outputs.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.modules: list[tuple[str, list[Read], list[Read]]] = []
        self.memory = Memory()
        self.current = UNSEEN
        self.scripts = 0  # how many scripted modules are running
        self.wrote = False
        self.own: dict[int, list[int]] = {}
        self.place: dict[int, int] = {}
        self.kept: list[Any] = []
        self.names: dict[int, list[str]] = {}
        self.handles: list[Any] = []
        self._model = model
        self._dispatch = _Dispatch(self)
        if isinstance(model, nn.Module):
            found = [*model.named_parameters(remove_duplicate=False)]
            found += model.named_buffers(remove_duplicate=False)
            for name, tensor in found:
                self.names.setdefault(id(tensor), []).append(name)
                self.kept.append(tensor)

    def __enter__(self):
        for name, module in self._named_modules():
            pre = module.register_forward_pre_hook(self._enter(name), with_kwargs=True)
            self.handles += [pre, module.register_forward_hook(self._leave, with_kwargs=True)]
        self.stack: list[tuple[str, list[Read], list[Read]]] = []
        self.handles += [
            register_module_forward_pre_hook(lambda *each: self._count(each[0], 1)),
            register_module_forward_hook(lambda *each: self._count(each[0], -1)),
        ]
        self._dispatch.__enter__()
        return super().__enter__()

    def _count(self, module, by):
        self.scripts += by * isinstance(module, torch.jit.ScriptModule)

    def __exit__(self, *error):
        super().__exit__(*error)
        self._dispatch.__exit__(*error)
        for handle in self.handles:
            handle.remove()

    def _named_modules(self):
        if isinstance(self._model, nn.Module):
            for name, module in self._model.named_modules():
                if not isinstance(module, torch.jit.ScriptModule):
                    yield name, module

    def _enter(self, name):
        def enter(module, args, kwargs):
            with torch._C.DisableTorchFunction():
                entry = (name, [self.read(each) for each in tensors_of((args, kwargs))], [])
            self.modules.append(entry)
            self.stack.append(entry)

        return enter

    def _leave(self, module, args, kwargs, output):
        with torch._C.DisableTorchFunction():
            self.stack.pop()[2].extend(self.read(each) for each in results_of(output))

    def meet(self, run: Any) -> None:
        """What the model is called with is there before it runs."""
        for tensor in tensors_of((run.args, run.kwargs or {})):
            self.memory.born(tensor, BEFORE)

    def read(self, tensor: Tensor) -> Read:
        """What is known of *tensor* now."""
        tensor = innermost(tensor)
        self.kept.append(tensor)
        self.memory.born(tensor, BEFORE)
        return Read(
            tensor,
            _shape(tensor),
            tuple(self.own.get(id(tensor), ())),
            self.place.get(id(tensor), -1),
            self.memory.writers(tensor),
            tuple(self.memory.writes(tensor)),
            tuple(self.names.get(id(tensor), ())),
        )

    @property
    def is_scripted(self) -> bool:
        """Whether a script runs, and no call that the function mode heard."""
        return self.scripts > 0 and self.current == UNSEEN

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if is_of_checkpoint():
            return func(*args, **(kwargs or {}))
        if func is ATTENTION and is_of_attention():
            return called_inside(self, args, kwargs or {})
        return self.hear(func, args, kwargs or {}, lambda func, *args, **kw: func(*args, **kw))

    def hear(self, func, args, kwargs, run):
        """Let *run* call *func*, and note the call."""
        found = list(tensors_of((args, kwargs)))
        call = Call(len(self.calls), name_of(func), [self.read(each) for each in found])
        before = [_mark(each, call.name) for each in found]
        self.calls.append(call)
        random = torch.default_generator.get_state()
        self.current, outer = call.number, self.current
        self.wrote, outer_wrote = False, self.wrote
        try:
            made = run(func, *args, **kwargs)
        finally:
            self.current = outer
            call.wrote, self.wrote = self.wrote, outer_wrote
            call.drew = not torch.equal(random, torch.default_generator.get_state())
        self._changed(call, found, before)
        if call.name == "set_data":  # from here on the tensor is another one
            self.own.setdefault(id(found[0]), []).append(call.number)
        call.results = list(tensors_of(made))
        for place, tensor in enumerate(map(innermost, call.results)):
            self.own.setdefault(id(tensor), []).append(call.number)
            self.place[id(tensor)] = place
            self.kept.append(tensor)
            self.memory.born(tensor, call.number)
        return made

    def set_aside(self, tensor):
        """Autograd, or the interpreter, detaches a tensor for itself."""
        made = tensor.detach()
        self.kept += [tensor, made]
        self.own[id(made)] = list(self.own.get(id(tensor), ()))
        self.place[id(made)] = self.place.get(id(tensor), -1)
        self.names[id(made)] = self.names.get(id(tensor), [])
        return made

    def _changed(self, call: Call, found: list[Tensor], before: list[int]) -> None:
        """Writes that the operators' schemas do not confess."""
        for tensor, version in zip(found, before):
            moved = _mark(tensor, call.name) != version
            if moved and call.number not in self.memory.writes(tensor):
                self.memory.write(tensor, call.number)
                call.wrote = True


def _mark(tensor: Tensor, name: str) -> Any:
    """Something that changes when *tensor* is written: its version; its bytes in a norm.

    The schemas of batch norm do not tell that the running statistics are written, and no
    version is counted up.
    """
    if name.endswith("_norm") and tensor.dim() == 1 and not tensor.is_meta:
        return tensor.detach().tolist()
    return -1 if tensor.is_inference() else tensor._version


def name_of(func: Any) -> str:
    """A plain name for a torch function."""
    name = getattr(func, "__name__", type(func).__name__)
    if name in ("__get__", "__set__"):
        return f"{name.strip('_')}_{getattr(func.__self__, '__name__', '')}"
    return str(name).split(".")[0].strip("_")

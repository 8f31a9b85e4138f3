"""assert_inert: check that recording a model does not change its run.

The model runs with and without the recorder, each time created from the same random state. All
observable state after each run is compared bit for bit: results, gradients, buffers, random state,
flags, hooks, identities, shared memory, living tensors. The recording itself is not used.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sized
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.internals.access import (
    WithoutSubclasses, count_dispatch_modes, count_function_modes, saved_tensor_hooks,
    without_dispatch_modes,
)
from torchrecorder.capture.record import record
from torchrecorder.capture.recorder import Recorder
from torchrecorder.capture.tensors.describe import tensors_in
from torchrecorder.checks import plural

MadeCall = tuple[Any, tuple[Any, ...], Mapping[str, Any]]
"""A model, its positional and its keyword arguments."""

_GLOBAL_HOOKS = tuple(
    name for name in vars(torch.nn.modules.module) if name.startswith("_global_")
)
_WATCHED = (torch, torch.Tensor, torch.nn.functional, Module, torch.autograd, torch.cuda)
"""Where a recorder might replace functions of PyTorch."""


def assert_inert(
    make: Callable[[], MadeCall],
    *,
    backward: bool = True,
    lasting: bool = False,
    leaking: bool = False,
) -> None:
    """Assert that `record` and `Recorder` do not change the run of a model.

    Args:
        make: Returns a new model with new arguments; called several times, each time with the
            same random seed.
        backward: Also run the backward pass, from every result that requires grad.
        lasting: The model writes its inputs or its parameters, which `record` cannot
            undo; leave out that one comparison.
        leaking: The plain run itself leaks tensors, for example by writing in place to tensors
            saved for its own gradient; do not count them.

    Raises:
        AssertionError: Something differs; the message names it, and the function.

    Example:
        >>> import torch
        >>> assert_inert(lambda: (torch.nn.Linear(2, 2), (torch.ones(1, 2),), {}))
    """
    compare = partial(_compare_all, leaking=leaking)
    with _little_garbage():
        _account(make, _plainly, backward)  # fills the caches of PyTorch and of the model
        plain = _account(make, _plainly, backward)
        compare("Recorder around forward", plain, _account(make, _around_forward, backward))
        compare("Recorder around both", plain, _account(make, _around_both, backward))
        plain = _account(make, _plainly)
        compare("record(restore=False)", plain, _account(make, partial(_alone, restore=False)))
        if lasting:
            return
        before = _account(make, lambda *run: None)
        for name in ("error", "tensors left alive"):  # those of the model itself
            before[name] = plain.get(name)
        compare("record", before, _account(make, _alone))


@contextlib.contextmanager
def _little_garbage() -> Iterator[None]:
    """A context in which existing objects are not collected, and collection is manual.

    Where some were frozen before, those of today stay frozen too: they cannot be told apart.
    """
    frozen, enabled = _something_is_frozen(), gc.isenabled()
    gc.collect()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        if not frozen:
            gc.unfreeze()
        if enabled:
            gc.enable()


def _something_is_frozen() -> bool:
    """Whether ``gc.freeze`` was called: it freezes all that there is, so also ``sys.modules``.

    ``gc.get_freeze_count`` would go through all that is frozen.
    """
    return not any(item is sys.modules for item in gc.get_objects())


# Ways to run ----------------------------------------------------------------------------

Way = Callable[[Any, tuple[Any, ...], Mapping[str, Any], Callable[[Any], None]], Any]


def _plainly(model: Any, args: Any, kwargs: Any, finish: Callable[[Any], None]) -> Any:
    output = model(*args, **kwargs)
    finish(output)
    return output


def _around_forward(model: Any, args: Any, kwargs: Any, finish: Callable[[Any], None]) -> Any:
    with Recorder(model):
        output = model(*args, **kwargs)
    finish(output)
    return output


def _around_both(model: Any, args: Any, kwargs: Any, finish: Callable[[Any], None]) -> Any:
    with Recorder(model):
        return _plainly(model, args, kwargs, finish)


def _alone(
    model: Any, args: Any, kwargs: Any, finish: Callable[[Any], None], restore: bool = True
) -> Any:
    record(model, args, kwargs, restore=restore)


# Accounts -------------------------------------------------------------------------------


def _account(
    make: Callable[[], MadeCall], way: Way, backward: bool | None = None
) -> dict[str, Any]:
    """All observable state after one run; of a run without a choice of *backward*, only what it
    leaves behind."""
    gc.collect()
    alive = _living_tensors()
    _seed()
    model, args, kwargs = make()
    if backward is None and isinstance(model, Module):
        _give_gradients(model)
    account = _run(model, args, kwargs, way, backward)
    del model, args, kwargs
    account["tensors left alive"] = _living_tensors() - alive
    gc.collect()
    account["tensors left alive for good"] = _living_tensors() - alive
    return account


def _seed() -> None:
    torch.manual_seed(0)
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def _give_gradients(model: Module) -> None:
    """Set gradients as from an earlier step, which recording must not change."""
    for parameter in model.parameters():
        if parameter.requires_grad and type(parameter) is torch.nn.Parameter:
            parameter.grad = torch.full_like(parameter, 0.5)


def _run(
    model: Any, args: Any, kwargs: Any, way: Way, backward: bool | None
) -> dict[str, Any]:
    watched = [dict(vars(home)) for home in _WATCHED]
    output, error = None, None
    try:
        output = way(model, args, kwargs, _backward if backward else lambda output: None)
    except Exception as raised:
        error = (type(raised), str(raised))
        del raised
    account: dict[str, Any] = {"error": error}
    numbers = _IdentityNumbers()
    if backward is not None:
        account.update(_of_value("output", output, numbers))
    account.update(_of_value("args", (args, dict(kwargs)), numbers))
    if isinstance(model, Module):
        account.update(_of_model(model, numbers))
    account.update(_of_process())
    account["torch patched"] = _replaced(watched)
    return account


def _backward(output: Any) -> None:
    found = [item for _, item in tensors_in(output) if item.requires_grad]
    if found:
        torch.autograd.backward(found, [torch.ones_like(item) for item in found])


class _IdentityNumbers:
    """Numbers objects and storages in the order of first use, to compare identities."""

    def __init__(self) -> None:
        self.of: dict[Any, tuple[int, Any]] = {}

    def number(self, kind: str, key: Any, kept: Any) -> int:
        """The number of *key*, which nothing else can have while *kept* lives."""
        return self.of.setdefault((kind, key), (len(self.of), kept))[0]


def _of_value(path: str, value: Any, numbers: _IdentityNumbers) -> dict[str, Any]:
    account: dict[str, Any] = {f"{path}: type": type(value).__name__}
    for name, tensor in tensors_in(value, path):
        account.update(_of_tensor(name, tensor, numbers))
    return account


def _of_tensor(path: str, tensor: Tensor, numbers: _IdentityNumbers) -> dict[str, Any]:
    account = {
        f"{path}: class": type(tensor),
        f"{path}: dtype": tensor.dtype,
        f"{path}: layout": tensor.layout,
        f"{path}: device": tensor.device,
        f"{path}: requires_grad": tensor.requires_grad,
        f"{path}: leaf": tensor.is_leaf,
        f"{path}: grad_fn": type(tensor.grad_fn).__name__,
        f"{path}: version": "inference" if tensor.is_inference() else tensor._version,
        f"{path}: identity": numbers.number("tensor", id(tensor), tensor),
        f"{path}: memory": numbers.number("storage", _storage(tensor), tensor),
        f"{path}: attributes": sorted(getattr(tensor, "__dict__", {})),
        f"{path}: hooks": len(tensor._backward_hooks or ()),
        f"{path}: bits": _bits(tensor),
    }
    if tensor.is_leaf and tensor.requires_grad and not tensor.is_inference():
        account[f"{path}: gradient"] = None if tensor.grad is None else _bits(tensor.grad)
    return account


def _storage(tensor: Tensor) -> Any:
    try:
        return tensor.untyped_storage()._cdata
    except (NotImplementedError, RuntimeError):
        return ("none", id(tensor))


def _bits(tensor: Tensor) -> Any:
    """The values of a tensor as bytes, NaN included; its shape where it has no values."""
    tensor = tensor.detach()
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        return tuple(tensor.shape)
    if tensor.is_nested:
        return [_bits(item) for item in tensor.unbind()]
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    if tensor.layout is torch.sparse_coo:
        return _bits(tensor._indices()), _bits(tensor._values()), tuple(tensor.shape)
    if tensor.layout is not torch.strided:
        return _bits(tensor.to_dense())
    if type(tensor) is not Tensor and hasattr(tensor, "__tensor_flatten__"):
        names, _ = tensor.__tensor_flatten__()
        parts = [getattr(tensor, name, None) for name in names]
        return [_bits(part) for part in parts if isinstance(part, Tensor)]
    return _bytes(tensor)


def _bytes(tensor: Tensor) -> Any:
    with WithoutSubclasses():
        plain = tensor.cpu().contiguous().resolve_conj().resolve_neg()
        try:
            return tuple(plain.shape), _memory(plain)
        except (RuntimeError, TypeError):  # a wrapper that holds its values elsewhere
            return tuple(plain.shape)


def _memory(tensor: Tensor) -> bytes:
    """The bytes of a contiguous tensor on the CPU; numpy need not be installed."""
    place, count = tensor.data_ptr(), tensor.nbytes
    if count and not place:
        raise RuntimeError("the tensor has no memory of its own")
    return ctypes.string_at(place, count)


def _of_model(model: Module, numbers: _IdentityNumbers) -> dict[str, Any]:
    account: dict[str, Any] = {}
    for path, module in model.named_modules():
        account[f"{path}: training"] = getattr(module, "training", None)
        account[f"{path}: attributes"] = sorted(module.__dict__)
        account[f"{path}: class"] = type(module).__qualname__
        for name, item in module.__dict__.items():
            if name.endswith("_hooks"):
                account[f"{path}: {name}"] = len(item)
    for path, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if not torch.nn.parameter.is_lazy(tensor):
            account.update(_of_tensor(path, tensor, numbers))
    return account


def _of_process() -> dict[str, Any]:
    hooks = {name: getattr(torch.nn.modules.module, name) for name in _GLOBAL_HOOKS}
    account: dict[str, Any] = {  # one of them is a flag
        name: len(found) if isinstance(found, Sized) else found for name, found in hooks.items()
    }
    account["recursion limit"] = sys.getrecursionlimit()
    with without_dispatch_modes():  # a fake-tensor mode would give a state without numbers
        account["random state of torch"] = _memory(torch.get_rng_state())
    account["random state of python"] = random.getstate()
    if "numpy" in sys.modules:
        kind, numbers, *rest = sys.modules["numpy"].random.get_state()
        account["random state of numpy"] = kind, numbers.tobytes(), *rest
    account["function modes"] = count_function_modes()
    account["dispatch modes"] = count_dispatch_modes()
    account["saved tensor hooks"] = saved_tensor_hooks()
    account["grad mode"] = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    account["autocast"] = torch.is_autocast_enabled("cpu")
    account["default dtype"] = torch.get_default_dtype()
    account["trace function"] = sys.gettrace(), sys.getprofile()
    return account


def _replaced(watched: list[dict[str, Any]]) -> list[str]:
    """Names of those that are others now."""
    return [
        f"{number}.{name}"
        for number, (home, before) in enumerate(zip(_WATCHED, watched))
        for name, item in before.items()
        if vars(home).get(name) is not item
    ]


def _living_tensors() -> int:
    return sum(1 for item in gc.get_objects() if type(item).__name__ in ("Tensor", "Parameter"))


def _compare_all(
    entrance: str, plain: dict[str, Any], recorded: dict[str, Any], *, leaking: bool
) -> None:
    wrong = [
        f"{key}: {_short(plain.get(key))} plainly, {_short(recorded.get(key))} recorded"
        for key in {**plain, **recorded}
        if not _equal(plain.get(key), recorded.get(key))
        and not (leaking and key.startswith("tensors left alive"))
    ]
    if wrong:
        listed = "\n  ".join(wrong[:20])
        raise AssertionError(f"{entrance} is not inert in {plural(len(wrong), 'way')}:\n  {listed}")


def _equal(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:60]}...{text[-57:]}"

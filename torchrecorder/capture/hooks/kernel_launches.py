"""KernelLaunches: record the launches of Triton kernels as ops.

``kernel[grid](...)`` is no torch function, and does not increase the versions of the tensors that
the kernel writes. So while a recorder is active, ``__getitem__`` of the base class of Triton's
kernels returns a launcher that records. The source of the kernel shows the tensors that it writes.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import sys
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from torchrecorder.capture.internals.access import DisableTorchFunction
from torchrecorder.capture.modes.function_mode import FunctionMode
from torchrecorder.capture.modes.op_schema import FunctionFacts
from torchrecorder.capture.modes.python_functions import cells, global_variables
from torchrecorder.capture.state.shared_patch import SharedPatch, replaced


class KernelLaunches:
    """A context in which the kernel launches of one thread are recorded, if Triton is imported."""

    def __init__(self, functions: FunctionMode) -> None:
        self.functions = functions
        self.tape = functions.calls.tape

    def __enter__(self) -> KernelLaunches:
        _launches.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _launches.remove(self)

    def launch(self, kernel: Any, plain: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Launch *kernel* with the launcher *plain*; record it unless a recorded op launches it."""
        facts = None
        with self.tape.survives_errors("kernels"):
            if not self.tape.is_elsewhere() and self.functions.records_kernel():
                facts = _facts_of(kernel)
        if facts is None:
            return plain(*args, **kwargs)
        return self.functions.calls.run_op(_without_modes(plain), facts, True, args, kwargs)


def _facts_of(kernel: Any) -> FunctionFacts:
    function = function_of(kernel)
    return FunctionFacts(
        name=function.__name__,
        qualname=f"{function.__module__}.{function.__qualname__}",
        parameters=tuple(kernel.arg_names),
        reads_data=True,
        writes=stored_parameters(function),
        dispatched=True,
    )


def _without_modes(plain: Callable[..., Any]) -> Callable[..., Any]:
    """*plain* without function modes: the torch functions of autotuning are not recorded."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with DisableTorchFunction():
            return plain(*args, **kwargs)

    return call


def _patched() -> contextlib.AbstractContextManager[None]:
    interface: Any = getattr(sys.modules.get("triton.runtime.jit"), "KernelInterface", None)
    if interface is None:  # Triton is not imported
        return contextlib.nullcontext()
    plain = interface.__getitem__

    def getitem(kernel: Any, grid: Any) -> Any:
        launcher = plain(kernel, grid)
        for item in _launches.users:
            launcher = functools.partial(item.launch, kernel, launcher)
        return launcher

    return replaced(interface, "__getitem__", getitem)


_launches: SharedPatch[KernelLaunches] = SharedPatch(_patched)


def function_of(kernel: Any) -> Any:
    """The Python function of a kernel, without its autotuner and heuristics."""
    while not isinstance(kernel, FunctionType) and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return kernel


@functools.lru_cache(256)
def stored_parameters(function: FunctionType) -> tuple[str, ...]:
    """The pointer parameters that a kernel stores to; empty if its source is unknown."""
    return tuple(sorted(_KernelSource(function, ()).stored))


class _KernelSource:
    """Data flow of pointers in the source of a kernel; *around*: the kernels that call it.

    Pointers are followed from the parameters through assignments, and into calls of other kernels,
    to stores and atomic operations. A loaded value is data and no pointer.
    """

    def __init__(self, function: FunctionType, around: tuple[FunctionType, ...]) -> None:
        self.around = (*around, function)
        self.parameters: list[str] = []  # the names of its parameters
        self.stored: set[str] = set()  # the parameters that it stores to
        self.globals = {**dict(global_variables(function)), **dict(cells(function))}
        body = _source_of(function)
        if body is None:
            return
        own = body.args
        self.parameters = [item.arg for item in (*own.posonlyargs, *own.args, *own.kwonlyargs)]
        self._origins = {name: {name} for name in self.parameters}  # of each variable
        known = -1
        while known != (known := sum(map(len, self._origins.values()))):  # loops need a second look
            for part in ast.walk(body):
                self._follow(part)
        for part in ast.walk(body):
            if isinstance(part, ast.Call):
                self.stored.update(*map(self._origins_of, self._stored_by(part)))

    def _follow(self, part: ast.AST) -> None:
        """Add the origins of the value of an assignment to those of its targets."""
        if isinstance(part, ast.Assign):
            for target in part.targets:
                self._assign(target, part.value)
        elif isinstance(part, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and part.value:
            self._assign(part.target, part.value)
        elif isinstance(part, ast.For):
            self._assign(part.target, part.iter)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
            if len(values) != len(target.elts):
                values = [value] * len(target.elts)
            for inner, given in zip(target.elts, values):
                self._assign(inner, given)
        elif isinstance(target, ast.Name):
            self._origins.setdefault(target.id, set()).update(self._origins_of(value))

    def _origins_of(self, expression: ast.AST) -> set[str]:
        """The parameters that a pointer expression is derived from."""
        if isinstance(expression, ast.Name):
            return self._origins.get(expression.id, set())
        if isinstance(expression, ast.Call) and _name_of(expression.func).endswith("load"):
            return set()
        return set().union(*map(self._origins_of, ast.iter_child_nodes(expression)))

    def _stored_by(self, call: ast.Call) -> list[ast.expr]:
        """The pointer expressions that *call* stores to."""
        called = self._object(call.func)
        inner = function_of(called)
        if inner is not called and isinstance(inner, FunctionType):
            return self._stored_inside(call, inner)
        name = _name_of(call.func)
        if not (name.endswith("store") or name.startswith("atomic_")):
            return []
        if isinstance(call.func, ast.Attribute):
            if not isinstance(self._object(call.func.value), ModuleType):
                return [call.func.value]  # a method of a descriptor
        return [*call.args[:1], *(given.value for given in call.keywords if given.arg == "pointer")]

    def _stored_inside(self, call: ast.Call, inner: FunctionType) -> list[ast.expr]:
        """The arguments of a call of the kernel *inner* that it stores to."""
        if inner in self.around:
            return []
        kernel = _KernelSource(inner, self.around)
        given = dict(zip(kernel.parameters, call.args))
        given.update((item.arg, item.value) for item in call.keywords if item.arg)
        return [value for name, value in given.items() if name in kernel.stored]

    def _object(self, name: ast.expr) -> Any:
        """The global object that *name* refers to; None for a variable of the kernel."""
        if isinstance(name, ast.Attribute):
            return getattr(self._object(name.value), name.attr, None)
        if isinstance(name, ast.Name) and name.id not in self._origins:
            return self.globals.get(name.id)
        return None


def _source_of(function: FunctionType) -> ast.FunctionDef | None:
    """The syntax tree of a function; None if its source is unknown."""
    try:
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    return body if isinstance(body, ast.FunctionDef) else None


def _name_of(called: ast.expr) -> str:
    """The last part of a dotted name; empty for other expressions."""
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")

"""Op schema: the names of torch functions and of their arguments, and how they are recorded."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional

from torchrecorder.capture.internals.access import HigherOrderOperator, OpOverload, OpOverloadPacket
from torchrecorder.capture.modes.composed import COMPOSED
from torchrecorder.capture.modes.overloads import Overloads, documented, overloads_of, positional
from torchrecorder.capture.modes.python_functions import cells, positional_parameters
from torchrecorder.capture.modes.random_draws import switches_of
from torchrecorder.graph.memory_access import LEAVES_UNSET

STATISTICS = dict.fromkeys(
    ("batch_norm", "instance_norm", "native_batch_norm", "cudnn_batch_norm"),
    ("running_mean", "running_var"),
)
"""The running statistics that norms write, in training mode only, by function."""

RECEIVED = {
    function: (argument,)
    for argument, functions in {
        "tensor": "all_reduce broadcast reduce recv irecv scatter",
        "tensors": "all_reduce_coalesced",
        "gather_list": "gather",
        "tensor_list": "all_gather",
        "output_tensor_lists": "all_gather_coalesced",
        "output_tensor": "all_gather_into_tensor all_gather_single",
        "output": "reduce_scatter reduce_scatter_tensor reduce_scatter_single all_to_all_single",
        "output_tensor_list": "all_to_all",
    }.items()
    for function in functions.split()
}
"""Arguments that the functions of ``torch.distributed`` write, on any rank."""


def silent_writes(func: Callable[..., Any], name: str, schemas: Iterable[Any]) -> tuple[str, ...]:
    """Arguments that *func* writes without increasing ``_version`` (torch 2.13): running statistics
    of norms, output tensors of collectives, and tensor lists of fused optimizers."""
    if is_collective(func):
        return RECEIVED.get(name, ())
    return STATISTICS.get(name, ()) or _in_lists(schemas)


def is_collective(func: Callable[..., Any]) -> bool:
    """Whether *func* is a function of ``torch.distributed``."""
    return getattr(func, "__module__", "") == "torch.distributed.distributed_c10d"


def _in_lists(schemas: Iterable[Any]) -> tuple[str, ...]:
    """The arguments that an operator writes, if tensor lists are among them.

    Fake tensors in a list do not increase their versions, unlike a single ``out=`` tensor.
    """
    written = [item for schema in schemas for item in schema.arguments if item.is_write]
    lists = any(str(item.type) == "List[Tensor]" for item in written)
    return tuple(dict.fromkeys(item.name for item in written)) if lists else ()


_OPERATORS = {
    "__rsub__": "rsub",
    "__rtruediv__": "div",
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__imatmul__": "matmul_",
    "__rfloordiv__": "floor_divide",
    "__floordiv__": "floor_divide",
    "__ifloordiv__": "floor_divide_",
    "__mod__": "remainder",
    "__rmod__": "remainder",
    "__imod__": "remainder_",
    "__invert__": "bitwise_not",
    "__bool__": "bool()",
    "__nonzero__": "bool()",
    "__float__": "float()",
    "__int__": "int()",
    "__index__": "int()",
    "__complex__": "complex()",
    "__array__": "numpy",
    "_pack_padded_sequence": "pack_padded_sequence",
    "_pad_packed_sequence": "pad_packed_sequence",
}

_REFLECTED = frozenset(
    "__rdiv__ __rtruediv__ __rpow__ __rfloordiv__ __rmod__ __rlshift__ __rrshift__".split()
)
"""Reflected operators: their first argument is the right operand."""

_ITEMS = {"__getitem__": ("self", "index"), "__setitem__": ("self", "index", "value")}
"""The parameters of ``x[index]`` and ``x[index] = value``, whose operators are those of lists."""

_READS_DATA = frozenset(
    "item tolist numpy bool() float() int() complex() contains equal allclose is_nonzero "
    "_local_scalar_dense".split()
)
"""Functions that read the data of a tensor into Python."""

_SHARES_MEMORY = frozenset("numpy dlpack as_tensor asarray".split())
"""Functions that share memory between tensors and NumPy arrays or other libraries."""

_IGNORED = frozenset(
    "size dim numel nelement stride storage_offset data_ptr element_size is_floating_point "
    "is_complex is_signed is_contiguous is_same_size is_pinned is_inference is_neg is_conj "
    "is_shared is_set_to is_distributed is_storage get_device ndimension storage untyped_storage "
    "typed_storage _typed_storage sym_size sym_stride sym_numel requires_grad_ retain_grad "
    "register_hook register_post_accumulate_grad_hook __len__ __repr__ __str__ __format__ "
    "__hash__ __dir__ __reduce_ex__ __reduce__ __setstate__ has_names "
    "dim_order can_cast result_type promote_types _set_grad_enabled manual_seed "
    "_get_tracing_state _is_view _has_compatible_shallow_copy_type is_grad_enabled "
    "is_autocast_enabled get_default_dtype set_default_dtype _assert is_tensor "
    "_record_function_enter _record_function_enter_new _record_function_exit".split()
)
"""Functions that read metadata of a tensor, or configure autograd; they are no ops."""

_UNSPECIFIC = frozenset("forward backward fwd bwd apply call run step update".split())
"""Names of custom operators that need their namespace."""

_BACKWARD = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)

_TENSOR_ATTRIBUTES = frozenset("data grad T H mT mH real imag".split())


@dataclass(frozen=True)
class FunctionFacts:
    """Facts about a function that determine how its calls are recorded."""

    name: str  # its short name
    qualname: str  # its full name
    parameters: tuple[str, ...] = ()  # names of its positional parameters, if known
    ignored: bool = False  # reads only metadata; not an op
    reads_data: bool = False  # reads data of tensors into Python
    shares_memory: bool = False  # shares memory with a NumPy array or another library
    in_place: bool = False  # writes its first argument, according to its name
    rebinds: bool = False  # replaces the storage of a tensor (``x.data = y``)
    attribute: bool = False  # reads an attribute
    reads_gradient: bool = False  # reads ``x.grad``, which is no op
    sets_gradient: bool = False  # sets ``x.grad``
    grad_switch: bool = False  # sets grad mode
    leaf_switch: bool = False  # sets ``requires_grad`` of a tensor
    writes: tuple[str, ...] = ()  # arguments that it may write without increasing their version
    declared: frozenset[str] = frozenset()  # arguments that it writes, by its schemas
    runs_backward: bool = False  # runs the autograd graph
    higher_order: bool = False  # a higher-order operator
    leaves_unset: bool = False  # returns uninitialized memory
    # if it can draw from a random generator, the arguments that decide, with their defaults
    random_switches: Mapping[str, str] | None = None
    # implemented in Python, with a body that can be recorded; see `composed`
    composed: bool = False
    # called by the dispatcher, before the versions of written tensors increase
    dispatched: bool = False
    # its overloads, if the names of positional parameters depend on the types of arguments
    overloads: Overloads | None = None
    special: bool = False  # whether a call needs more than to be recorded as an op

    def names_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, ...]:
        """The names of the positional parameters for these arguments."""
        if self.overloads is None:
            return self.parameters
        return self.overloads.names_of(args, kwargs) or self.parameters


_known: dict[Any, FunctionFacts] = {}
"""The facts about functions of PyTorch, cached for the whole process."""


def facts_of(func: Callable[..., Any]) -> FunctionFacts:
    """The facts about *func*; cached per process for functions of PyTorch, per run for others."""
    known = _known.get(func)
    if known is None:
        known = _compute_facts(func)
        switches = known.grad_switch or known.leaf_switch
        is_gradient = known.reads_gradient or known.sets_gradient
        known = replace(known, special=known.higher_order or switches or is_gradient)
        if _is_pytorch(func):
            _known[func] = known
    return known


def _is_pytorch(func: Any) -> bool:
    """Whether *func* is an attribute of ``torch.Tensor`` or of a module of PyTorch."""
    name, home = getattr(func, "__name__", ""), getattr(func, "__module__", None) or "torch"
    if home.partition(".")[0] != "torch":
        return False
    return any(getattr(item, name, None) is func for item in (torch.Tensor, sys.modules.get(home)))


def _compute_facts(func: Callable[..., Any]) -> FunctionFacts:
    name = str(getattr(func, "__name__", type(func).__name__)).partition(".")[0]
    if isinstance(func, types.MethodWrapperType):
        return _attribute_facts(func, name)
    schemas, runs_backward = _schemas(func), func in _BACKWARD
    parameters = ("other", "self") if name in _REFLECTED else _parameters(func, schemas)
    in_python = isinstance(func, types.FunctionType)
    operators = schemas if name not in _REFLECTED else ()
    if in_python and not parameters:
        operators = _schemas(func, in_python=True)
    name = _specific(func, _plain_name(name))
    return FunctionFacts(
        name=name,
        qualname=_qualname(func, name),
        parameters=parameters,
        ignored=name in _IGNORED or isinstance(func, torch.ScriptMethod),  # its inside is recorded
        reads_data=name in _READS_DATA or runs_backward or is_collective(func),
        shares_memory=name in _SHARES_MEMORY,
        in_place=name == "setitem" or name.endswith("_") and not name.endswith("__"),
        grad_switch=name == "_set_grad_enabled",
        leaf_switch=name == "requires_grad_",
        writes=silent_writes(func, name, schemas),
        declared=frozenset(
            item.name for schema in schemas for item in schema.arguments if item.is_write
        ),
        runs_backward=runs_backward,
        higher_order=isinstance(func, HigherOrderOperator),
        leaves_unset=name in LEAVES_UNSET,
        random_switches=switches_of(func, name, _packet(func), schemas),
        composed=in_python and func in COMPOSED,
        overloads=overloads_of(_operator(func), operators, spreads=in_python),
    )


def operator_facts(func: Any) -> FunctionFacts:
    """The facts about an operator overload, for calls of the dispatcher."""
    facts = _compute_facts(func)
    silent = silent_writes(func, facts.name, ())
    writes = silent or tuple(facts.declared)
    return replace(facts, in_place=False, writes=writes, dispatched=not silent)


def _attribute_facts(func: Any, name: str) -> FunctionFacts:
    attribute = str(getattr(func.__self__, "__name__", "attribute"))
    setter = name == "__set__"
    recorded = ("data", "grad") if setter else _TENSOR_ATTRIBUTES
    return FunctionFacts(
        name=f"set_{attribute}" if setter else attribute,
        qualname=f"torch.Tensor.{attribute}",
        parameters=("self", attribute),
        ignored=attribute not in recorded,
        rebinds=setter and attribute == "data",
        leaf_switch=setter and attribute == "requires_grad",
        attribute=not setter,
        reads_gradient=not setter and attribute == "grad",
        sets_gradient=setter and attribute == "grad",
    )


def _plain_name(name: str) -> str:
    if name in _OPERATORS:
        return _OPERATORS[name]
    if name.startswith("__") and name.endswith("__"):
        inner = name[2:-2]
        if inner[:1] == "i" and hasattr(torch.Tensor, f"{inner[1:]}_"):
            return f"{inner[1:]}_"
        if inner[:1] == "r" and hasattr(torch.Tensor, f"__{inner[1:]}__"):
            return inner[1:]
        return inner if name not in _IGNORED else name
    return name[1:] if name.startswith("_sparse_") else name  # such as torch.sparse.mm


def _specific(func: Any, name: str) -> str:
    """*name*, with the namespace of the operator if the name alone is unspecific: ``run``."""
    if name not in _UNSPECIFIC or not isinstance(func, (OpOverload, OpOverloadPacket)):
        return name
    return f"{str(func).partition('.')[0]}_{name}"


def _qualname(func: Any, name: str) -> str:
    if isinstance(func, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{func}"
    own = str(getattr(func, "__qualname__", ""))
    if own.startswith(("TensorBase.", "Tensor.")):
        return f"torch.Tensor.{name}"
    if own.startswith("_VariableFunctionsClass."):
        return f"torch.{func.__name__}"
    if hasattr(torch.nn.functional, name):
        return f"torch.nn.functional.{name}"
    home = getattr(func, "__module__", None)
    return f"{home}.{name}" if home else name


def _parameters(func: Any, schemas: tuple[Any, ...]) -> tuple[str, ...]:
    """Positional parameter names, from Python's signature or from the schemas."""
    if isinstance(func, types.FunctionType):
        return max(positional_parameters(func), _inner_parameters(func), key=len)
    if isinstance(func, HigherOrderOperator):
        return positional_parameters(type(func).__call__)[1:]
    if not schemas:
        if name := _ITEMS.get(str(getattr(func, "__name__", ""))):
            return name
        own = ("self",) if hasattr(torch.Tensor, str(getattr(func, "__name__", ""))) else ()
        return own + documented(func)
    longest = max(schemas, key=lambda schema: len(schema.arguments))
    names, takes = positional(longest), _first_type(longest)
    others = [positional(each) for each in schemas if _first_type(each) == takes]
    while len(found := {each[len(names)] for each in others if len(each) > len(names)}) == 1:
        names += (found.pop(),)  # equal in all others: sort(dim, descending)
    if isinstance(func, types.MethodDescriptorType):  # as where(condition, self, other) has it
        return tuple(sorted(names, key=lambda name: name != "self"))
    return names


def _inner_parameters(func: types.FunctionType) -> tuple[str, ...]:
    """Names for a function that passes ``*args`` on: to the method that it wraps, as ``x ** 2``
    does, or to one of two functions, as ``max_pool2d`` does."""
    method = getattr(func, "__wrapped__", None)
    if isinstance(method, types.MethodDescriptorType):
        return _parameters(method, _schemas(method))
    return positional_parameters(dict(cells(func)).get("if_false"))


def _first_type(schema: Any) -> str:
    return str(schema.arguments[0].type) if schema.arguments else ""


def _operator(func: Any) -> str:
    """The name of the operator behind a function or method: ``x == y`` runs ``aten::eq``."""
    name = str(getattr(func, "__name__", ""))
    is_own = getattr(getattr(torch.ops.aten, name, None), "_schemas", None) and name not in _ITEMS
    name = name if is_own else _plain_name(name)
    return str(getattr(func, "_qualified_op_name", f"aten::{name}"))


def _schemas(func: Any, *, in_python: bool = False) -> tuple[Any, ...]:
    """The schemas of the operator behind a function; of one in Python only if *in_python*."""
    if isinstance(func, types.FunctionType) and not in_python:
        return ()
    if isinstance(func, OpOverload):
        return (func._schema,)
    return tuple((getattr(_packet(func), "_schemas", None) or {}).values())


def _packet(func: Any) -> Any:
    """The operator behind a function, with all overloads; an overload itself."""
    if isinstance(func, (OpOverload, OpOverloadPacket)):
        return func
    return getattr(torch.ops.aten, _operator(func).partition("::")[2], None)

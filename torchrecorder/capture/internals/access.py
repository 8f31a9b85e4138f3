"""Internals of PyTorch and CPython under public names, bound once.

Private attributes of objects (``tensor._version``) are read where they are needed, because a
function call would cost time on every operation; the table lists them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

import torch
from torch import Tensor
from torch._C import (
    DisableTorchFunction as DisableTorchFunction, _jit_resolve_packet as resolve_packet,
)
from torch._functorch.pyfunctorch import (
    temporarily_clear_interpreter_stack as outside_transformations,
)
from torch._ops import (
    HigherOrderOperator as HigherOrderOperator, OpOverload as OpOverload,
    OpOverloadPacket as OpOverloadPacket,
)
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor, FakeTensorMode as FakeTensorMode
from torch.autograd.function import BackwardCFunction
from torch.nn import Module, Parameter
from torch.nn.modules import module as module_hooks
from torch.overrides import (
    TorchFunctionMode, _get_current_function_mode as current_function_mode,
    _get_current_function_mode_stack as function_modes, _pop_mode as pop_function_mode,
    _push_mode as push_function_mode, handle_torch_function, has_torch_function,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import (
    TorchDispatchMode as TorchDispatchMode, _disable_current_modes as without_dispatch_modes,
    _get_current_dispatch_mode_stack as dispatch_modes,
)

from torchrecorder.capture.internals.region_functions import PIPELINES
from torchrecorder.capture.internals.table import (
    ATTENTION_BODY, BACKWARD_CALLS, CHECKPOINT_GENERATORS, DEVICE_BEGINNING, GRADIENT_BUFFERS,
    OPERATOR_MODES, PROFILER_RANGES, SAVED_TENSORS, STORAGE_ENDS,
)
from torchrecorder.capture.internals.trials import find

__all__ = [
    "DisableTorchFunction", "FakeTensor", "FakeTensorMode", "HigherOrderOperator", "OpOverload",
    "OpOverloadPacket", "TorchDispatchMode", "TorchFunctionMode", "current_function_mode",
    "dispatch_modes", "function_modes", "outside_transformations", "pop_function_mode",
    "push_function_mode", "pytree", "resolve_packet", "without_dispatch_modes",
]

get_frame = sys._getframe
frames_of_threads = sys._current_frames

PLAIN_TENSOR_TYPES = frozenset((Tensor, Parameter))
"""The tensor classes without behavior of a subclass."""

# Modes ----------------------------------------------------------------------------------

count_function_modes = torch._C._len_torch_function_stack
count_dispatch_modes = torch._C._len_torch_dispatch_stack
WithoutSubclasses: Any = torch._C.DisableTorchFunctionSubclass
any_autocast = torch._C._is_any_autocast_enabled
is_tracing = torch._C._is_tracing


def autocast_dtypes() -> tuple[tuple[str, torch.dtype], ...]:
    """The device types with autocast enabled in this thread, and their dtypes."""
    on = filter(torch.is_autocast_enabled, ("cpu", "cuda", "mps", "xpu") if any_autocast() else ())
    return tuple((device, torch.get_autocast_dtype(device)) for device in on)


def leave_function_mode(mode: TorchFunctionMode) -> None:
    """Remove *mode* from this thread's stack of function modes, also if it is not on top."""
    modes = function_modes()
    for _ in modes:
        pop_function_mode()
    for item in modes:
        if item is not mode:
            push_function_mode(item)


def take_function_modes() -> list[TorchFunctionMode]:
    """Remove all function modes from the stack of this thread, and return them, lowest first."""
    modes: list[TorchFunctionMode] = function_modes()
    for _ in modes:
        pop_function_mode()
    return modes


def put_function_modes(modes: Iterable[TorchFunctionMode]) -> None:
    """Push function modes, the first one lowest."""
    for mode in modes:
        push_function_mode(mode)


def leave_dispatch_mode(mode: TorchDispatchMode) -> None:
    """Remove *mode* from this thread's stack of dispatch modes, also if it is not on top."""
    modes = dispatch_modes()
    places = [place for place, item in enumerate(modes) if item is mode]
    above = modes[places[-1] + 1 :] if places else []
    change: Any = TorchDispatchMode
    for element in reversed(above):
        change.__exit__(element, None, None, None)
    if places:
        change.__exit__(mode, None, None, None)
    for entry in above:
        change.__enter__(entry)


def default_device_mode() -> TorchFunctionMode | None:
    """The mode of ``torch.set_default_device`` in this thread, or None."""
    return getattr(find("torch._GLOBAL_DEVICE_CONTEXT"), "device_context", None)


def saved_tensor_hooks() -> Any:
    """The active ``saved_tensors_hooks``; None if PyTorch does not expose them."""
    top = find("torch._C._autograd._top_saved_tensors_default_hooks")
    return None if top is None else top(True)


# Autograd -------------------------------------------------------------------------------

next_node_number = torch._C._autograd._get_sequence_nr
current_node = torch._C._current_autograd_node
current_graph_task = torch._C._current_graph_task_id

ACCUMULATION = "torch::autograd::AccumulateGrad"
"""``name()`` of ``AccumulateGrad`` nodes."""

CHECKPOINT_FUNCTION = "CheckpointFunction"
"""The custom function that implements reentrant checkpointing."""

_USES_BUFFERS = GRADIENT_BUFFERS.present


def takes_post_hook(node: Any) -> bool:
    """Whether *node* can have a post-hook without side effects.

    After a post-hook, even one that was removed, PyTorch raises if a custom function uses
    ``ctx.input_grad_buffers``.
    """
    return not (_USES_BUFFERS and isinstance(node, BackwardCFunction))


SEES_SAVED_TENSORS = SAVED_TENSORS.present


forward_gradients = torch._C._is_fwd_grad_enabled


def apply_code() -> CodeType | None:
    """The code object of ``Function.apply``; None if it is written in C."""
    return getattr(torch.autograd.Function.apply, "__code__", None)


def apply_codes() -> list[CodeType]:
    """The code objects that apply a custom function; their local ``cls`` is the function."""
    transformed = find("torch.autograd.function._call_custom_function_call.__code__")
    return [code for code in (apply_code(), transformed) if code is not None]


def set_version_counter(tensor: Tensor, version: int) -> None:
    """Set the version counter of *tensor*."""
    change: Any = torch._C._autograd._unsafe_set_version_counter
    try:
        change((tensor,), (version,))
    except TypeError:  # torch 2.6 takes one tensor and no tuples
        change(tensor, version)


def saved_attributes(node: Any) -> tuple[str, ...]:
    """The names of the attributes in which *node* exposes its saved tensors."""
    return tuple(name for name in dir(node) if name.startswith("_raw_saved_"))


def input_metadata(node: Any) -> Sequence[Any]:
    """Shape, dtype and device of each gradient input of *node*, that is, of its forward outputs."""
    return getattr(node, "_input_metadata", ())


def run_backward(
    tensors: Sequence[Tensor], gradients: Sequence[Tensor | None], *, retain_graph: bool
) -> None:
    """Call ``torch.autograd.backward`` so that function modes see it in every version."""
    if BACKWARD_CALLS.present or not has_torch_function(tuple(tensors)):
        torch.autograd.backward(tensors, gradients, retain_graph=retain_graph)
    else:
        handle_torch_function(
            torch.autograd.backward, tensors, tensors, gradients, retain_graph=retain_graph
        )


# Composed functions ---------------------------------------------------------------------


def composed_functions() -> dict[Any, CodeType]:
    """Functions whose body can be recorded, with the code of the ``forward`` that calls each."""
    function = torch.nn.functional.multi_head_attention_forward
    caller = torch.nn.MultiheadAttention.forward
    return {function: caller.__code__} if ATTENTION_BODY.present else {}


# Transformations of torch.func ----------------------------------------------------------

peek_transformations = torch._C._functorch.peek_interpreter_stack
is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
unwrapped = torch._C._functorch.get_unwrapped
batch_dimension = torch._C._functorch.maybe_get_bdim
is_old_batch = torch._C._functorch.is_legacy_batchedtensor
without_old_batch: Callable[[Tensor, int, int, int], Tensor] = torch._remove_batch_dim

# Modules --------------------------------------------------------------------------------

CALL_CODE = Module._call_impl.__code__
WRAPPED_CALL_CODE = Module._wrapped_call_impl.__code__
INNER_CALL_CODES = tuple(item for item in CALL_CODE.co_consts if isinstance(item, CodeType))
"""The functions inside that of `CALL_CODE`, which run the hooks of a module."""

CALL_FRAMES = ("inner", CALL_CODE.co_name, WRAPPED_CALL_CODE.co_name)
"""The functions of PyTorch in a module call, from the one that runs the hooks outwards."""


def caller_of_module(frame: Any) -> Any:
    """The frame that called the module whose hooks run in *frame*."""
    for _ in range(4):
        if frame is None or frame.f_code.co_name not in CALL_FRAMES:
            break
        frame = frame.f_back
    return frame


def has_own_hooks(module: Module) -> bool:
    """Whether *module* itself has forward hooks or backward hooks."""
    held = module.__dict__.get
    return bool(held("_forward_hooks") or held("_backward_hooks") or held("_backward_pre_hooks"))


def has_global_hooks() -> bool:
    """Whether global module hooks are registered."""
    tables = vars(module_hooks)
    return any(tables[name] for name in tables if name.startswith("_global_") and "_hooks" in name)


def forget_keyword_mark(hook: int) -> None:
    """Remove the ``with_kwargs`` mark of a removed global forward hook."""
    module_hooks._global_forward_hooks_with_kwargs.pop(hook, None)


def compiled_from(model: Any) -> Any:
    """The module inside a compiled module; *model* itself if it is not compiled."""
    held = vars(model).get("_modules") if isinstance(model, torch.nn.Module) else None
    return held.get("_orig_mod", model) if isinstance(held, dict) else model


# The compiler ---------------------------------------------------------------------------


def compiled_codes() -> list[CodeType]:
    """The code objects that call compiled code; empty before the compiler is imported."""
    home = getattr(sys.modules.get("torch._dynamo.eval_frame"), "_TorchDynamoContext", None)
    call = getattr(getattr(home, "__call__", None), "__code__", None)
    return [
        item
        for item in getattr(call, "co_consts", ())
        if isinstance(item, CodeType) and {"callback", "fn"} <= set(item.co_freevars)
    ]


def compiled_call(frame: Any) -> tuple[Any, str]:
    """The compiled function that *frame* calls, and the name of its backend."""
    held, backend = frame.f_locals, ""
    found = held.get("callback")
    while found is not None and not backend:
        outer = found
        found = getattr(outer, "_torchdynamo_orig_backend", None)
        if found is None:  # the name before PyTorch 2.7
            found = getattr(outer, "_torchdynamo_orig_callable", None)
        backend = str(getattr(found, "__name__", getattr(found, "compiler_name", "")) or "")
    function = held["fn"]
    while getattr(function, "__globals__", {}).get("__name__", "").startswith("torch._dynamo."):
        function = function.__wrapped__  # PyTorch's own function around an object
    return function, backend


# Threads --------------------------------------------------------------------------------


def call_of_thread(thread: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The target of *thread* and its arguments, if Python exposes them."""
    held = vars(thread).get
    return held("_target"), held("_args") or (), held("_kwargs") or {}


# Operators ------------------------------------------------------------------------------

COMPOSED = torch._C.DispatchKey.CompositeImplicitAutograd
DEVICE_KEYS = (torch._C.DispatchKey.CPU, torch._C.DispatchKey.CUDA)
flatten_tensors: Any = torch._C._nn.flatten_dense_tensors

CHECKPOINT_CODES: tuple[CodeType, ...] = tuple(filter(None, map(find, CHECKPOINT_GENERATORS)))
"""The code that sets up and cleans up a checkpoint; the checkpointed call runs outside it."""

ZEROING_METHODS = (Module.zero_grad, torch.optim.Optimizer.zero_grad)
"""Methods that zero gradients; by default they set them to None, which runs no op."""

_MOVES = "to to_empty type float double half bfloat16 cpu cuda xpu ipu mtia".split()
TRANSFERS = (
    *(vars(Module)[name] for name in _MOVES if name in vars(Module)),
    Module.state_dict, Module.load_state_dict, torch.load,
)
"""Functions that move, cast, save or load all weights of a model."""


def pipeline_functions() -> tuple[Any, ...]:
    """Functions of pipelines that run before the first micro-batch, or compute gradients."""
    known = "torch.distributed.pipelining.schedules" in sys.modules
    return PIPELINES.functions() if known else ()


PIPELINE_SCALING = "scale_grads"
"""The method of a pipeline stage that scales gradients."""

PIPELINE_BACKWARD = ("stage_backward_input", "stage_backward_weight")
"""The functions that compute only the gradients of inputs, or only those of weights, of a stage."""


OPERATOR_SETUP = "_set_compilation_env"
"""The context manager in which PyTorch compiles higher-order operators."""

_OPERATOR_FILES = "utils cond while_loop scan associative_scan invoke_subgraph strict_mode"
OPERATOR_HOMES = (
    *(f"torch._higher_order_ops.{name}" for name in _OPERATOR_FILES.split()),
    "torch.nn.attention.flex_attention",
)
"""The modules that import it, in different versions."""


def operator_setup() -> Any:
    """The context manager `OPERATOR_SETUP`; None if PyTorch does not have it."""
    return find(f"{OPERATOR_HOMES[0]}.{OPERATOR_SETUP}")


SHOWS_OPERATORS = OPERATOR_MODES.present
SEES_STORAGES_END = STORAGE_ENDS.present


def give_operators_rules(
    mode: type[TorchDispatchMode], run: Callable[[Any, Any, tuple[Any, ...], Any], Any]
) -> None:
    """Register *mode* for all higher-order operators, which PyTorch requires in some versions.

    *run* is called with the mode, the operator, its args and kwargs, and runs the operator.
    """
    for operator in list((find("torch._ops._higher_order_ops") or {}).values()):
        if mode not in operator.python_key_table:
            operator.py_impl(mode)(_rule(operator, run))


def _rule(operator: Any, run: Callable[[Any, Any, tuple[Any, ...], Any], Any]) -> Any:
    def rule(mode: Any, *args: Any, **kwargs: Any) -> Any:
        return run(mode, operator, args, kwargs)

    return rule


@contextlib.contextmanager
def when_cuda_begins(call: Callable[[], None]) -> Iterator[None]:
    """A context that calls *call* once CUDA is initialized: now, or when the process does so."""
    waiting: Any = find(DEVICE_BEGINNING.paths[0])
    entry = call, ["torchrecorder"]  # PyTorch keeps calls with a stack, for messages
    if torch.cuda.is_initialized():
        call()
    elif waiting is not None:
        waiting.append(entry)
    try:
        yield
    finally:
        if waiting is not None:
            waiting[:] = [item for item in waiting if item is not entry]


profiler_range: Any = find(PROFILER_RANGES.paths[0]) or torch.profiler.record_function
"""A context manager that a profiler shows as a range with a name."""


def fuses(device: str) -> bool:
    """Whether TorchScript fuses kernels for this device type."""
    llga: Any = find("torch._C._jit_llga_enabled")
    if llga is None or llga():
        return True
    ask: Any = find(f"torch._C._jit_can_fuse_on_{'cpu' if device == 'cpu' else 'gpu'}")
    return device != "meta" and (ask is None or ask())

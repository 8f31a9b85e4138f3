"""The table of internals that the recorder uses, with the features that need them.

Whether PyTorch has one is checked by names, not by version.
"""

from __future__ import annotations

import torch

from torchrecorder.capture.internals.region_functions import REGION_FUNCTIONS
from torchrecorder.capture.internals.trials import (
    Internal, asks_for_modes, creates_contexts, exposes_reductions, fakes_communication, find,
    needed, parameters, reaches_modes, sees_end_of_storages,
)

FUNCTION_MODES = needed(
    "function modes",
    "every torch function that Python calls",
    "torch._C.DisableTorchFunction",
    "torch._C.DisableTorchFunctionSubclass",
    "torch._C._len_torch_function_stack",
    "torch.overrides._get_current_function_mode",
    "torch.overrides._get_current_function_mode_stack",
    "torch.overrides._pop_mode",
    "torch.overrides._push_mode",
)
DISPATCH_MODES = needed(
    "dispatch modes",
    "operators of scripted modules and fused kernels; floating-point operations",
    "torch._C._len_torch_dispatch_stack",
    "torch.utils._python_dispatch.TorchDispatchMode",
    "torch.utils._python_dispatch._disable_current_modes",
    "torch.utils._python_dispatch._get_current_dispatch_mode_stack",
)
OPERATORS = needed(
    "operators",
    "names of arguments, and which of them an operator writes",
    "torch._ops.HigherOrderOperator",
    "torch._ops.OpOverload",
    "torch._ops.OpOverloadPacket",
    "torch._C.DispatchKey.CompositeImplicitAutograd", "torch._C._jit_resolve_packet",
    attributes=("_schema", "_schemas", "_overloadpacket", "_op_dk", "_qualified_op_name"),
)
MODULE_HOOKS = needed(
    "global module hooks",
    "calls of modules, with keyword arguments, also of those that raise",
    "torch.nn.modules.module._global_forward_hooks_with_kwargs",
    "torch.nn.modules.module._global_forward_hooks_always_called",
)
MODULE_FRAMES = needed(
    "frames of a module's call",
    "keyword arguments of a module, its result after all hooks, the line that calls it",
    "torch.nn.Module._call_impl.__code__",
    "torch.nn.Module._wrapped_call_impl.__code__",
    attributes=("_call_impl", "_wrapped_call_impl"),
)
MODULES = Internal(
    "contents of modules",
    "submodules, parameters, buffers and hooks of a module, also if its class overrides access",
    "missing ones have no names and are not restored",
    attributes=(
        "_modules", "_parameters", "_buffers", "_forward_hooks", "_backward_hooks",
        "_backward_pre_hooks",
    ),
    works=lambda: {"_modules", "_parameters", "_buffers"} <= set(vars(torch.nn.Module())),
)
TENSORS = needed(
    "tensors",
    "writes in place, views, sparse layouts",
    *(f"torch.Tensor.{name}" for name in ("_version", "_base", "_indices", "_values")),
    attributes=("_version", "_base", "_indices", "_values"),
)
STORAGES = needed(
    "storages",
    "which tensors share memory, without keeping it alive",
    *(f"torch.UntypedStorage.{name}" for name in ("_weak_ref", "_free_weak_ref", "_expired")),
    "torch.UntypedStorage._cdata",
    attributes=("_cdata", "_weak_ref", "_free_weak_ref", "_expired"),
)
STORAGE_ENDS = Internal(
    "ends of storages that are still referred to",
    "memory=True keeps weak references of C++ and of Python to the same storage",
    "it keeps only those of Python",
    since="2.11", works=sees_end_of_storages,
)
TENSOR_SWAPS = Internal(
    "the steps of swap_tensors",
    "torch.utils.swap_tensors runs on recorded tensors, and is an operation",
    "it raises, because recorded tensors have weak references",
    ("torch._C._swap_tensor_impl", "torch.utils.weakref"),
)
NODE_NUMBERS = needed(
    "numbers of autograd nodes",
    "which operation created a node",
    "torch._C._autograd._get_sequence_nr",
    "torch._C._FunctionBase._sequence_nr",
    attributes=("_sequence_nr",),
)
AUTOGRAD_ENGINE = needed(
    "state of the autograd engine",
    "the node that runs now, and whether backward recomputes a part of forward",
    "torch._C._current_autograd_node",
    "torch._C._current_graph_task_id",
)
ENGINE_CALLS = Internal(
    "the function that runs the autograd engine",
    "operations in hooks of tensors, parameters and modules while a backward pass runs",
    "these are not recorded, and what they compute is a constant",
    ("torch.autograd.graph._engine_run_backward",),
    attributes=("_backward_hooks", "_post_accumulate_grad_hooks"),
)
CUSTOM_FUNCTIONS = Internal(
    "custom autograd functions",
    "which of them is running",
    "they are no regions, and modules that return their input are not distinguished from it",
    ("torch._C._is_fwd_grad_enabled", "torch.autograd.function.BackwardCFunction"),
    ("_forward_cls",),
    works=creates_contexts,
)
GRADIENT_BUFFERS = Internal(
    "gradient buffers of custom functions",
    "a custom function may add to gradients itself, so its node gets no post-hook",
    "the gradients that the node of a custom function returns are recorded too",
    ("torch.autograd.function.FunctionCtx.input_grad_buffers",),
    since="2.15",
)
TRANSFORMATIONS = needed(
    "transformations of torch.func",
    "the tensors inside the wrappers of vmap and grad",
    "torch._functorch.pyfunctorch.temporarily_clear_interpreter_stack", "torch._remove_batch_dim",
    *(f"torch._C._functorch.{name}" for name in ("peek_interpreter_stack", "get_unwrapped",
      "is_functorch_wrapped_tensor", "maybe_get_bdim", "is_legacy_batchedtensor")),
)
FAKE_TENSORS = needed(
    "fake tensors",
    "record(..., fake=True), and recognition of tensors without data",
    "torch._subclasses.fake_tensor.FakeTensor.__torch_dispatch__",
    "torch._subclasses.fake_tensor.FakeTensorMode.__torch_dispatch__",
)
COMPILER_STANCE = needed(
    "the compiler's stance", "compiled models run eagerly", "torch.compiler.set_stance"
)
TRACING = needed("torch.jit.trace", "whether it is running", "torch._C._is_tracing")
AUTOCAST = needed("autocast", "regions of autocast", "torch._C._is_any_autocast_enabled")
BUFFERS = needed(
    "writing buffers",
    "buffers are restored, including their version counters",
    "torch._C._autograd._unsafe_set_version_counter",
    "torch._C._nn.flatten_dense_tensors",
)
FRAMES = needed("frames of Python", "source lines, regions", "sys._getframe", "sys._current_frames")

NODE_OUTPUTS = Internal(
    "metadata of the outputs of an autograd node's forward",
    "shapes of the results of hidden operations",
    "such results have no shape",
    ("torch._C._FunctionBase._input_metadata",),
    ("_input_metadata",),
)
SAVED_TENSORS = Internal(
    "contents of saved tensors",
    "the bytes that autograd nodes save for backward",
    "no saved_bytes",
    ("torch._C._autograd.SavedTensor.data", "torch._C._autograd.SavedTensor.unpack_hook"),
    since="2.11",
)
BACKWARD_CALLS = Internal(
    "torch.autograd.backward in function modes",
    "backward passes that the program starts by calling it",
    "those are not recorded; loss.backward() and record(..., backward=True) are",
    since="2.11", works=lambda: reaches_modes(torch.autograd.backward),
)
ATTENTION_BODY = Internal(
    "the body of multi_head_attention_forward",
    "the operations inside nn.MultiheadAttention",
    "it is one operation",
    ("torch.nn.MultiheadAttention.forward.__code__",),
    works=lambda: asks_for_modes("torch.nn.functional.multi_head_attention_forward"),
)
OPERATOR_COMPILER = Internal(
    "the compiler of higher-order operators",
    "torch.cond, flex_attention and others with all of their inputs",
    "they run eagerly: some fail, and some have no edges from weights in closures",
    ("torch._higher_order_ops.utils._set_compilation_env",),
)
OPERATOR_MODES = Internal(
    "higher-order operators in dispatch modes",
    "floating-point operations inside torch.cond and similar operators",
    "those are not counted, and a note of the recording says so",
    ("torch.utils._python_dispatch.TorchDispatchMode.supports_higher_order_operators",),
    since="2.9",
)
CHECKPOINT_CALL = "_checkpoint_impl"
"""What ``checkpoint`` and the functions that it decorates call since PyTorch 2.15."""
CHECKPOINT_GENERATORS = tuple(
    f"torch.utils.checkpoint._checkpoint_without_reentrant_generator{ending}.__code__"
    for ending in ("", "_impl")  # since 2.15, the first one only calls the other
)
CHECKPOINT_FRAMES = Internal(
    "frames of checkpointing",
    "internal operations of checkpointing are left out; inputs that hooks pack are not saved",
    "checkpoints may show an operation on an empty tensor; all inputs count as saved",
    works=lambda: any(map(find, CHECKPOINT_GENERATORS)),
)
SELECTIVE_CHECKPOINTS = Internal(
    "modes of selective checkpoints",
    "saved bytes of the results that a selective checkpoint keeps",
    "they are not counted, and a note says so",
    ("torch.utils.checkpoint._CachingTorchDispatchMode",),
)
COMPILED_FRAMES = Internal(
    "frames of compiled functions",
    "a note about compiled functions that ran eagerly while they were recorded",
    "no note",
    ("torch._dynamo.eval_frame._TorchDynamoContext.__call__",),
    ("_torchdynamo_orig_backend", "_torchdynamo_orig_callable"),
)
COMPILED_CALLS = Internal(
    "calls of compiled functions",
    "compiled steps of optimizers stay compiled while they are recorded",
    "they run eagerly: weights may differ in their last bits, and a note says so",
    tuple(f"torch._dynamo.eval_frame.{name}"
          for name in ("_callback_from_stance", "_maybe_set_eval_frame")),
)
RECEIVED = Internal(
    "functions that rebuild tensors of other processes",
    "tensors that were received from other processes, such as workers of data loaders",
    "such a tensor is an empty one, written by a hidden operation",
    tuple(f"torch.multiprocessing.reductions.rebuild_{kind}tensor" for kind in (
        "", "meta_", "cuda_", "nested_", "sparse_coo_", "sparse_compressed_")),
)
DEFAULT_DEVICE = Internal(
    "the mode of torch.set_default_device",
    "a recorder that starts while the program runs leaves it at the bottom of the stack",
    "that recorder may miss operations on the default device",
    ("torch._GLOBAL_DEVICE_CONTEXT",),
)
SCRIPT_FUSERS = Internal(
    "fusers of TorchScript",
    "the inside of scripted modules, if no kernels are fused",
    "a scripted module is one box",
    tuple(f"torch._C._jit_{name}"
          for name in ("llga_enabled", "can_fuse_on_cpu", "can_fuse_on_gpu")),
)
DTENSORS = Internal(
    "local tensors of DTensors",
    "statistics, bytes and shape of the local tensor",
    "these facts are lost, because reading a DTensor would communicate",
    ("torch.distributed.tensor.DTensor._local_tensor",),
    attributes=("_local_tensor",),
)
COLLECTIVES = Internal(
    "communication operators",
    "communication between processes, also from C++ and in backward, and times of waiting",
    "no communications, and running collectives are not distinguished from finished ones",
    (
        "torch._C._dispatch_keyset_full_after",
        "torch._C.DispatchKey.BackendSelect",
        "torch._C.DispatchKey.ADInplaceOrView",
        "torch._C.ScriptObject",
        "torch.library.Library._destroy",
        "torch._C._distributed_c10d.ProcessGroup.unbox",
        "torch._C._distributed_c10d.ProcessGroup.group_desc",
        "torch._C._distributed_c10d.Work.unbox",
        "torch.distributed.distributed_c10d._resolve_process_group",
    ),
    attributes=("_destroy",),
)
FAKE_GROUPS = Internal(
    "fake process groups",
    "plan, which records the ranks of a mesh on one machine",
    "nothing can be planned",
    ("torch.testing._internal.distributed.fake_pg.FakeStore",),
    since="2.7", works=fakes_communication,
)
STAGE_VOTES = Internal(
    "votes of pipeline stages",
    "schedules of pipelines in a plan, where no stage can be asked whether it knows its shapes",
    "nothing: other versions do not ask in a plan",
    ("torch.distributed.pipelining.PipelineStage._warmup_backward_result",),
    since="2.13", until="2.15",
)
COLLECTIVE_CALLS = Internal(
    "torch.distributed in function modes",
    "calls of torch.distributed functions as operations with their source lines",
    "these are only communications of the module, and their writes are hidden operations",
    since="2.13", works=lambda: reaches_modes(find("torch.distributed.isend")),
)
REDUCTIONS = Internal(
    "kinds of reductions",
    "whether a collective sums, averages or takes the maximum",
    "collectives are named without it",
    works=exposes_reductions, since="2.10",
)
DEVICE_BEGINNING = Internal(
    "calls at the first use of CUDA",
    "times and memory of a GPU in runs that use it first",
    "these are measured only if CUDA has been used before the run",
    ("torch.cuda._queued_calls",),
)
PROFILER_RANGES = Internal(
    "fast ranges of the profiler",
    "operations and modules as ranges of a profiler, at a microsecond each",
    "other dispatch modes see the ranges",
    ("torch._C._profiler._RecordFunctionFast",),
)
COMPILER_GUARDS = Internal(
    "guards of the compiler",
    "the number of guards of each graph of record(..., compiled=True)",
    "their number is unknown",
    ("torch._dynamo.optimize",),
    works=lambda: "guard_export_fn" in parameters("torch._dynamo.eval_frame._optimize"),
)
COMPILER_CACHE = Internal(
    "caches of the compiler",
    "code compiled by record(..., compiled=True) is removed from the compiler's caches",
    "it stays cached until torch.compiler.reset()",
    (
        *(f"torch._dynamo.{name}" for name in (
            "convert_frame.Tracker", "convert_frame.input_codes",
            "convert_frame.register_bytecode_hook", "eval_frame._debug_get_cache_entry_list",
            "eval_frame.cached_backends", "eval_frame.reset_code", "pgo", "utils.counters",
            "guards.DeletedGuardManagerWrapper", "output_graph.graph_break_reasons",
        )),
        "torch._C._dynamo.eval_frame._ExtraState.invalidate",
    ),
    ("_CODE_STATE", "compile_subgraph_reason"),
)
SKIPPED_CODE = Internal(
    "marks of code without a graph",
    "code without a graph in record(..., compiled=True) is compiled by the program as before",
    "code that has compiled code of the program stays uncompiled until torch.compiler.reset()",
    tuple(f"torch._C._dynamo.eval_frame.{name}"
          for name in ("set_code_exec_strategy", "_FrameExecStrategy", "_FrameAction")),
    since="2.7",
)
BREAK_HINTS = Internal(
    "explanations of graph breaks",
    "the explanation of each graph break, and what can be done about it",
    "graph breaks have a reason and a line only",
    ("torch._dynamo.graph_break_hints",), since="2.7",
)
KERNEL_PROVENANCE = Internal(
    "provenance of kernels",
    "which operations share a kernel, for record(..., compiled=\"inductor\")",
    "compiled=\"inductor\" is refused; compiled=True gives the graphs",
    tuple(f"torch._inductor.{name}" for name in (
        "compile_fx.compile_fx", "compile_fx.compile_fx_inner", "config.patch",
        "debug.create_kernel_information_json",
    )),
    works=lambda: find("torch._inductor.config.trace.provenance_tracking_level") is not None,
    since="2.9",
)

INTERNALS: tuple[Internal, ...] = (
    *(item for item in list(globals().values()) if isinstance(item, Internal)),
    *REGION_FUNCTIONS,
)
"""All internals, in the order of this file, and those that are regions."""

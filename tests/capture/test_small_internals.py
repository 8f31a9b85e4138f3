"""What stands between the recorder and PyTorch's internals, one function at a time."""

from __future__ import annotations

import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from torchrecorder.capture.internals import access, compiled_calls, compiler, fake_group, inductor
from torchrecorder.capture.internals import processes, trials
from torchrecorder.capture.internals.internal import Internal


class Passes(TorchFunctionMode):
    """A function mode that changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class PassesBelow(TorchDispatchMode):
    """A dispatch mode that changes nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_function_mode_is_left_from_any_place(place: int) -> None:
    """The others stay in their order; one that is not there changes nothing."""
    modes = [Passes() for _ in range(3)]
    access.put_function_modes(modes)
    try:
        access.leave_function_mode(Passes())
        assert access.function_modes() == modes
        access.leave_function_mode(modes[place])
        assert access.function_modes() == [each for each in modes if each is not modes[place]]
    finally:
        access.take_function_modes()


def test_function_modes_are_taken_and_put_back() -> None:
    """The lowest is the first."""
    modes = [Passes() for _ in range(3)]
    access.put_function_modes(modes)
    assert access.take_function_modes() == modes and access.function_modes() == []
    assert access.take_function_modes() == []


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_dispatch_mode_is_left_from_any_place(place: int) -> None:
    """The others stay in their order; of one that is there twice, the upper place is left."""
    modes = [PassesBelow() for _ in range(3)]
    entered = [*modes, modes[0], PassesBelow()] if place == 0 else modes
    for mode in entered:
        mode.__enter__()
    try:
        access.leave_dispatch_mode(PassesBelow())
        assert access.dispatch_modes() == entered
        access.leave_dispatch_mode(modes[place])
        left = [*modes, entered[-1]] if place == 0 else [
            each for each in modes if each is not modes[place]
        ]
        assert access.dispatch_modes() == left
    finally:
        for mode in reversed(access.dispatch_modes()):
            mode.__exit__(None, None, None)
    assert access.dispatch_modes() == []


def test_the_default_device_is_a_mode() -> None:
    """None where none was set."""
    assert access.default_device_mode() is None
    torch.set_default_device("cpu")
    try:
        assert access.default_device_mode() is not None
    finally:
        torch.set_default_device(None)
    assert access.default_device_mode() is None


def test_hooks_of_saved_tensors_are_seen() -> None:
    """Those that are active now."""
    def same(tensor: Any) -> Any:
        return tensor

    assert access.saved_tensor_hooks() is None
    with torch.autograd.graph.saved_tensors_hooks(same, same):
        assert access.saved_tensor_hooks() == (same, same)


def test_attributes_with_saved_tensors() -> None:
    """Those of a node that are not unpacked."""
    x = torch.ones(2, requires_grad=True)
    assert access.saved_attributes((x * x).grad_fn) == ("_raw_saved_other", "_raw_saved_self")
    assert access.saved_attributes((x + x).grad_fn) == ()
    assert access.output_forms(object()) == () and len(access.output_forms((x * x).grad_fn)) == 1


def test_version_counters_are_set() -> None:
    """To any number."""
    x = torch.ones(2)
    x.add_(1)
    access.set_version_counter(x, 7)
    assert x._version == 7


def test_hooks_of_a_module() -> None:
    """Before, after and in backward; a module without any has none."""
    def hook(*given: Any) -> None:
        return None

    for register in ("register_forward_hook", "register_full_backward_hook",
                     "register_full_backward_pre_hook"):
        module = nn.Linear(2, 2)
        assert not access.has_own_hooks(module)
        getattr(module, register)(hook)
        assert access.has_own_hooks(module)


def test_hooks_of_all_modules() -> None:
    """Also those that run in backward; the mark of one that is gone is forgotten."""
    assert not access.has_global_hooks()
    for register in (module_hooks.register_module_forward_pre_hook,
                     module_hooks.register_module_full_backward_hook):
        handle = register(lambda *given: None)
        assert access.has_global_hooks()
        handle.remove()
        assert not access.has_global_hooks()
    marks: Any = module_hooks._global_forward_hooks_with_kwargs
    marks[-7] = True
    access.forget_keyword_mark(-7)
    access.forget_keyword_mark(-7)
    assert -7 not in marks


def test_what_was_compiled() -> None:
    """The module inside the wrapper; anything else is itself."""
    module = nn.Linear(2, 2)
    assert access.compiled_from(torch.compile(module)) is module
    assert access.compiled_from(module) is module and access.compiled_from(len) is len
    bare = nn.Module.__new__(nn.Module)
    assert access.compiled_from(bare) is bare


def test_the_caller_of_a_module_is_outside_its_frames() -> None:
    """Four frames up at most; a frame of another name is the caller itself."""
    def frames(*names: str) -> Any:
        frame = None
        for name in reversed(names):
            frame = SimpleNamespace(f_code=SimpleNamespace(co_name=name), f_back=frame)
        return frame

    inner, call, wrapped = access.CALL_FRAMES
    assert access.caller_of_module(frames(inner, call, wrapped, "user")).f_code.co_name == "user"
    assert access.caller_of_module(frames(call, wrapped, "user")).f_code.co_name == "user"
    assert access.caller_of_module(frames("user", "outer")).f_code.co_name == "user"
    assert access.caller_of_module(frames(inner, call)) is None
    nested = access.caller_of_module(frames(*[call] * 5, "user"))
    assert nested.f_code.co_name == call and nested.f_back.f_code.co_name == "user"


def test_what_a_thread_calls() -> None:
    """Its target and arguments; nothing where Python hides them."""
    thread = SimpleNamespace(_target=len, _args=(1,), _kwargs={"a": 2})
    assert access.call_of_thread(thread) == (len, (1,), {"a": 2})
    assert access.call_of_thread(SimpleNamespace()) == (None, (), {})


def test_pipelines_that_are_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody runs their functions."""
    monkeypatch.delitem(sys.modules, "torch.distributed.pipelining.schedules", raising=False)
    assert access.pipeline_functions() == ()


def test_the_backend_of_a_compiled_call() -> None:
    """The innermost one that has a name, under either name of what wraps it."""
    def backend() -> None:
        pass

    def function() -> None:
        pass

    def called(callback: Any) -> tuple[Any, str]:
        held = {"callback": callback, "fn": function}
        return access.compiled_call(SimpleNamespace(f_locals=held))

    new = SimpleNamespace(_torchdynamo_orig_backend=backend)
    old = SimpleNamespace(_torchdynamo_orig_callable=SimpleNamespace(compiler_name="eager"))
    outer = SimpleNamespace(_torchdynamo_orig_backend=new)
    assert called(new) == (function, "backend") == called(outer)
    assert called(old) == (function, "eager") and called(None) == called(object()) == (function, "")


@pytest.mark.parametrize(
    ("path", "found"), [
        ("torch.nn.Linear", nn.Linear), ("torch.nn.no_such", None), ("torch.no.such", None),
        ("sys.modules", sys.modules), ("torch.utils.data.DataLoader", torch.utils.data.DataLoader),
    ]
)
def test_paths_of_names(path: str, found: Any) -> None:
    """None where any of the names is not there."""
    assert trials.find(path) is found


def test_what_a_function_passes_to_modes() -> None:
    """By the names in its code; what has no code passes nothing."""
    assert trials.reaches_modes(torch.nn.functional.dropout)
    assert not trials.reaches_modes(len) and not trials.reaches_modes(None)
    assert not trials.reaches_modes(torch.nn.functional._canonical_mask)
    assert trials.asks_for_modes("torch.functional.einsum")
    assert not trials.asks_for_modes("torch.nn.functional.dropout")  # it asks of one tensor
    assert not trials.asks_for_modes("torch.nn.functional.relu_")
    assert not trials.asks_for_modes("torch.overrides.handle_torch_function")
    assert not trials.asks_for_modes("torch.no.such")


def test_parameters_of_a_function() -> None:
    """Also those that are given by name; none of what is no function."""
    assert trials.parameters("torch.nn.functional.dropout") == ("input", "p", "training", "inplace")
    assert trials.parameters("torch.overrides.is_tensor_like") == ("inp",)
    assert trials.parameters("torch.no.such") == ()
    assert trials.parameters("torch.nn.functional.conv2d") == ()
    named = trials.parameters("torch.autograd.backward")
    assert named[:2] == ("tensors", "grad_tensors") and named[-1] == "inputs"
    assert {"model", "fullgraph", "mode"} <= {*trials.parameters("torch.compile")}


def test_what_this_pytorch_has() -> None:
    """All of its names, and what else must work."""
    def internal(*paths: str, works: bool = True) -> Internal:
        return Internal("a", "b", "c", paths, works=lambda: works)

    assert internal().present and internal("torch.nn", "sys.path").present
    assert not internal("torch.nn", works=False).present
    lacking = internal("torch.nn", "torch.no", "torch.nor")
    assert lacking.missing == ("torch.no", "torch.nor") and not lacking.present


def test_modules_around_a_node() -> None:
    """By their numbers; keys of other forms are left out."""
    stack = {"12": 1, "7@1": 2, "L__self__": 3}
    assert compiler.modules_around(SimpleNamespace(meta={"nn_module_stack": stack})) == [12, 7]
    assert compiler.modules_around(SimpleNamespace(meta={})) == []
    assert compiler.break_reason(SimpleNamespace(compile_subgraph_reason="r")) == "r"
    assert compiler.break_reason(object()) is None and compiler.compiled_function() is None


def test_functions_of_numpy_in_a_graph() -> None:
    """What the compiler calls in their place."""
    from torch._dynamo import utils

    assert compiler.replaces_numpy(utils.numpy_to_tensor_wrapper(len))
    assert compiler.replaces_numpy(utils.numpy_attr_wrapper)
    assert not compiler.replaces_numpy(len) and not compiler.replaces_numpy(None)


def test_compiling_on_the_side_leaves_nothing_behind() -> None:
    """The log, the counters, the sizes and the code are those of before."""
    from torch._dynamo import eval_frame, output_graph, pgo, utils

    def backend(graph: Any, inputs: Any) -> Any:
        return graph

    def function(x: Tensor) -> Tensor:
        return x * 2

    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    logger = logging.getLogger("torch._dynamo")
    before = logger.level, pgo._CODE_STATE
    utils.counters["test"]["one"] += 1
    guards: list[Any] = []
    with compiler.compiler_set_aside(backend):
        assert logger.level == logging.ERROR
        assert pgo._CODE_STATE is not before[1] and type(pgo._CODE_STATE) is type(before[1])
        compiled = compiler.compile_with(function, backend, guards.append)
        assert compiled(torch.ones(2)).tolist() == [2, 2]
        utils.counters["test"]["one"] += 1
        utils.counters["new"]["one"] += 1
        output_graph.graph_break_reasons.append("a reason")
        assert len(eval_frame._debug_get_cache_entry_list(function.__code__)) == 1
    assert guards and (logger.level, pgo._CODE_STATE) == before
    assert utils.counters["test"]["one"] == 1 and "new" not in utils.counters
    assert "a reason" not in output_graph.graph_break_reasons
    assert len(eval_frame._debug_get_cache_entry_list(function.__code__)) == 0
    del utils.counters["test"]


def test_code_that_was_compiled_before_is_kept() -> None:
    """Only what was made on the side is forgotten."""
    from torch._dynamo import eval_frame

    ran: list[str] = []

    def mine(graph: Any, inputs: Any) -> Any:
        ran.append("mine")
        return graph

    def side(graph: Any, inputs: Any) -> Any:
        ran.append("side")
        return graph

    def function(x: Tensor) -> Tensor:
        return x * 2

    kept = torch.compile(function, backend=mine)
    kept(torch.ones(2))
    with compiler.compiler_set_aside(side):
        compiler.compile_with(function, side, lambda guards: None)(torch.ones(2))
    assert ran == ["mine", "side"]
    kept(torch.ones(2))
    assert ran == ["mine", "side"]
    eval_frame.reset_code(function.__code__)


def test_hooks_of_all_optimizers() -> None:
    """Before and after their steps."""
    from torch.optim import optimizer

    def before(*given: Any) -> None:
        return None

    def after(*given: Any) -> None:
        return None

    handles = [optimizer.register_optimizer_step_post_hook(after),
               optimizer.register_optimizer_step_pre_hook(before)]
    try:
        assert compiled_calls.optimizer_hooks() == [before, after]
    finally:
        for handle in handles:
            handle.remove()
    assert compiled_calls.optimizer_hooks() == []


def test_kernels_and_the_nodes_in_them() -> None:
    """The name without its number, and the nodes of the graph before gradients."""
    made = inductor._kernel("cpp_add:1", {"pre_grad_nodes": ["a", "b"], "other": ["c"]}, "x.py")
    assert made == inductor.MadeKernel("cpp_add", ("a", "b"), "x.py")
    assert inductor._kernel("cpp_add", {}, "").nodes == ()


def test_stages_that_vote_alone_agree() -> None:
    """The vote takes place, and its answer is yes."""
    seen: list[Any] = []

    def vote(*given: Any, **named: Any) -> str:
        """Vote."""
        seen.append((given, named))
        return "no"

    agreed = fake_group._all_agree(vote)
    assert agreed(1, a=2).tolist() == [1] and agreed.__doc__ == "Vote."
    assert agreed(1).dtype is torch.int32 and seen == [((1,), {"a": 2}), ((1,), {})]


def distributed(name: str, *bases: type, **held: Any) -> Any:
    """An object of a class with this name in ``torch.distributed``."""
    return type(name, bases or (object,), {"__module__": "torch.distributed.x", **held})()


def test_tensors_of_torch_distributed() -> None:
    """By the name and the home of their class; the tensor in them is read without waiting."""
    local = torch.ones(2)
    waiting = distributed("AsyncCollectiveTensor", elem=local, completed=False)
    ready = distributed("AsyncCollectiveTensor", elem=local, completed=True)
    tensor = distributed("DTensor", _local_tensor=local)
    both = distributed("DTensor", _local_tensor=waiting)
    other = type("DTensor", (), {"_local_tensor": 0, "completed": False})()
    for each in (tensor, both, waiting, ready, local):
        assert processes.local_part(each) is local
    assert processes.local_part(other) is other and not processes.is_dtensor(other)
    assert processes.is_dtensor(tensor) and not processes.is_dtensor(waiting)
    pending = [processes.is_pending(each) for each in (local, tensor, both, waiting, ready, other)]
    assert pending == [False, False, True, True, False, False]


@pytest.mark.parametrize(("name", "held", "text"), [
    ("Shard", {"dim": 1}, "Shard(1)"), ("Replicate", {}, "Replicate()"),
    ("Partial", {"reduce_op": "sum"}, "Partial(sum)"),
    ("_StridedShard", {"dim": 0, "reduce_op": "x"}, "StridedShard(0)"),
])
def test_names_of_placements(name: str, held: dict[str, Any], text: str) -> None:
    """With the dimension or the reduction."""
    layout = SimpleNamespace(placements=[type(name, (), held)()] * 2, device_mesh="m")
    assert processes.dtensor_layout(layout) == ((text, text), "m")


def test_modules_that_gather_their_weights() -> None:
    """Both kinds of FSDP; not what only has the name."""
    assert processes.gathers_weights(distributed("FSDPModule"))
    assert processes.gathers_weights(distributed("FullyShardedDataParallel"))
    assert not processes.gathers_weights(type("FSDPModule", (), {})())
    assert not processes.gathers_weights(distributed("DistributedDataParallel"))


def test_dimensions_of_a_mesh() -> None:
    """Named by number where they have no names; no place for who is not in it."""
    mesh = SimpleNamespace(mesh_dim_names=("dp", "tp"), ndim=2, shape=(2, 3),
                           get_coordinate=lambda: [1, 2])
    assert processes.mesh_facts(mesh) == (("dp", "tp"), (2, 3), (1, 2))
    bare = SimpleNamespace(mesh_dim_names=None, ndim=2, shape=(2, 3), get_coordinate=lambda: None)
    assert processes.mesh_facts(bare) == (("dim0", "dim1"), (2, 3), ())


def test_when_a_work_is_done() -> None:
    """Its future calls; a backend without futures has none."""
    called: list[int] = []
    future: Any = torch.futures.Future()
    work = SimpleNamespace(get_future=lambda: future)
    assert processes.when_done(work, lambda: called.append(1)) is future and not called
    future.set_result(None)
    assert called == [1]

    def refuse() -> None:
        raise NotImplementedError

    assert processes.when_done(SimpleNamespace(get_future=refuse), lambda: None) is None

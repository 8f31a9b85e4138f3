"""What stands between the recorder and PyTorch's internals, one function at a time."""

from __future__ import annotations

import inspect
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules import module as module_hooks
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from torchrecorder.capture.internals import access, trials
from torchrecorder.capture.internals.table import DEVICE_BEGINNING
from torchrecorder.capture.internals.trials import Internal


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
    """Those that are active now, if PyTorch exposes them."""
    def same(tensor: Any) -> Any:
        return tensor

    assert access.saved_tensor_hooks() is None
    with torch.autograd.graph.saved_tensors_hooks(same, same):
        exposed = hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks")
        assert access.saved_tensor_hooks() == ((same, same) if exposed else None)


def test_the_inside_of_attention_is_recorded() -> None:
    """Where its function is called by the method of the module."""
    function = torch.nn.functional.multi_head_attention_forward
    wanted = {function: nn.MultiheadAttention.forward.__code__}
    assert access.composed_functions() == (wanted if access.ATTENTION_BODY.present else {})


def test_attributes_with_saved_tensors() -> None:
    """Those of a node that are not unpacked."""
    x = torch.ones(2, requires_grad=True)
    assert access.saved_attributes((x * x).grad_fn) == ("_raw_saved_other", "_raw_saved_self")
    assert access.saved_attributes((x + x).grad_fn) == ()
    assert access.input_metadata(object()) == ()
    assert len(access.input_metadata((x * x).grad_fn)) == 1


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


def test_pipelines_that_are_imported() -> None:
    """Their functions are those that compute gradients or run before the first micro-batch."""
    pytest.importorskip("torch.distributed.pipelining.schedules")
    names = {function.__name__ for function in access.pipeline_functions()}
    assert {*access.PIPELINE_BACKWARD} <= names


def test_operators_get_a_rule_once() -> None:
    """For each mode; it runs what was given for it."""
    class Operator:
        def __init__(self) -> None:
            self.python_key_table = dict[Any, Any]()

        def py_impl(self, mode: Any) -> Any:
            assert mode not in self.python_key_table
            return lambda rule: self.python_key_table.__setitem__(mode, rule)

    one, other = Operator(), Operator()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "find", lambda path: {"one": one, "other": other})
        for mode in (PassesBelow, PassesBelow, TorchDispatchMode):
            access.give_operators_rules(mode, lambda *given: given)
        patch.setattr(access, "find", lambda path: None)
        access.give_operators_rules(PassesBelow, lambda *given: given)
    assert [*one.python_key_table] == [PassesBelow, TorchDispatchMode] == [*other.python_key_table]
    assert one.python_key_table[PassesBelow]("mode", 1, a=2) == ("mode", one, (1,), {"a": 2})


@pytest.mark.parametrize(("llga", "ask", "cpu", "gpu", "meta"), [
    (None, None, True, True, True), (True, None, True, True, True),
    (False, None, True, True, False), (False, True, True, True, False),
    (False, False, False, False, False),
])
def test_devices_for_which_kernels_are_fused(
    llga: Any, ask: Any, cpu: bool, gpu: bool, meta: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PyTorch answers; it is asked for CPUs and GPUs, and where it does not say, it may."""
    asked: list[str] = []

    def find(path: str) -> Any:
        asked.append(path)
        answer = llga if path.endswith("llga_enabled") else ask
        return None if answer is None else lambda: answer

    monkeypatch.setattr(access, "find", find)
    assert [access.fuses(device) for device in ("cpu", "cuda", "meta")] == [cpu, gpu, meta]
    wanted = {f"torch._C._jit_can_fuse_on_{device}" for device in ("cpu", "gpu")}
    assert ({*asked} >= wanted) == (llga is False)


@pytest.mark.parametrize(("before", "tools", "after", "found"), [
    (True, False, True, True), (False, True, True, True), (False, True, False, False),
    (False, False, True, False),
])
def test_collectives_without_data(
    before: bool, tools: bool, after: bool, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either they are there, or they are once a module of PyTorch is imported."""
    imported: list[str] = []

    def find(path: str) -> Any:
        if path.endswith("_dispatch_has_kernel_for_dispatch_key"):
            return lambda name, key: after if imported else before
        imported.append(path)
        return tools

    monkeypatch.setattr(trials, "find", find)
    assert trials.fakes_communication() is found

    def refuses(*given: str) -> bool:
        raise RuntimeError

    monkeypatch.setattr(trials, "find", lambda path: refuses)
    assert trials.fakes_communication() is False


def test_calls_of_custom_functions_are_seen() -> None:
    """In every version, by a frame or by what PyTorch makes for each."""
    assert trials.creates_contexts() is True


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
    named = tuple(inspect.signature(torch.compile).parameters)
    assert trials.parameters("torch.compile") == named and "mode" in named


def test_what_this_pytorch_has() -> None:
    """All of its names, and what else must work."""
    def internal(*paths: str, works: bool = True) -> Internal:
        return Internal("a", "b", "c", paths, works=lambda: works)

    assert internal().present and internal("torch.nn", "sys.path").present
    assert not internal("torch.nn", works=False).present
    lacking = internal("torch.nn", "torch.no", "torch.nor")
    assert lacking.missing == ("torch.no", "torch.nor") and not lacking.present


@pytest.mark.skipif(not DEVICE_BEGINNING.present, reason="not told by this version")
def test_what_is_called_when_cuda_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: now if it has begun, else by PyTorch, unless that is after the block."""
    begun, called, waiting = [False], list[str](), trials.find(DEVICE_BEGINNING.paths[0])
    before = [*waiting]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: begun[0])
    with access.when_cuda_begins(lambda: called.append("outer")):
        with access.when_cuda_begins(lambda: called.append("inner")):
            pass
        assert not called
        for call, _ in waiting[len(before):]:  # as PyTorch does
            call()
    assert called == ["outer"] and waiting == before
    begun[0] = True
    with access.when_cuda_begins(lambda: called.append("now")):
        assert called == ["outer", "now"] and waiting == before

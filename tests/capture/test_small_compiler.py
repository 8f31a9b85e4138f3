"""What stands between the recorder and the compiler, one function at a time."""

from __future__ import annotations

import contextlib
import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from torchrecorder.capture.internals import compiled_calls, compiler


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


def test_all_code_that_was_made_on_the_side_is_forgotten() -> None:
    """Of each kind of argument; a stance of the program is none of the side."""
    from torch._dynamo import eval_frame

    ran: list[str] = []

    def backend(name: str) -> Any:
        def run(graph: Any, inputs: Any) -> Any:
            ran.append(name)
            return graph

        return run

    def function(x: Tensor) -> Tensor:
        return x * 2

    torch.compile(function, backend=backend("mine"))(torch.ones(2))
    side = backend("side")
    for _ in range(2):
        with torch.compiler.set_stance("force_eager"), compiler.compiler_set_aside(side):
            compiled = compiler.compile_with(function, side, lambda guards: None)
            for kind in (torch.float32, torch.int64):
                compiled(torch.ones(2, dtype=kind))
    assert ran == ["mine", *["side"] * 4]
    eval_frame.reset_code(function.__code__)


def test_what_listens_to_the_compiler_is_removed() -> None:
    """Code that is compiled later is not told of."""
    from torch._dynamo import convert_frame

    before = [*convert_frame._bytecode_hooks]
    with compiler.compiler_set_aside(None):
        assert len(convert_frame._bytecode_hooks) == len(before) + 1
    assert [*convert_frame._bytecode_hooks] == before


class Compiled:
    """A compiled function, as PyTorch calls two functions around it."""

    def __init__(self, *, runs: bool = True) -> None:
        self.runs, self.log = runs, list[str]()
        self.stance, self.active = _replaced(self)

    def call(self, callback: Any, *, raises: bool = False) -> None:
        """What the wrapper of a compiled function does."""
        callback = self.stance(callback)
        before = self.active(callback)
        try:
            self.log.append(f"run {callback}")
            if raises:
                raise KeyError
        finally:
            self.active(before)

    def other(self, callback: Any) -> None:
        """Something else that calls the same functions."""
        self.active(self.active(self.stance(callback)))


def _replaced(made: Compiled) -> tuple[Any, Any]:
    def begins(frame: Any) -> bool:
        made.log.append(f"begins {frame.f_code.co_name}")
        return made.runs

    def ended(frame: Any) -> None:
        made.log.append(f"ended {frame.f_code.co_name}")

    held: list[Any] = [None]

    def set_callback(callback: Any) -> Any:
        held.append(callback)
        return held.pop(0)

    codes = {id(Compiled.call.__code__)}
    return compiled_calls._replacements(
        lambda callback: f"stance of {callback}", set_callback, codes, begins, ended
    )


def test_calls_of_compiled_functions_are_told() -> None:
    """When they begin and when they are over, also if they raise; they run compiled."""
    compiled = Compiled()
    for _ in range(2):
        compiled.call("code")
    with pytest.raises(KeyError):
        compiled.call("code", raises=True)
    assert compiled.log == ["begins call", "run code", "ended call"] * 3


def test_calls_that_are_not_told() -> None:
    """Those of nothing, those of others, and those that do not run compiled."""
    compiled = Compiled()
    for callback in (None, False):
        compiled.call(callback)
    assert compiled.log == ["run stance of None", "run stance of False"]
    compiled.other("code")
    assert len(compiled.log) == 2
    eager = Compiled(runs=False)
    eager.call("code")
    assert eager.log == ["begins call", "run stance of code"]


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


def test_kernels_of_the_first_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a forward pass; the code is where Inductor keeps it, if it does."""
    settings: list[Any] = []

    def whole(graph: Any, inputs: Any, *, inner_compile: Any) -> Any:
        keys = iter(("cabcd", None, "cefgh"))
        graphs = [inner_compile(next(keys), is_backward=backward)
                  for backward in (True, False, False)]
        return graph, inputs, graphs

    def inner(key: Any, *, is_backward: bool) -> Any:
        return SimpleNamespace(cache_key=key)

    def patched(given: Any) -> Any:
        settings.append(given)
        return contextlib.nullcontext()

    made = {"whole": whole, "inner": inner, "patched": patched,
            "nodes": lambda: {"k:1": {"pre_grad_nodes": ["a"]}, "l": {}}}
    monkeypatch.setattr(compiler, "KERNEL_PROVENANCE", SimpleNamespace(paths=tuple(made)))
    monkeypatch.setattr(compiler, "find", made.__getitem__)
    (graph, inputs, graphs), kernels = compiler.lowered("graph", "inputs")
    assert (graph, inputs) == ("graph", "inputs") and settings == [compiler.SETTINGS]
    assert [each.cache_key for each in graphs] == ["cabcd", None, "cefgh"]
    assert kernels == [("k", ("a",), ""), ("l", (), "")]
    monkeypatch.setitem(made, "whole", lambda *given, inner_compile: inner_compile(
        "cefgh", is_backward=False
    ))
    assert compiler.lowered(0, 0)[1][0].code == "ef/cefgh.py"


def test_kernels_and_the_nodes_in_them() -> None:
    """The name without its number, and the nodes of the graph before gradients."""
    made = compiler._kernel("cpp_add:1", {"pre_grad_nodes": ["a", "b"], "other": ["c"]}, "x.py")
    assert made == compiler.MadeKernel("cpp_add", ("a", "b"), "x.py")
    assert compiler._kernel("cpp_add", {}, "").nodes == ()

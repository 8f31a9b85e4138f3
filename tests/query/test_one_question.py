"""Questions about runs by hand, one fact each."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from tests.graph.test_consistency import blank, changed, keyed
from tests.stepped import stepped
from torchrecorder.errors import InvalidArgument, NotThere
from torchrecorder.events import FunctionCall, GradEdge, GradId, ScopeKind, SourceLine
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import BackwardRun, GradNode, Op
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def names(parts: Any) -> list[str]:
    """Their ids."""
    return [part.id for part in parts]


# Names ----------------------------------------------------------------------------------


def regions() -> Recording:
    """An op at the top, and an op in a region of a module, and the call of a function."""
    run = Builder("Net")
    run.op("relu", run.input("x"))
    with run.scope("Net"), run.scope("cuda", "float16", kind=ScopeKind.AUTOCAST):
        run.op("relu", run.input("y"))
    line = SourceLine("/a/net.py", 3, "forward")
    call = blank(FunctionCall, id="f0", name="Net.helper", source=line, ops=("o1",), scopes=())
    return replace(run.recording(), function_calls=keyed([call]))


def test_names_of_ops() -> None:
    """With the place they ran in; at the top there is none."""
    recording = regions()
    assert names(recording.find("relu")) == ["o0", "o1"]
    assert names(recording.find("cuda.relu")) == names(recording.find("cuda: relu")) == ["o1"]
    assert not recording.find(".relu")


def test_names_of_regions() -> None:
    """By what they are, too; a module is no region."""
    recording = regions()
    for name in ("cuda", "float16", "autocast", "autocast float16"):
        assert names(recording.find(name)) == ["s1"]
    assert not recording.find("module") and not recording.find("module Net")
    assert names(recording.find("helper")) == names(recording.find("Net.helper")) == ["f0"]


@pytest.mark.parametrize(
    ("file", "asked", "found"),
    [
        ("net.py", "net.py:10", True),
        ("/a/net.py", "net.py:10", True),
        ("/a/net.py", "/a/net.py:10", True),
        ("/a/net.py", "a/net.py:10", True),
        ("C:\\a\\net.py", "a/net.py:10", True),
        ("C:\\a\\net.py", "C:\\a\\net.py:10", True),
        ("/a/subnet.py", "net.py:10", False),
        ("/a/net.py", "net.py:11", False),
        ("net.py", "a/net.py:10", False),
    ],
)
def test_lines_by_the_end_of_their_file(file: str, asked: str, found: bool) -> None:
    """Whole parts of the path only; with either slash."""
    recording = changed(regions(), "ops", "o0", source=SourceLine(file, 10, "forward"))
    recording = changed(recording, "scopes", "s0", source=SourceLine(file, 10, "main"))
    recording = changed(recording, "ops", "o1", source=None)
    assert names(recording.find(asked)) == (["o0", "s0"] if found else [])


def test_several_parts_are_distinguished_in_words() -> None:
    """Ops by their line, calls by their number, regions by their place, functions by theirs."""
    run = Builder("Net")
    with run.scope("Net"):
        for _ in range(8):
            with run.scope("cell", "Cell"):
                with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
                    run.op("relu", run.input())
    recording = run.recording()
    calls = [blank(FunctionCall, id=f"f{n}", name="helper", ops=(), scopes=()) for n in range(2)]
    calls[1] = calls[1]._replace(source=SourceLine("net.py", 7, "forward"))
    recording = replace(recording, function_calls=keyed(calls))
    with pytest.raises(NotThere, match="ambiguous: o0 is relu.* o5 is .*, and 2 more. Use"):
        recording["relu"]
    with pytest.raises(NotThere, match="s2 is cell.no_grad, s4 is cell.no_grad, "):
        recording["no_grad"]
    with pytest.raises(NotThere, match=r"f0 is helper\(\), f1 is .*\(\), called at net.py:7. U"):
        recording["helper"]
    again = changed(recording, "modules", "m1", names=())
    with pytest.raises(NotThere, match="s1 is cell, call 1, s3 is cell, call 2, "):
        again["cell"]
    grads = changed(stepped(), "grad_nodes", "g1", owner=None)
    with pytest.raises(NotThere, match=r"g1 is MmBackward0, g4 is .* of linear\(\) in b\b"):
        grads["MmBackward0"]
    with pytest.raises(NotThere, match="m1 is a, m2 is b"):
        grads["Linear"]
    some = changed(grads, "modules", "m1", names=())
    with pytest.raises(NotThere, match="m1 is Linear, m2 is b"):
        some["Linear"]
    twice = changed(grads, "values", "v1", names=("b.weight",))
    with pytest.raises(NotThere, match=r"v1 is b.weight .* in a\), v3 is b.weight .* in b\)"):
        twice["b.weight"]


def test_a_name_that_nothing_has() -> None:
    """The closest is told, or the first few."""
    with pytest.raises(NotThere, match="called 'helpr'.*did you mean 'helper'"):
        regions()["helpr"]
    with pytest.raises(NotThere, match=r"operations are 'y', 'output', 'out', .*' \.\.\.$"):
        regions()["zzzzzz"]
    bare = Builder("Net")
    bare.op("relu", bare.input("x"))
    with pytest.raises(NotThere, match="operations are 'relu'$"):
        bare.recording()["zzzzzz"]


# Missing gradients ----------------------------------------------------------------------


def why(recording: Recording, name: str = "w") -> Any:
    """Reason, text and ops."""
    found = recording.why_no_gradient(name)
    return (found.reason, found.text, [op.name for op in found.ops]) if found else None


def lossy(build: Any, *, loss: bool = True) -> Recording:
    """A run that *build* makes with a weight and an input, and its backward pass.

    *build* gives what the loss is made of, and what else the run returns.
    """
    run = Builder("Net")
    with run.scope("Net"):
        weight, x = run.parameter("w"), run.input("x")
        ends = build(run, weight, run.op("exp", x, grads=("ExpBackward0",)))
        run.returns(*ends)
    if loss:
        run.op("backward", ends[0], outputs=0)
    made = taped(run.recording(), weight)
    last = [*made.ops][-1]
    return replace(made, backward_runs=(BackwardRun(0, last, 0.0, False, False),) if loss else ())


def taped(recording: Recording, weight: Any) -> Recording:
    """*recording*, in which the grad nodes of ops that read the weight lead to it."""
    leaf = GradNode(GradId("leaf"), "AccumulateGrad", None, None, (), weight)
    read = recording.consumers.get(weight, ())
    grads = [
        grad.replace(next=(*grad.next, GradEdge(leaf.id, 0))) if grad.owner in read else grad
        for grad in recording.grad_nodes.values()
    ]
    return replace(recording, grad_nodes=keyed([leaf, *grads]))


def quiet(run: Builder, name: str, *given: Any) -> Any:
    """An op under no_grad."""
    with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
        return run.op(name, *given)


def test_what_only_an_optimizer_or_a_checkpoint_reads_is_unused() -> None:
    """Neither is part of the forward; nor is backward itself."""
    def stepping(run: Builder, weight: Any, h: Any) -> Any:
        with run.scope("SGD", kind=ScopeKind.OPTIMIZER):
            run.op("add_", weight)
        with run.scope("again", "checkpoint", kind=ScopeKind.CHECKPOINT, recompute=True):
            run.op("mul", h, weight)
        return (h,)

    assert why(lossy(stepping)) == ("unused", "no operation read it", [])
    own = lossy(lambda run, weight, h: (weight,))
    assert why(own)[0] == "unused"


def test_a_weight_that_is_read_aside() -> None:
    """Its last reader is named; with an output, that output."""
    ends = why(lossy(lambda run, weight, h: (h, run.op("sum", tape(run, weight)))[:1]))
    assert ends == (
        "not in the loss", "no tensor computed from it reaches the loss: nothing reads the result "
        "of sum() in Net at /home/me/net.py:13", ["sum"],
    )
    given = why(lossy(lambda run, weight, h: (h, run.op("mul", weight))))
    assert given[:2] == (
        "not in the loss", "no tensor computed from it reaches the loss, only output 1"
    )
    away = why(lossy(lambda run, weight, h: (h, quiet(run, "mul", weight))))
    assert away[0] == "not in the loss" and away[1].endswith("only output 1")


def tape(run: Builder, weight: Any) -> Any:
    """An op that autograd follows."""
    return run.op("mul", weight, grads=("MulBackward0",))


def test_a_weight_that_is_read_aside_without_autograd() -> None:
    """Then the first loss is that of autograd, with the op and why."""
    aside = why(lossy(lambda run, weight, h: (h, quiet(run, "mul", weight))[:1]))
    assert aside[0] == "left autograd" and aside[2] == ["mul"]
    assert aside[1].endswith("it runs under no_grad")
    number = why(lossy(lambda run, weight, h: (h, run.op("item", weight, outputs=0))[:1]))
    assert number[0] == "left autograd" and number[2] == ["item"]
    assert "item() in Net at /home/me/net.py:12 converts it to a Python number" in number[1]


@pytest.mark.parametrize(
    ("name", "facts", "said"),
    [
        ("detach", {}, "it returns the same numbers without their autograd history"),
        ("mul", {"dtype": "int64"}, "its result is int64, which has no gradient"),
        ("mul", {"dtype": "bfloat16"}, "its result does not require grad"),
        ("mul", {"dtype": "complex64"}, "its result does not require grad"),
    ],
)
def test_why_autograd_is_left(name: str, facts: dict[str, Any], said: str) -> None:
    """In an op that the loss needs; the others are counted."""
    def build(run: Builder, weight: Any, h: Any) -> Any:
        lost = [run.op(name, weight, **facts) for _ in range(count)]
        return (run.op("add", h, *lost),)

    said_more = ": ", ", and 1 more operation: ", ", and 2 more operations: "
    for count, more in enumerate(said_more, 1):
        reason, text, ops = why(lossy(build))
        assert (reason, ops) == ("left autograd", [name] * count)
        assert text == f"autograd is left in {name}() in Net at /home/me/net.py:12{more}{said}"
    whole = lossy(build)
    under = replace(whole, run=replace(whole.run, grad_mode="no_grad"))
    if name != "detach":
        assert why(under)[1].endswith("the whole run was under no_grad")


def test_regions_that_turn_autograd_on_again() -> None:
    """The innermost counts."""
    def build(run: Builder, weight: Any, h: Any) -> Any:
        with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            with run.scope("enable_grad", "enable_grad", kind=ScopeKind.ENABLE_GRAD):
                lost = run.op("mul", weight)
        return (run.op("add", h, lost),)

    assert why(lossy(build))[1].endswith("its result does not require grad")


def test_what_backward_did_not_reach() -> None:
    """A frozen weight, no backward, a failure, other inputs, and gradients that are returned."""
    recording = replace(stepped(), grad_runs=())
    weight = "a.weight"
    frozen = changed(recording, "values", "v1", trainable=False, requires_grad=False)
    assert why(frozen, weight)[0] == "frozen"
    assert why(replace(recording, backward_runs=()), weight)[0] == "no backward"
    assert why(recording, weight)[1].startswith("the backward pass computed the gradients of other")
    returned = changed(recording, "ops", "o2", name="grad")
    assert why(returned, weight)[1].startswith("grad() returns")
    failure = Failure("E", "out of memory", None, None, True)
    failed = replace(recording, run=replace(recording.run, failure=failure))
    assert why(failed, weight) == (
        "not propagated", "the run failed before: out of memory", []
    )
    assert why(stepped(), weight) is None
    live = changed(frozen, "values", "v1", requires_grad=True)
    assert why(live, weight)[0] == "not propagated"
    with pytest.raises(InvalidArgument, match="'b' is not the name of a tensor"):
        recording.why_no_gradient("b")


def test_a_custom_function_that_returns_nothing() -> None:
    """Is named with its op; a node of PyTorch that passes nothing on is none."""
    whole = stepped()
    runs = [run.replace(gave=(None, None)) for run in whole.grad_runs if run.grad in ("g4", "g1")]
    mine = replace(changed(whole, "grad_nodes", "g1", name="MineBackward"), grad_runs=tuple(runs))
    reason, text, ops = why(mine, "a.weight")
    assert (reason, ops) == ("not propagated", ["linear"])
    assert text == "MineBackward of linear() in a returned no gradient for it"
    theirs = replace(whole, grad_runs=tuple(runs))
    assert why(theirs, "a.weight")[1].startswith("the backward pass computed")
    loose = changed(mine, "grad_nodes", "g1", owner=None)
    assert why(loose, "a.weight")[1:] == ("MineBackward returned no gradient for it", [])
    given = replace(mine, grad_runs=(runs[0], runs[1].replace(gave=(None, runs[1].given[0]))))
    assert why(given, "a.weight")[1].startswith("the backward pass computed")
    unsaid = runs[1].replace(gave=())
    leaf = whole.grad_runs[-1].replace(given=(None,))
    assert why(replace(mine, grad_runs=(unsaid, leaf)), "a.weight")[1] == text
    assert why(replace(mine, grad_runs=(unsaid,)), "a.weight")[1].startswith("the backward pass")


def test_two_tensors_of_one_name_are_two() -> None:
    """Unless they share memory, as a weight does with what an optimizer wrote into it."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("sum", run.op("exp", run.input("x")), run.input("z"))
    recording = run.recording()
    other = changed(recording, "values", "v2", names=("x",))
    unread = changed(other, "ops", "o0", inputs=())
    assert unread.values["v0"].names == unread.values["v2"].names
    assert unread.why_no_gradient("v0").reason == "unused"
    shared = changed(changed(unread, "values", "v0", storage=0), "values", "v2", storage=0)
    assert shared.why_no_gradient("v0").reason != "unused"


def test_an_input_with_a_history() -> None:
    """Autograd is followed from its own grad node."""
    recording = replace(stepped(), grad_runs=())
    assert why(recording, "x")[0] == "frozen"
    recording = changed(recording, "values", "v0", requires_grad=True)
    assert why(recording, "x")[0] == "left autograd"
    given = changed(recording, "values", "v0", grad=GradEdge("g1", 0))
    assert why(given, "x")[0] == "not propagated"


# Paths ----------------------------------------------------------------------------------


def diamond() -> Recording:
    """Two ways of different length from x to the end, and one that ends elsewhere."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        a = run.op("a", x)
        b = run.op("c", run.op("b", x))
        run.op("aside", a)
        run.op("end", run.op("join", a, b), a)
    return run.recording()


def test_the_shortest_path_comes_first() -> None:
    """All are counted, and as many listed as asked for."""
    recording = diamond()
    listed = [
        [node.name for node in path if isinstance(node, Op)] for path in recording.paths("x", "end")
    ]
    assert listed == [["a", "end"], ["a", "join", "end"], ["b", "c", "join", "end"]]
    few = recording.paths("x", "end", limit=1)
    assert (len(few), few.total) == (1, 3) and few[0] == recording.paths("x", "end")[0]
    assert repr(few) == "<3 paths in Net, 1 listed>"
    assert str(few) == "x → Net: a → Net: end\nand 2 more"
    assert not len(recording.paths("x", "end", limit=0))
    through = recording.paths("x", "end").through
    assert {recording.ops[node].name for node in through if node in recording.ops} == {
        "a", "b", "c", "join", "end",
    }


def test_no_path_and_one() -> None:
    """Against the data there is none."""
    recording = diamond()
    none, one = recording.paths("end", "a"), recording.paths("b", "c")
    assert (repr(none), str(none), none.through) == ("<0 paths in Net>", "no path", ())
    assert (repr(one), str(one)) == ("<1 path in Net>", "Net: b → Net: c")
    with pytest.raises(InvalidArgument, match="'a' and 'Net' share operations or tensors"):
        recording.paths("a", "Net")
    with pytest.raises(InvalidArgument, match="is a node of the autograd graph"):
        stepped().paths("x", "TBackward0")
    idle = changed(stepped(), "modules", "m1", calls=())
    scopes = {key: scope for key, scope in idle.scopes.items() if key != "s1"}
    with pytest.raises(InvalidArgument, match="no operation ran in 'a'"):
        replace(idle, scopes=MappingProxyType(scopes)).paths("a", "b")


def test_a_path_leaves_its_start_once_and_ends_at_the_first_end() -> None:
    """Not through other parts of either."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("body", "Body"):
            h = run.op("second", run.op("first", x))
        with run.scope("head", "Head"):
            run.op("fourth", run.op("third", h))
    found = run.recording().paths("body", "head")
    assert found.total == 1
    assert [node.name for node in found[0] if isinstance(node, Op)] == ["second", "third"]


def test_a_long_list_is_cut() -> None:
    """The text names twenty, and how many more there are."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        run.op("cat", *[run.op("relu", x) for _ in range(25)])
    found = run.recording().paths("x", "cat")
    lines = str(found).splitlines()
    assert len(found) == found.total == 25 and len(lines) == 21 and lines[-1] == "and 5 more"

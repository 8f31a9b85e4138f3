"""Parts of runs by hand: by focus, by the functions that ran them, by groups that are made up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.figures import linear
from tests.graph.test_consistency import blank, changed, keyed
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import (
    Communication, FunctionCall, FusedKernel, GraphBreak, OpKind, ParameterPart, ScopeKind, Shard,
    SourceLine,
)
from torchrecorder.graph.consistency import problems
from torchrecorder.graph.nodes import Scope
from torchrecorder.recording import Recording
from torchrecorder.select.focus import Focus, scopes_like
from torchrecorder.select.functions import MAX_DIRECT_OPS, WithFunctions
from torchrecorder.select.group import GroupSiblings, patterns
from torchrecorder.testing import Builder

# Focus ----------------------------------------------------------------------------------


def fork() -> Recording:
    """One op, then two modules beside each other, and one that reads both."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.op("stem", run.input("x"))
        left, right = linear(run, "left", h), linear(run, "right", h)
        with run.scope("head", "Head"):
            run.op("add", left, right, grads=("AddBackward0",))
    return run.recording()


def names(recording: Recording) -> list[str]:
    """Its ops, with the last piece of the path they are in."""
    return [
        ".".join(filter(None, (recording.scopes[op.scope].name if op.scope else "", op.name)))
        for op in recording.ops.values()
    ]


@pytest.mark.parametrize(
    ("focus", "said"),
    [
        (Focus(since="head", until="left"),
         "nothing lies between since='head' and until='left': the other direction has some"),
        (Focus(since="left", until="right"),
         "nothing lies between since='left' and until='right': neither depends on the other"),
        (Focus("right", since="left"), "no operation is left of focus='right', since='left'"),
        (Focus("right", until="left"), "no operation is left of focus='right', until='left'"),
        (Focus("right", since="left", until="head"),
         "no operation is left of focus='right', since='left', until='head'"),
        (Focus("middle"), "no module is called 'middle'; did you mean 'left'"),
        (Focus(since="lefd"), "no tensor or module is called 'lefd'; did you mean 'left'"),
    ],
)
def test_nothing_is_left(focus: Focus, said: str) -> None:
    """The message says of what, and whether the other way round there were something."""
    with pytest.raises(InvalidArgument) as raised:
        focus(fork())
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("focus", "left"),
    [
        (Focus(), ["Net.stem", "left.linear", "right.linear", "head.add"]),
        (Focus("left"), ["left.linear"]),
        (Focus("Linear"), ["left.linear", "right.linear"]),
        (Focus(since="left"), ["left.linear", "head.add"]),
        (Focus(until="left"), ["Net.stem", "left.linear"]),
        (Focus(since="left.weight"), ["left.linear", "head.add"]),
        (Focus(since="left", until="head"), ["left.linear", "head.add"]),
        (Focus("head", since="left"), ["head.add"]),
        (Focus(until="o1"), ["Net.stem", "left.linear"]),
        (Focus(since="v3"), ["left.linear", "head.add"]),
    ],
)
def test_what_is_left(focus: Focus, left: list[str]) -> None:
    """Ops that are in it, come after it, and come before it."""
    found = focus(fork())
    assert names(found) == left
    assert (found == fork()) == (focus == Focus())


def test_the_outermost_of_what_matches_is_taken() -> None:
    """By path before class; nothing that a checkpoint ran again."""
    run = Builder("Net")
    with run.scope("Net"):
        for place in range(2):
            with run.scope(f"block{place}", "Block"), run.scope("block", "Inner"):
                run.op("relu", run.input())
        with run.scope("again", "Block", kind=ScopeKind.CHECKPOINT, recompute=True):
            run.op("relu", run.input())
    recording = run.recording()

    def like(pattern: str) -> list[str]:
        return [recording.scopes[scope].path for scope in scopes_like(recording, pattern)]

    assert like("*block*") == like("Block") == ["block0", "block1"]
    assert like("*.block") == like("Inner") == ["block0.block", "block1.block"]


def test_ends_of_a_part() -> None:
    """Results of a module, outputs of the run, and what ops outside read; each once."""
    recording = fork()
    stem, last = recording.ops["o0"].outputs, recording.ops["o3"].outputs
    until = Focus(until="o0")(recording)
    assert [slot.value for slot in until.outputs] == [*stem]
    assert [(slot.name, slot.value) for slot in Focus("left")(recording).inputs] == [("0", stem[0])]
    since = Focus(since="head")(recording)
    assert [slot.name for slot in since.inputs] == ["left.linear", "right.linear"]
    assert [slot.value for slot in since.outputs] == [*last]
    both = Focus("left")(replace(recording, outputs=recording.scopes["s1"].outputs))
    assert [slot.value for slot in both.outputs] == [recording.ops["o1"].outputs[0]]
    unread = changed(recording, "ops", "o3", inputs=())
    assert not Focus(since="o1")(replace(unread, outputs=())).outputs


def test_what_belongs_to_ops_goes_with_them() -> None:
    """Communication and breaks in scopes that stay, kernels, shards, grad nodes."""
    whole = replace(
        fork(),
        communications=(
            blank(Communication, scope="s1", op="o1"), blank(Communication, scope="s2", op="o2"),
            blank(Communication, scope="s0", op="o0"),
        ),
        graph_breaks=(
            blank(GraphBreak, scope="s1", op="o1"), blank(GraphBreak, scope="s3", op="o3"),
            blank(GraphBreak, scope="s0", op="o0"),
        ),
        fused_kernels=(blank(FusedKernel, ops=("o0", "o1")),),
        shards=(blank(Shard, value="v2"),),
        parameter_parts=(ParameterPart("v2", "v2"), ParameterPart("v2", "v99")),
    )
    part = Focus(since="left")(whole)
    assert [(one.scope, one.op) for one in part.communications] == [("s1", "o1"), ("s0", None)]
    assert [(one.scope, one.op) for one in part.graph_breaks] == [
        ("s1", "o1"), ("s3", "o3"), ("s0", None),
    ]
    assert part.fused_kernels[0].ops == ("o1",) and part.shards == whole.shards
    assert part.parameter_parts == whole.parameter_parts[:1]
    assert {grad.name for grad in Focus("head")(whole).grad_nodes.values()} == {"AddBackward0"}
    assert all(not grad.next or grad.next == (None,) * len(grad.next)
               for grad in Focus("head")(whole).grad_nodes.values())
    around = changed(whole, "ops", "o1", scope=None)
    sent = blank(Communication, scope=None, op="o1"), blank(Communication, scope=None, op="o0")
    around = replace(around, communications=sent, graph_breaks=())
    assert [one.op for one in Focus(since="o1")(around).communications] == ["o1"]


# Functions ------------------------------------------------------------------------------


def loose(count: int, *quiet: str) -> Recording:
    """A module with so many ops, and those that are not drawn as *quiet* says."""
    run = Builder("Net")
    with run.scope("Net"):
        x, kept = run.input("x"), run.buffer("count")
        for _ in range(count):
            run.op("relu", x)
        for kind in quiet:
            if kind == "pass":
                run.op("pass", x, kind=OpKind.PASS)
            elif kind == "count":
                run.op("add_", kept, writes=kept)
            elif kind == "none":
                run.op("item", x, outputs=0)
    return run.recording()


def call(name: str, ops: Iterable[int] = (), parent: str | None = None, **facts: Any) -> Any:
    """The call of a function in which these ops ran; its id is the name without its class."""
    ran = tuple(f"o{number}" for number in ops)
    key = name.rpartition(".")[2]
    return blank(FunctionCall, **{
        "id": key, "name": name, "parent": parent, "ops": ran, "scopes": (), **facts,
    })


def grouped(recording: Recording, *calls: Any, wanted: bool | None = True) -> dict[str, int]:
    """For each scope of a function, how many ops are in it directly."""
    found = WithFunctions(wanted)(replace(recording, function_calls=keyed(calls)))
    assert not [*problems(found)]
    assert [*found.ops] == [*recording.ops]
    direct = [op.scope for op in found.ops.values()]
    return {
        scope.path: direct.count(scope.id)
        for scope in found.scopes.values() if scope.cls == "function"
    }


def test_only_large_scopes_are_grouped() -> None:
    """From one more than the limit on, of ops that are drawn; or all, or none."""
    calls = call("f", range(2)), call("g", range(2, 5))
    both = {"f": 2, "g": 3}
    assert grouped(loose(MAX_DIRECT_OPS + 1), *calls, wanted=None) == both
    assert not grouped(loose(MAX_DIRECT_OPS), *calls, wanted=None)
    assert not grouped(loose(MAX_DIRECT_OPS, "pass", "count", "none"), *calls, wanted=None)
    assert grouped(loose(MAX_DIRECT_OPS), *calls) == both
    assert not grouped(loose(MAX_DIRECT_OPS + 1), *calls, wanted=False)
    again = loose(MAX_DIRECT_OPS + 1)
    for number in range(6, 9):
        again = changed(again, "ops", f"o{number}", recompute=True)
    assert not grouped(again, *calls, wanted=None)
    modules = loose(MAX_DIRECT_OPS + 1)
    scopes = [blank(Scope, id=f"x{n}", parent="s0", index=99 + n, kind=ScopeKind.MODULE,
                    path="", inputs=(), outputs=(), recompute=False) for n in range(MAX_DIRECT_OPS)]
    fewer = changed(modules, "ops", "o9", outputs=())
    mixed = replace(fewer, scopes=keyed([*fewer.scopes.values(), *scopes]))
    assert not grouped(mixed, *calls, wanted=None)
    failed = changed(loose(MAX_DIRECT_OPS, "none"), "ops", f"o{MAX_DIRECT_OPS}", failed=True)
    assert grouped(failed, *calls, wanted=None) == both


def test_a_function_with_one_op_or_with_all_is_no_level() -> None:
    """What is in one that holds all is looked at in its place."""
    recording = loose(6)
    assert not grouped(recording, call("one", [0]))
    assert not grouped(recording, call("all", range(6)))
    whole, inner = call("all", range(4)), call("inner", (4, 5), "all")
    assert grouped(recording, whole, inner) == {"inner": 2}
    most = call("most", range(3)), call("inner", (3, 4), "most")
    assert grouped(recording, *most) == {"most": 3, "most.inner": 2}


def test_functions_in_functions_are_shown_where_there_is_much() -> None:
    """A function is grouped only if it has more ops than the limit, unless all are asked for."""
    most = MAX_DIRECT_OPS
    few = call("f", range(most - 2)), call("g", (most - 2, most - 1), "f")
    assert grouped(loose(most + 1), *few, wanted=None) == {"f": most}
    assert grouped(loose(most + 1), *few) == {"f": most - 2, "f.g": 2}
    many = call("f", range(most - 1)), call("g", (most - 1, most), "f")
    assert grouped(loose(most + 2), *many, wanted=None) == {"f": most - 1, "f.g": 2}


def test_a_wrapper_has_the_name_of_what_it_wraps() -> None:
    """If that is all that it calls; a function of a class has its own name alone."""
    wrapper, wrapped = call("deco.<locals>.wrapper"), call("Net.f", range(3), "wrapper")
    assert grouped(loose(6), wrapper, wrapped) == {"f": 3}
    also = call("deco.<locals>.wrapper", [3]), call("Net.f", range(3), "wrapper")
    assert grouped(loose(6), *also) == {"wrapper": 1, "wrapper.f": 3}


def test_a_call_in_two_scopes_is_two() -> None:
    """Each with what ran there; named alike."""
    run = Builder("Net")
    with run.scope("Net"):
        for name in ("a", "b"):
            with run.scope(name, "Block"):
                for _ in range(3):
                    run.op("relu", run.input())
    helper = call("f", (0, 1, 3, 4))
    found = WithFunctions(True)(replace(run.recording(), function_calls=keyed([helper])))
    assert [(scope.id, scope.path, scope.parent) for scope in found.scopes.values()][1:] == [
        ("s1", "a", "s0"), ("f", "a.f", "s1"), ("s2", "b", "s0"), ("f:2", "b.f", "s2"),
    ]


def test_the_scope_of_a_function_shows_what_ran_in_it() -> None:
    """Time if all is known, failure, the line of the call, what enters and leaves."""
    line = SourceLine("net.py", 3, "forward")
    recording = loose(5)
    x = next(iter(recording.inputs)).value
    chained = changed(recording, "ops", "o4", inputs=recording.ops["o4"].inputs[:0])
    for number, seconds in enumerate((1.0, 2.0, 4.0)):
        chained = changed(chained, "ops", f"o{number}", seconds=seconds)
    calls = keyed([call("f", range(2), source=line)])

    def made(recording: Recording) -> Any:
        return WithFunctions(True)(replace(recording, function_calls=calls)).scopes["f"]

    scope = made(chained)
    assert (scope.seconds, scope.failed, scope.recompute) == (3.0, False, False)
    assert (scope.source, scope.index, scope.name, scope.parent) == (line, 1, "f", "s0")
    assert (scope.call, scope.module, scope.kind) == (0, None, ScopeKind.FUNCTION)
    assert [slot.value for slot in scope.inputs] == [x]
    assert made(changed(chained, "ops", "o1", seconds=None)).seconds is None
    assert made(changed(chained, "ops", "o1", failed=True)).failed


def test_regions_belong_to_the_function_around_them() -> None:
    """A region that a function began is in it; a function that ran in one alone stays there."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input()
        run.op("relu", x)
        with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            run.op("exp", x)
            run.op("log", x)
        run.op("sin", x)
    recording = run.recording()
    around = grouped(recording, call("f", (0, 1, 2)))
    assert around == {"f": 1}
    found = WithFunctions(True)(
        replace(recording, function_calls=keyed([call("f", (0, 1, 2))]))
    )
    assert found.scopes["s1"].parent == "f"
    within = replace(run.recording(), function_calls=keyed([call("f", (1, 2)), call("g", (0, 3))]))
    found = WithFunctions(True)(within)
    assert found.scopes["s1"].parent == "s0" and "f" not in found.scopes
    assert [op.scope for op in found.ops.values()] == ["g", "s1", "s1", "g"]


def test_a_region_with_a_module_belongs_to_the_function_that_called_it() -> None:
    """What runs in the module is that of its own functions."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input()
        run.op("relu", x)
        with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
            with run.scope("fc", "Linear"):
                run.op("linear", x)
        run.op("sin", x)
        run.op("cos", x)
    helper = keyed([call("f", (0, 2), scopes=("s2",))])
    found = WithFunctions(True)(replace(run.recording(), function_calls=helper))
    assert found.scopes["s1"].parent == "f" and found.scopes["s2"].parent == "s1"


# Groups ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [{3: ["a"]}, {"": ["a"]}, {" ": ["a"]}, {"A": []}, {"A": " , "}, {"A": 3}, ["A"]]
)
def test_a_group_has_a_name_and_members(names: Any) -> None:
    """Both texts."""
    with pytest.raises(InvalidArgument, match="group"):
        GroupSiblings(names)


def test_patterns_of_members() -> None:
    """A list, or a text with commas; blanks do not count."""
    assert patterns(" a, b.* ,,") == patterns(["a ", "", "b.*"]) == ("a", "b.*")


def test_a_group_shows_what_ran_in_it() -> None:
    """Time if all is known; failure; it begins where its first member begins, in any order."""
    recording = changed(changed(fork(), "scopes", "s1", seconds=2.0), "scopes", "s2", seconds=3.0)
    group = GroupSiblings({"Both": ["right", "left"]})
    found = group(recording)
    assert not [*problems(found)]
    scope = found.scopes["s:Both"]
    assert (scope.seconds, scope.failed, scope.index, scope.path) == (5.0, False, 2, "Both")
    assert [*found.scopes] == ["s0", "s:Both", "s1", "s2", "s3"]
    assert found.scopes["s:Both"].parent == "s0"
    assert found.scopes["s1"].parent == found.scopes["s2"].parent == "s:Both"
    assert group(changed(recording, "scopes", "s1", seconds=None)).scopes["s:Both"].seconds is None
    assert group(changed(recording, "scopes", "s1", failed=True)).scopes["s:Both"].failed
    again = GroupSiblings({"Both": ["head"]})(found)
    assert again.scopes["s:Both:2"].path == "Both" and again.scopes["s3"].parent == "s:Both:2"
    last = GroupSiblings({"End": ["head.add"]})(recording)
    assert [*last.scopes][-1] == "s:End" and last.scopes["s:End"].path == "head.End"
    assert {grad.scope for grad in last.grad_nodes.values() if grad.owner == "o3"} == {"s:End"}


def test_a_group_gives_last_what_comes_back_to_it() -> None:
    """Results of the run first, in their order; of others the latest first."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("a", "A"):
            aside = run.op("aside", run.input("x"))
            early = run.op("early", aside)
            back = run.op("back", early)
            given = run.op("given", early), run.op("also", early)
        with run.scope("c", "C"):
            between = run.op("between", run.op("outside", back))
        with run.scope("b", "B"):
            run.op("late", between)
        run.op("end", aside, early)
        run.returns(given[1], given[0])
    recording = run.recording()
    found = GroupSiblings({"Both": ["a", "b"]})(recording)
    slots = found.scopes["s:Both"].outputs
    names = {value: op.name for op in recording.ops.values() for value in op.outputs}
    assert [names[slot.value] for slot in slots] == ["also", "given", "early", "aside", "back"]
    assert [slot.name for slot in slots] == ["0", "1", "2", "3", "4"]
    given = found.scopes["s:Both"].inputs
    assert [names.get(slot.value, "x") for slot in given] == ["x", "between"]


def test_members_that_do_not_fit() -> None:
    """Twice, not there, or apart."""
    for names, said in (
        ({"A": "left", "B": "l*"}, "'left' is in two groups, 'A' and 'B'"),
        ({"A": ["left", "middle"]}, "group 'A': no module or operation is called 'middle'"),
        ({"A": ["left", "head.add"]}, "'left', 'head.add' are in the model itself, 'head'. Name"),
    ):
        with pytest.raises(InvalidArgument) as raised:
            GroupSiblings(names)(fork())
        assert said in str(raised.value)

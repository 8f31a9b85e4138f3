"""Comparisons the other way round, and single facts that only one of two recordings has."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings, strategies as st

from tests.comparison.test_box_captions import labels
from tests.comparison.test_compare import lines, stack
from tests.comparison.test_numbers import measured_changes, measuring, net
from tests.comparison.test_overlay import laid
from tests.random_recordings import recordings
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.comparison import Comparison
from torchrecorder.comparison.kinds import ChangeKind
from torchrecorder.comparison.match import match
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

CLASSES = st.sampled_from(["Linear", "ReLU", "GELU"])


def classes(found: Comparison, kind: ChangeKind) -> Counter[str]:
    """The classes of the modules that changed in this way."""
    modules = (each.where for each in found.changes if each.kind is kind and "(" in each.where)
    return Counter(where.partition("(")[2] for where in modules)


@settings(max_examples=60, deadline=None)
@given(st.permutations(["Linear", "ReLU", "GELU", "Tanh"]), st.lists(st.booleans(), max_size=4))
def test_what_is_taken_out_one_way_is_put_in_the_other(
    names: list[str], keeps: list[bool]
) -> None:
    """Modules of a chain, by their classes; those that stay belong to one another both ways."""
    chain = [*zip(names, keeps)]
    whole, left = stack(*(cls for cls, _ in chain)), stack(*(cls for cls, stays in chain if stays))
    there, back = compare(whole, left), compare(left, whole)
    assert len(there.matching.scopes) == len(back.matching.scopes) == len(left.scopes)
    gone = Counter(f"{cls})" for cls, stays in chain if not stays)
    assert classes(there, ChangeKind.REMOVED) == classes(back, ChangeKind.ADDED) == gone
    assert not classes(there, ChangeKind.ADDED) and not classes(back, ChangeKind.REMOVED)


def reading(*names: str) -> Recording:
    """An op that reads inputs with these names."""
    run = Builder("Net")
    with run.scope("Net"):
        first = run.input("x")
        run.op("cat", first, *(run.input(name) for name in names), slots=("x", *names))
    return run.recording()


def test_an_argument_more_or_less_is_rewiring() -> None:
    """Read instead of nothing, or nothing instead of it; by the name of the input."""
    assert lines(reading(), reading("mask")) == ["rewired cat mask: reads mask, not nothing"]
    assert lines(reading("mask"), reading()) == ["rewired cat mask: reads nothing, not mask"]
    assert lines(reading(), reading("")) == ["rewired cat reads the input, not nothing"]


def test_a_weight_that_an_op_no_longer_reads_is_rewiring() -> None:
    """Both modules still have it."""
    def scaled(reads: bool) -> Recording:
        run = Builder("Net")
        with run.scope("Net"):
            x, scale = run.input("x"), run.parameter("scale")
            run.op("exp", x, *([scale] if reads else []))
            run.op("mul", x, scale)
        return run.recording()

    assert lines(scaled(True), scaled(False)) == ["rewired exp reads nothing, not scale"]
    assert lines(scaled(False), scaled(True)) == ["rewired exp reads scale, not nothing"]


def argued(detail: str, dim: str, around: bool = True) -> Recording:
    """An op with an argument, in a module with this setting, or beside it."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("sum", "Sum", detail=detail):
            run.op("exp", x) if not around else run.op("sum", x, arguments=(("dim", dim),))
    if not around:
        run.op("sum", x, arguments=(("dim", dim),))
    return run.recording()


def test_an_argument_that_follows_from_a_setting_is_not_shown_again() -> None:
    """It is where the module says the same, or where no module is around."""
    assert lines(argued("dim=0", "0"), argued("dim=1", "1")) == ["changed sum dim: 0 → 1"]
    assert lines(argued("dim=0", "0"), argued("dim=0", "1")) == ["changed sum dim: 0 → 1"]
    assert lines(argued("dim=0", "0", False), argued("dim=1", "1", False)) == [
        "changed sum dim: 0 → 1", "changed sum dim: 0 → 1",
    ]


def called(times: int, cls: str, detail: str = "") -> Recording:
    """One module of this class called so often."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(times):
            with run.scope("layer", cls, detail=detail):
                x = run.op("exp", run.op("abs", x))
    return run.recording()


def test_what_holds_for_a_module_is_reported_at_its_first_call() -> None:
    """However often it is called."""
    for times in (1, 2, 3):
        found = lines(called(times, "Old", "a=1"), called(times, "Old", "a=2"))
        assert found == ["changed layer a: 1 → 2"]
        assert lines(called(times, "Old"), called(times, "New")) == ["replaced layer Old → New"]
    assert [line for line in lines(called(2, "Old"), called(3, "Old")) if "added" in line] == [
        "added layer (call 3) (Old) 2 ops"
    ]


def test_what_is_gone_is_listed_after_what_it_followed() -> None:
    """And before what comes next, also at the beginning."""
    def ops(*names: str) -> Recording:
        run = Builder("Net")
        with run.scope("Net"):
            x = run.input("x")
            for name in names:
                run.op(name, x)
        return run.recording()

    assert lines(ops("sin", "exp", "abs"), ops("tan", "sin", "neg", "abs")) == [
        "added tan", "replaced neg exp → neg",
    ]
    assert lines(ops("sin", "exp", "sin", "abs", "tan"), ops("cos", "sin", "sin", "tan")) == [
        "added cos", "removed exp", "removed abs",
    ]
    assert lines(ops("exp", "sin", "tan"), ops("sin", "cos", "tan")) == [
        "removed exp", "added cos",
    ]


def test_several_outermost_calls_are_no_single_model() -> None:
    """Two of other classes and with other things in them do not belong together."""
    def calls(*classes: str) -> Recording:
        run = Builder("run")
        for cls in classes:
            with run.scope(cls, cls):
                run.op(cls.lower(), run.input("x"))
        return run.recording()

    one, other = calls("Encoder", "Decoder"), calls("Critic", "Actor")
    assert not match(one, other).scopes
    assert len(match(calls("Encoder"), calls("Critic")).scopes) == 1


def test_what_is_gone_from_the_beginning_is_listed_after_the_inputs() -> None:
    """Nothing ran before it."""
    def calls(size: int, *classes: str) -> Recording:
        run = Builder("run")
        x = run.input("x", (size,))
        for cls in classes:
            with run.scope(cls, cls):
                run.op(cls.lower(), x, shape=(4,))
        return run.recording()

    assert lines(calls(2, "Encoder", "Decoder"), calls(3, "Decoder"))[:2] == [
        "resized x [2] → [3]", "removed Encoder 1 op"
    ]


def test_numbers_of_a_module_are_compared_where_both_have_them() -> None:
    """Where only one of two modules was measured, nothing is shown of it."""
    one, other = measuring(net(), "flops", o0=1e6), measuring(net(), "flops", o0=2e6, o1=1e6)
    changes = measured_changes(compare(one, other, numbers="flops"))
    assert [text for text in changes if "fc" in text] == [
        "fc1: flops: 1.00 MFLOP → 2.00 MFLOP (+100 %)"
    ]
    assert len(measured_changes(compare(other, one, numbers="flops"))) == 2


def test_totals_are_of_what_is_counted_or_asked_for() -> None:
    """Times vary from run to run: they are told if somebody asks."""
    def timed(seconds: float) -> Recording:
        scopes = {key: each.replace(seconds=seconds) for key, each in net().scopes.items()}
        return replace(net(), scopes=MappingProxyType(scopes))

    plain = {total.name for total in compare(timed(1.0), timed(3.0)).totals}
    asked = compare(timed(1.0), timed(3.0), numbers={"forward_time": 1.5})
    assert {total.name for total in asked.totals} - plain == {"forward_time"}
    assert "forward_time" in asked.text().splitlines()[1]
    assert any("forward_time" in text for text in asked.changed_totals)


def gives(*outputs: int) -> Recording:
    """Three ops one after the other, and an op that reads the results with these numbers."""
    run = Builder("Net")
    with run.scope("Net"):
        made = [run.op("exp", run.input("x"))]
        for name in ("abs", "sin"):
            made.append(run.op(name, made[-1]))
        run.op("cat", *(made[number] for number in outputs))
    return run.recording()


def test_only_what_is_read_instead_of_something_else_has_a_former_edge() -> None:
    """Within one module another result is another edge, which is marked as new and gone."""
    found = laid(gives(0, 1), gives(0, 2))
    assert not found.instead
    assert len(found.removed) == len(found.added) == 1
    assert not laid(gives(0, 1), gives(0, 1)).instead


def test_what_is_gone_is_listed_after_what_changed_before_it() -> None:
    """It follows the last one that is still there, whatever happened to that."""
    def ops(dim: str, *names: str) -> Recording:
        run = Builder("Net")
        with run.scope("Net"):
            x = run.op("sum", run.input("x"), arguments=(("dim", dim),))
            for name in names:
                run.op(name, x)
        return run.recording()

    assert lines(ops("0", "exp", "tan"), ops("1", "tan")) == [
        "changed sum dim: 0 → 1", "removed exp",
    ]


def twice(bias: bool, detail: str) -> Recording:
    """A module that is called before and after another one."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for name, setting in (("one", ""), ("other", detail), ("one", "")):
            with run.scope(name, name.title(), detail=setting):
                weights = [run.parameter("weight")]
                if bias and name == "one":
                    weights.append(run.parameter("bias", (4,)))
                x = run.op("linear", x, weights[0])
    return run.recording()


def test_a_new_parameter_is_listed_where_its_module_is_first_called() -> None:
    """Before what changed in what came after that."""
    assert lines(twice(False, "p=1"), twice(True, "p=2")) == [
        "added one.bias [4] float32", "changed other p: 1 → 2",
    ]


def moved(place: str, cls: str) -> Recording:
    """Two containers, and in one of them a module of this class."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for name in ("encoder", "decoder"):
            with run.scope(name, name.title()):
                x = run.op("tanh", x)
                if name == place:
                    with run.scope("layer", cls):
                        weights = [run.parameter("weight")] if cls == "Linear" else []
                        x = run.op(cls.lower(), x, *weights)
    return run.recording()


@pytest.mark.parametrize(("cls", "known"), [("Linear", True), ("ReLU", False)])
def test_a_module_with_weights_is_known_again_anywhere(cls: str, known: bool) -> None:
    """One without is like any other of its class."""
    before, after = moved("encoder", cls), moved("decoder", cls)
    found = [line for line in lines(before, after) if "layer" in line]
    assert ("renamed decoder.layer was encoder.layer" in found) is known
    assert any(line.startswith(("added decoder.layer", "removed encoder.layer"))
               for line in found) is not known


def test_a_module_from_elsewhere_has_its_former_path_in_the_figure(tmp_path: Path) -> None:
    """Its name alone is not where it was."""
    found = labels(tmp_path, moved("encoder", "Linear"), moved("decoder", "Linear"), depth=2)
    assert found["layer: Linear"].endswith("was encoder.layer")


OPS = st.lists(st.tuples(*map(st.sampled_from, ("ab", "01", (1, 2)))), max_size=9)


@settings(max_examples=200, deadline=None)
@given(OPS, OPS)
def test_ops_of_one_module_belong_together_in_their_order(
    one: list[tuple[str, str, int]], other: list[tuple[str, str, int]]
) -> None:
    """No two pairs cross, and between two pairs no op is left over that both have."""
    def ops(steps: list[tuple[str, str, int]]) -> Recording:
        run = Builder("Net")
        with run.scope("Net"):
            x = run.input("x")
            for name, dim, size in steps:
                x = run.op(name, x, shape=(size,), arguments=(("dim", dim),))
        return run.recording()

    before, after = ops(one), ops(other)
    pairs = match(before, after).ops
    places = [list(after.ops).index(pairs[op]) for op in before.ops if op in pairs]
    assert places == sorted(places)
    ends = [*zip((list(before.ops).index(op) for op in before.ops if op in pairs), places)]
    for (left, first), (right, last) in pairwise([(-1, -1), *ends, (len(one), len(other))]):
        names = [{name for name, _, _ in steps}
                 for steps in (one[left + 1 : right], other[first + 1 : last])]
        assert not names[0] & names[1]


@settings(max_examples=60, deadline=None)
@given(st.lists(CLASSES, max_size=6), st.lists(CLASSES, max_size=6))
def test_chains_match_the_same_both_ways(names: list[str], others: list[str]) -> None:
    """Also where several ways to match are equally good."""
    _check_mirrored(stack(*names), stack(*others))


@settings(max_examples=60, deadline=None)
@given(recordings(), recordings())
def test_any_recordings_match_the_same_both_ways(some: Recording, other: Recording) -> None:
    """Modules that moved included."""
    _check_mirrored(some, other)


def _check_mirrored(some: Recording, other: Recording) -> None:
    there, back = match(some, other), match(other, some)
    for part in ("scopes", "ops", "values", "modules"):
        assert dict(getattr(there, part)) == {b: a for a, b in getattr(back, part).items()}

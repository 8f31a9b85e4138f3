"""Which changes share a line of the text, and what it says of all of them."""

from __future__ import annotations

import pytest

from tests.comparison.test_compare import lines as told, stack
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.kinds import Change, ChangeKind, alone
from torchrecorder.comparison.lines import lines
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

ADDED, REMOVED, RENAMED = ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.RENAMED
CHANGED, RESIZED, REWIRED = ChangeKind.CHANGED, ChangeKind.RESIZED, ChangeKind.REWIRED


def _texts(*changes: Change) -> list[str]:
    return [" ".join(filter(None, line[1:])) for line in lines(changes, stack("Linear"))]


def _pair(kind: ChangeKind, where: str, text: str = "", follows: bool = False) -> Change:
    return Change(kind, "o0", "o0", where, text, follows)


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (["layers.0.fc", "layers.1.fc", "layers.2.fc"], "layers.0.fc … layers.2.fc"),
        (["0", "1"], "0, 1"),
        (["layers.0 (Block)", "layers.1 (Block)", "layers.2 (Block)"],
         "layers.0 … layers.2 (Block)"),
        (["layers.0: view #1", "layers.1: view #1"], "layers.0, layers.1: view #1"),
        (["layers.0: view #1", "layers.1: view #2"], "layers.0: view #1 and 1 more"),
        (["layers.0: add", "layers.0: add"], "layers.0: add and 1 more"),
        (["fc", "head"], "fc and 1 more"),
        ([f"{name}.{number}.weight" for number in (0, 1) for name in ["n" * 20]],
         f"{'n' * 20}.0.weight and 1 more"),
        (["conv1", "conv2"], "conv1 and 1 more"),
    ],
)
def test_places_that_differ_in_an_index_are_a_range(places: list[str], expected: str) -> None:
    """Others are counted, and so are those of which the range is long."""
    changes = [_pair(CHANGED, place, "p: 1 → 2") for place in places]
    assert _texts(*changes) == [f"{expected} p: 1 → 2"]


def test_modules_in_other_places_have_their_own_lines() -> None:
    """If they were added or removed; of one list they share one, if they are of one size."""
    def added(where: str, text: str) -> Change:
        return alone(ADDED, "s1", where, text)

    assert _texts(added("a.0 (B)", "1 op"), added("a.1 (B)", "1 op"), added("b.0 (B)", "1 op"),
                  added("a.2 (B)", "2 ops")) == [
        "a.0, a.1 (B) 1 op", "b.0 (B) 1 op", "a.2 (B) 2 ops"
    ]
    blocks = [added(f"{block}.{name} (B)", "1 op")
              for block in ("layer1.0", "layer2.10") for name in ("conv2", "conv3")]
    assert _texts(*blocks) == [
        "layer1.0.conv2 (B) and 1 more 1 op", "layer1.0.conv3 (B) and 1 more 1 op"
    ]


def test_wrappers_of_one_kind_share_a_line() -> None:
    """In whatever place; and so do operations of one name."""
    around = "around base (Linear), 2 ops"
    changes = [alone(ADDED, "s1", where, around) for where in ("q (Lora)", "v (Lora)")]
    assert _texts(*changes) == [f"q (Lora) and 1 more {around}"]
    ops = [alone(REMOVED, "o1", where) for where in ("bn: add_", "norm: add_")]
    assert _texts(*ops) == ["bn: add_ and 1 more"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([("4", "3"), ("5", "4")], ["4, 5 was 3, 4"]),
        ([("a.0.base", "fc"), ("a.1.base", "fc")], ["a.0.base, a.1.base was fc"]),
        ([("a", "x"), ("b", "y")], ["a was x", "b was y"]),
        ([("a.0", "x"), ("a.1", "y")], ["a.0 was x", "a.1 was y"]),
        ([("a.0", "x"), ("b.0", "x")], ["a.0 was x", "b.0 was x"]),
    ],
)
def test_a_row_of_other_names_is_a_line(names: list[tuple[str, str]], expected: list[str]) -> None:
    """If both names count on; any others have their own lines."""
    assert _texts(*(_pair(RENAMED, new, f"was {old}") for new, old in names)) == expected


def test_equal_rewirings_of_equal_blocks_share_a_line() -> None:
    """Names in the module, and in the module around it, are those of each block."""
    one, two = (
        _pair(REWIRED, f"{block}.relu (call 2)", f"reads {block}.bn2, not {block}: add_")
        for block in ("layer1.0", "layer2.1")
    )
    other = _pair(REWIRED, "layer3.relu", "reads layer3.bn1, not layer3: add_")
    same = _pair(REWIRED, "other.relu", "reads layer3.bn1, not layer3: add_")
    found = _texts(one, two, other, same)
    assert found[0].startswith("layer1.0.relu (call 2) and 1 more reads layer1.0.bn2")
    assert found[1:] == ["layer3.relu reads layer3.bn1, not layer3: add_",
                         "other.relu reads layer3.bn1, not layer3: add_"]
    returned = [_pair(REWIRED, f"{name}", f"returns {name}.b, not {name}.a") for name in ("x", "y")]
    assert _texts(*returned) == ["x and 1 more returns x.b, not x.a"]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1 → 2", "3 → 4"], ["a and 1 more because of their inputs"]),
        (["1 → 2", "1 → 2"], ["a and 1 more 1 → 2"]),
        (["1 → 2"], ["a 1 → 2"]),
    ],
)
def test_results_that_follow_share_a_line(texts: list[str], expected: list[str]) -> None:
    """With their difference, if it is the same; where another begins has its own line."""
    changes = [_pair(RESIZED, where, text, True) for where, text in zip("abc", texts)]
    cause = _pair(RESIZED, "x", "7 → 8")
    assert _texts(cause, *changes) == ["x 7 → 8", *expected]


def test_a_single_result_that_follows_says_how() -> None:
    """Also if arguments of a reshape follow, too."""
    changes = [_pair(RESIZED, "a", "1 → 2", True), _pair(CHANGED, "b: view", "dim: 1 → 2", True)]
    assert _texts(*changes) == ["a 1 → 2", "b: view dim: 1 → 2"]


def _widths(*widths: int) -> Recording:
    """Layers of these widths, each with a weight."""
    builder = Builder("Net")
    with builder.scope("Net"):
        x = builder.input("x")
        for place, width in enumerate(widths):
            with builder.scope(f"fc{place}", "Linear", detail=f"out_features={width}"):
                x = builder.op("linear", x, builder.parameter("weight", (width, 4)))
    return builder.recording()


@pytest.mark.parametrize("layers", [1, 3, 4, 6])
def test_sizes_of_weights_follow_from_their_modules(layers: int) -> None:
    """Many of them share a line; what the modules were given is listed for each."""
    before, after = _widths(*range(2, layers + 2)), _widths(*range(12, layers + 12))
    changes = compare(before, after).changes
    resized = [change for change in changes if change.kind is RESIZED]
    assert len(resized) == layers and all(change.follows and change.quiet for change in resized)
    told = [what for kind, _, what in lines(changes, after) if kind is RESIZED]
    assert told == (["because of their modules"] if layers > 3 else
                    [f"{width}×4 → {width + 10}×4" for width in range(2, layers + 2)])


def test_another_size_of_a_weight_without_a_reason_does_not_follow() -> None:
    """The module was given the same numbers, or is another."""
    def run(width: int) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("fc", "Linear"):
            builder.op("linear", builder.input("x"), builder.parameter("weight", (width, 4)))
        return builder.recording()

    (change,) = compare(run(4), run(8)).changes
    assert change.kind is RESIZED and not change.follows


def test_a_tensor_of_another_dtype_was_cast() -> None:
    """Of another shape too, it was resized."""
    def run(width: int, dtype: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            builder.op("relu", builder.input("x", (width, 4), dtype=dtype), shape=(2, 4))
        return builder.recording()

    old = run(2, "float32")
    for new, kind in ((run(2, "float16"), ChangeKind.CAST), (run(3, "float16"), RESIZED)):
        assert [change.kind for change in compare(old, new).changes] == [kind]


def _layers(size: int, dim: str) -> Recording:
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        run.op("nonzero", x, shape=(size, 2))
        run.op("sum", x, arguments=(("dim", dim),))
    return run.recording()


def test_changes_are_listed_as_they_ran() -> None:
    """A result that nothing reads is where its operation ran."""
    kinds = [change.kind for change in compare(_layers(2, "0"), _layers(3, "1")).changes]
    assert kinds == [RESIZED, CHANGED]


def test_other_sizes_of_a_replaced_layer_are_not_listed() -> None:
    """The other class says that its weights are others."""
    def run(cls: str, width: int) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("fc", cls):
            builder.op(cls.lower(), builder.input("x"), builder.parameter("weight", (width, 4)))
        return builder.recording()

    assert told(run("Linear", 4), run("Sparse", 8)) == ["replaced fc Linear → Sparse"]


def test_a_long_text_ends_after_sixty_lines() -> None:
    """Here one about the result and 59 of 60 ops; it says how many are left."""
    def run(length: int) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            for place in range(length):
                builder.op(f"op{place}", x)
        return builder.recording()

    text = compare(run(1), run(61)).text()
    assert text.count("\n  added ") == 59 and text.endswith("\n  … and 1 more line")

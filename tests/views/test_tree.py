"""The tree of all that can be opened: places, folds, and what closed boxes stand for."""

from __future__ import annotations

from typing import Any

from tests.figures import linear, network, regions
from tests.views.test_fold import block, stack
from torchrecorder.annotations.parameters import PARAMETERS
from torchrecorder.recording import Recording
from torchrecorder.style.captions import Captions
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.tree import Tree


def tree_of(recording: Recording, **options: Any) -> Tree:
    """The tree behind a view with these options."""
    view = make_view(recording, ViewOptions(**options))
    assert view.unfolded is not None
    tree = Tree(view.unfolded())
    tree.view.check()
    return tree


def outline(tree: Tree) -> list[str]:
    """One line for each place, indented by how deep it lies."""
    lines, depth = [], {-1: -1}
    recording = tree.view.recording
    for number, place in enumerate(tree.places):
        depth[number] = depth[place.parent] + 1
        scopes: Any = recording.scopes
        ops: Any = recording.ops
        found = scopes.get(place.id) or ops.get(place.id)
        name = f"{len(place.fold)} × {found.name}" if place.fold else place.id
        if found is not None and not place.fold:
            name = found.name
        lines.append("  " * depth[number] + name)
    return lines


def nested(layers: int, experts: int) -> Recording:
    """Layers that each hold experts."""
    run = Builder("Nested")
    with run.scope("Nested"):
        h = run.input()
        for layer in range(layers):
            with run.scope(f"layers.{layer}", "Layer"):
                h = run.op("norm", h)
                for expert in range(experts):
                    with run.scope(f"experts.{expert}", "Expert"):
                        h = linear(run, "fc", h)
    return run.recording()


def test_every_scope_has_its_place() -> None:
    """Scopes, ops in them, inputs before and outputs after what ran."""
    assert outline(tree_of(network())) == [
        "v0",
        "Net",
        "  body",
        "    0",
        "      linear",
        "    1",
        "      relu",
        "    2",
        "      linear",
        "  skip",
        "  add",
        "out:0",
    ]


def test_a_tensor_that_is_drawn_comes_after_the_operation_that_made_it() -> None:
    """Not at the end of what is around it."""
    run = Builder("Net")
    with run.scope("Net"):
        h = run.op("exp", run.input("x"))
        run.op("tanh", run.op("cos", h))
    found = outline(tree_of(run.recording(), tensors=True))
    assert found == ["v0", "Net", "  exp", "  v1", "  cos", "  v2", "  tanh", "out:0"]


def test_depth_makes_no_difference() -> None:
    """The same can be opened in every view of a recording."""
    assert tree_of(network(), depth=0).places == tree_of(network()).places


def test_repeated_siblings_lie_in_a_fold() -> None:
    """Around all of them, between their neighbors."""
    assert outline(tree_of(stack(2)))[2:8] == [
        "  stem",
        "    linear",
        "  2 × layers.0",
        "    layers.0",
        "      fc",
        "        linear",
    ]


def test_folds_inside_each_sibling_of_a_fold() -> None:
    """Not only in the first."""
    found = outline(tree_of(nested(3, 4)))
    assert [line.strip() for line in found if "×" in line] == [
        "3 × layers.0",
        "4 × experts.0",
        "4 × experts.0",
        "4 × experts.0",
    ]


def test_no_folds_if_not_wanted() -> None:
    """Siblings stand by themselves."""
    assert not any("×" in line for line in outline(tree_of(stack(3), fold=False)))


def test_places_come_after_what_is_around_them() -> None:
    """And all that lies in one follows it without a gap."""
    tree = tree_of(nested(3, 4))
    for number, place in enumerate(tree.places):
        assert place.parent < number
        assert place.parent < 0 or number < tree.ends[place.parent]


def test_a_line_out_of_the_first_scope_leaves_it() -> None:
    """Although nothing is before it, not even an input."""
    run = Builder("run")
    with run.scope("first", "Noise"):
        h = run.op("rand")
    with run.scope("second", "Part"):
        run.op("relu", run.op("exp", h))
    tree = tree_of(run.recording())
    leaving = [tree.places[tree.lines[number][0]].id for number in tree.leaving]
    assert tree.places[0].id == "s0" and leaving == ["o0", "o2"]


def test_closed_scope_stands_for_what_is_hidden_in_it_too() -> None:
    """Parameters that are not drawn count in its box."""
    tree = tree_of(stack(3))
    weights = PARAMETERS.on(tree.view.recording)
    closed = tree.closed
    assert weights.of(closed["s0"].members) == 5 * 16
    assert [weights.of(fold.members) for fold in tree.folds()] == [48]


def test_options_hide_in_the_tree_too() -> None:
    """Patterns, queries and passes."""
    assert "  skip" not in outline(tree_of(network(), passes=False))
    assert "  body" not in outline(tree_of(network(), hide="body"))
    assert "  item" in outline(tree_of(regions(), queries=True))
    assert "  item" not in outline(tree_of(regions()))


def test_focus_is_all_there_is() -> None:
    """The tree begins with the scope that is looked at."""
    found = outline(tree_of(network(), focus="body"))
    assert [line.strip() for line in found if line.strip() in ("0", "skip")] == ["0"]


def test_outputs_of_repeated_siblings_are_one() -> None:
    """As a cache's are, one for each layer."""
    run = Builder("Cached")
    with run.scope("Cached"):
        h = run.input()
        kept = []
        for layer in range(5):
            h = block(run, f"layers.{layer}", h)
            kept.append(h)
        run.returns(*kept, linear(run, "head", h))
    tree = tree_of(run.recording())
    joined = [box for box in tree.view.boxes.values() if box.count > 1]
    assert [box.count for box in joined] == [5]
    into = [arrow for arrow in tree.view.arrows if arrow.head == joined[0].id]
    assert len({arrow.tail for arrow in into}) == 5


def turns(number: int) -> Recording:
    """Layers of two sorts in turn."""
    run = Builder("Turns")
    with run.scope("Turns"):
        h = run.input()
        for place in range(number):
            with run.scope(f"layers.{2 * place}", "Wide"):
                h = run.op("relu", linear(run, "fc", h))
            with run.scope(f"layers.{2 * place + 1}", "Deep"):
                h = run.op("tanh", linear(run, "fc", h))
    return run.recording()


def test_what_repeats_in_turn_lies_in_a_fold_of_blocks() -> None:
    """Each block can be opened by itself, and stands for what is in it."""
    tree = tree_of(turns(4))
    fold = next(place for place in tree.places if place.fold)
    assert fold.fold[0] == "block:s1" and len(fold.fold) == 4
    inside = [place for place in tree.places if place.id.startswith("block:") and not place.fold]
    assert len(inside) == 4
    closed = tree.closed
    assert closed["block:s1"].names == ("layers.0", "layers.1")
    assert {"s1", "s2", "s3", "s4"} <= set(closed["block:s1"].members)
    box = next(tree.folds())
    assert box.count == 4 and box.names[0] == "layers.0" and box.names[-1] == "layers.7"


def test_a_block_has_no_tooltip_of_a_tensor() -> None:
    """What its steps made is not what it is."""
    tree = tree_of(turns(4))
    captions = Captions(tree.view, Style())
    assert captions.tooltip(tree.closed["block:s1"]) == ""

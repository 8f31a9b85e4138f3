"""Folds and the default depth in the figure of a comparison: no fold hides a difference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.comparison.test_overlay import laid
from torchrecorder.annotations.scope_members import ScopeMembers
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.overlay import overlay
from torchrecorder.events import ScopeId
from torchrecorder.graph.structural_hash import without_numbers
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import ViewOptions, make_view
from torchrecorder.views.view import View

PARTS = st.tuples(st.sampled_from(["ReLU", "GELU"]), st.sampled_from(["p=1", "p=2"]), st.booleans())
MODELS = st.lists(PARTS, min_size=1, max_size=6)


def layers(*parts: tuple[str, str, bool], name: str = "layers.{}") -> Recording:
    """A model of layers: each with an activation of a class and a setting, and a bias or none."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for place, (cls, detail, bias) in enumerate(parts):
            with run.scope(name.format(place), "Layer"):
                with run.scope("mlp", "MLP"):
                    with run.scope("fc", "Linear"):
                        names = ["weight", "bias"] if bias else ["weight"]
                        x = run.op("linear", x, *map(run.parameter, names))
                    with run.scope("act", cls, detail=detail):
                        x = run.op(cls.lower(), x)
                with run.scope("norm", "LayerNorm"):
                    x = run.op("layer_norm", x, run.parameter("weight"))
    return run.recording()


SAME = "ReLU", "p=1", False


def folded(before: Recording, after: Recording, **options: object) -> View:
    """The view of both."""
    chosen = ViewOptions(**options)  # type: ignore[arg-type]
    return make_view(laid(before, after).recording, chosen)


def shown(view: View) -> list[str]:
    """The names of the closed modules, each with the number of its siblings in one fold."""
    scopes = view.recording.scopes
    closed = [box for box in view.boxes.values() if box.id in scopes]
    return [f"{scopes[ScopeId(box.id)].name} ×{box.count}" for box in closed]


@pytest.mark.parametrize(
    "changed", [("GELU", "p=1", False), ("ReLU", "p=2", False), ("ReLU", "p=1", True)]
)
def test_equal_siblings_fold_beside_the_one_that_changed(changed: tuple[str, str, bool]) -> None:
    """And a layer that differs as its neighbors do in both runs is alone."""
    view = folded(layers(*[SAME] * 6), layers(SAME, SAME, changed, SAME, SAME, SAME), depth=1)
    assert shown(view) == ["layers.0 ×2", "layers.2 ×1", "layers.3 ×3"]


def test_what_became_equal_to_its_neighbors_does_not_fold_with_them() -> None:
    """The second run alone would fold."""
    other = "GELU", "p=1", False
    view = folded(layers(SAME, SAME, other, SAME, SAME), layers(*[SAME] * 5), depth=1)
    assert shown(view) == ["layers.0 ×2", "layers.2 ×1", "layers.3 ×2"]


def test_equal_changes_fold() -> None:
    """Six layers with the same new activation are one box; so are layers that are gone."""
    view = folded(layers(*[SAME] * 6), layers(*[("GELU", "p=1", False)] * 6), depth=1)
    assert shown(view) == ["layers.0 ×6"]
    view = folded(layers(*[SAME] * 5), layers(*[SAME] * 2), depth=1)
    assert shown(view) == ["layers.0 ×2", "layers.2 ×3"]


def test_layers_with_other_names_fold() -> None:
    """Each was called by another number, which is no difference between them."""
    view = folded(layers(*[SAME] * 4), layers(*[SAME] * 4, name="blocks.{}"), depth=1)
    assert shown(view) == ["blocks.0 ×4"]


def test_the_default_depth_opens_the_way_to_what_changed() -> None:
    """And leaves closed what is the same, also where there is room."""
    view = folded(layers(*[SAME] * 6), layers(*[SAME] * 2, ("GELU", "p=1", False), *[SAME] * 3))
    assert shown(view) == ["layers.0 ×2", "fc ×1", "act ×1", "norm ×1", "layers.3 ×3"]
    assert [*view.clusters] == ["s0", "s11", "s12"]


def test_the_default_depth_keeps_to_the_number_of_boxes() -> None:
    """Where everything differs, not everything is opened."""
    kinds = [("GELU", f"p={place}", False) for place in range(30)]
    view = folded(layers(*[SAME] * 30), layers(*kinds))
    assert shown(view) == [f"layers.{place} ×1" for place in range(30)]


def test_a_comparison_folds_unless_asked(tmp_path: Path) -> None:
    """In its figure too."""
    both = compare(layers(*[SAME] * 4), layers(*[SAME] * 3, ("GELU", "p=1", False)))
    assert "×3" in both.render(tmp_path / "both.dot").read_text(encoding="utf-8")
    assert "×3" not in both.render(tmp_path / "both.dot", fold=False).read_text(encoding="utf-8")


def _scaled(sizes: Sequence[int], buffers: Sequence[int]) -> Recording:
    """Layers that read a scale of the model, and have a buffer that no operation reads."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        scales = [run.parameter(f"scale_{place}", (size,)) for place, size in enumerate(sizes)]
        for place, size in enumerate(buffers):
            with run.scope(f"layers.{place}", "Layer"):
                run.buffer("steps", (size,))
                with run.scope("act", "ReLU"):
                    x = run.op("relu", x)
                x = run.op("mul", x, scales[place])
    return run.recording()


def test_a_layer_whose_weights_were_others_is_alone() -> None:
    """Weights of other modules that it reads, and its own that nothing reads."""
    after = _scaled([1] * 5, [1] * 5)
    assert shown(folded(_scaled([1] * 5, [1] * 5), after, depth=1)) == ["layers.0 ×5"]
    alone = ["layers.0 ×2", "layers.2 ×1", "layers.3 ×2"]
    assert shown(folded(_scaled([1, 1, 7, 1, 1], [1] * 5), after, depth=1)) == alone
    assert shown(folded(_scaled([1] * 5, [1, 1, 7, 1, 1]), after, depth=1)) == alone


@settings(max_examples=60, deadline=None)
@given(MODELS, MODELS, st.sampled_from([True, "similar"]))
def test_no_fold_hides_a_difference(
    before: Sequence[tuple[str, str, bool]], after: Sequence[tuple[str, str, bool]], fold: object
) -> None:
    """Siblings that fold, in a figure or on a page, differ from the other run in the same way."""
    found = laid(layers(*before), layers(*after))
    options = ViewOptions(fold=fold, depth=9)  # type: ignore[arg-type]
    view = make_view(found.recording, options)
    assert view.unfolded is not None
    inside = ScopeMembers(found.recording)

    def told(item: str) -> set[object]:
        members = inside.of_scope(ScopeId(item)) if item in found.recording.scopes else [item]
        read = {slot.value for op in found.recording.ops.values() if op.id in members
                for slot in op.inputs if found.recording.values[slot.value].producer is None}
        return {(found.marks[node], tuple(map(without_numbers, found.notes.get(node, ()))))
                for node in (*members, *read) if node in found.marks}

    for group in view.unfolded().repeats:
        assert all(told(item) == told(group[0]) for item in group)
    for drawn in (*view.boxes.values(), *view.clusters.values()):
        assert all(told(item) == told(drawn.id) for item in drawn.instances)


def _labels(before: Recording, after: Recording) -> dict[str, str]:
    """The differences by the name of the op, or of the op that computes the value."""
    found = compare(before, after)
    both = overlay(found.matching, found.changes).recording
    names = {op.id: op.name for op in both.ops.values()}
    made = {value: f"{op.name}'s" for op in both.ops.values() for value in op.outputs}
    own = {node: text for node, text in both.own_differences.items() if node in {*names, *made}}
    return {{**names, **made}[node]: text for node, text in own.items()}


def _chain(width: int, returned: str = "exp") -> Recording:
    """Two results: one of this width that is summed, and one that the run returns."""
    builder = Builder("Net")
    with builder.scope("Net"):
        x = builder.input("x")
        made = {name: builder.op(name, x) for name in ("exp", "sin", "cos")}
        builder.op("sum", builder.op("nonzero", x, shape=(width, 2)), shape=())
        builder.returns(made[returned], made["cos"])
    return builder.recording()


def test_what_reads_a_changed_result_does_not_differ() -> None:
    """Its own result is the same, and so are equal ones beside it."""
    found = _labels(_chain(3), _chain(4))
    assert set(found) == {"nonzero", "nonzero's"}


def test_an_output_instead_of_another_differs() -> None:
    """It does not fold with outputs that were returned before, too."""
    found = _labels(_chain(3), _chain(3, "sin"))
    assert found == {"sin's": "; instead"}

"""A model, or modules of it, inside others: compared with those that are not."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings, strategies as st

from tests.comparison.test_box_captions import labels
from tests.comparison.test_compare import _with_idle, lines
from tests.comparison.test_folded import folded, shown
from tests.comparison.test_mirrored import _check_mirrored
from tests.comparison.test_overlay import laid
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.match import match
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

ADAPTER = "adapter"
NAMES = ("module", "_orig_mod", "base_model.model", "net")


def model(
    number: int = 3, *around: str, wrapped: str = "", cls: str = "Adapter", act: str = "ReLU"
) -> Recording:
    """A model of layers, in modules that call what is in them by the names *around*; if *wrapped*,
    each layer has an adapter, in which its weights are called so."""
    run = Builder("Net")
    with ExitStack() as stack:
        for name, inner in zip(("", *around), (*around, "")):
            cls_ = f"Around_{inner}" if inner else "Net"
            stack.enter_context(run.scope(name or cls_, cls_))
        x = run.input("x")
        for place in range(number):
            with run.scope(f"layers.{place}", "Layer"):
                with run.scope("fc", cls) if wrapped else ExitStack():
                    with run.scope(wrapped or "fc", "Linear"):
                        y = run.op("linear", x, run.parameter("weight"))
                    if wrapped:
                        with run.scope(ADAPTER, "LowRank"):
                            low = run.op("matmul", x, run.parameter("weight", (4, 2)))
                        y = run.op("add", y, low)
                with run.scope("act", act):
                    x = run.op(act.lower(), y)
        run.returns(x)
    recording = run.recording()
    adapters = {module.id: module.replace(qualname=f"adapters.{cls}")
                for module in recording.modules.values() if module.names[0].endswith(".fc")}
    modules = {**recording.modules, **(adapters if wrapped else {})}
    return replace(recording, modules=MappingProxyType(modules))


@pytest.mark.parametrize("name", NAMES)
def test_a_wrapped_model_is_the_same_model(name: str) -> None:
    """Whatever the wrapper is called, and calls it."""
    assert lines(model(), model(3, name)) == [
        f"added Around_{name} around {name} (Net)", f"renamed {name} was Net"
    ]
    assert lines(model(3, name), model()) == [
        f"removed Around_{name} around {name} (Net)", f"renamed Net was {name}"
    ]


def test_wrappers_of_wrappers() -> None:
    """Of which only the outermost is listed, as of all that one run has."""
    assert [line.split()[0] for line in lines(model(), model(3, "module", "net"))] == [
        "added", "renamed"
    ]


def test_what_changed_in_a_wrapped_model_is_all_that_changed() -> None:
    """Its layers are compared one by one."""
    found = lines(model(), model(3, "module", act="GELU"))
    assert found[2:] == [f"replaced module.layers.{place}.act ReLU → GELU" for place in range(3)]


@pytest.mark.parametrize("cls", ["Adapter", "Linear"])
def test_an_adapter_is_around_the_layer_that_it_adapts(cls: str) -> None:
    """Also if its class has the same name: what reads it is not rewired, and nothing is gone."""
    plain, adapted = model(2), model(2, wrapped="base", cls=cls)
    assert _told(plain, adapted) == [
        f"added layers.0.fc, layers.1.fc ({cls}) around base (Linear), 2 ops, 1 parameter",
        "renamed layers.0.fc.base … layers.1.fc.base was fc",
    ]
    assert _told(adapted, plain) == [
        f"removed layers.0.fc, layers.1.fc ({cls}) around base (Linear), 2 ops, 1 parameter",
        "renamed layers.0.fc, layers.1.fc was fc.base",
    ]


def _told(before: Recording, after: Recording) -> list[str]:
    """The lines of the text but for the totals."""
    return [" ".join(line.split()) for line in compare(before, after).text().splitlines()[2:]]


def test_layers_with_adapters_fold(tmp_path: Path) -> None:
    """Each has the same one; a closed adapter says what is in it."""
    plain, adapted = model(4), model(4, "module", wrapped="base")
    assert shown(folded(plain, adapted, depth=2)) == ["layers.0 ×4"]
    found = labels(tmp_path, plain, adapted, depth=3)
    assert found["fc: Adapter"].startswith("16 → 24 params | around base (Linear)")
    found = labels(tmp_path, adapted, plain, depth=3)
    assert found["fc: Adapter"].startswith("24 → 16 params | around base (Linear)")


def test_a_wrapper_that_is_gone_is_drawn_around_what_it_was_around() -> None:
    """As one that was added; steps beside it stay where they were."""
    merged = laid(model(2, "module", wrapped="base"), model(2)).recording
    paths = {
        scope.path: [merged.scopes[outer].cls for outer in merged.within(scope.parent)]
        for scope in merged.scopes.values() if not scope.id.startswith("old_")
    }
    assert paths[""] == ["Around_module"]
    assert paths["layers.1.fc"] == ["Adapter", "Layer", "Net", "Around_module"]
    assert paths["layers.1.act"] == ["Layer", "Net", "Around_module"]
    steps = [*merged.scopes.values(), *merged.ops.values()]
    order = [step.name for step in sorted(steps, key=lambda step: step.index)]
    first = ["fc", "fc", "linear", "adapter", "matmul", "add", "act", "relu"]
    assert order[2 : 3 + len(first)] == ["layers.0", *first]


def test_another_layer_of_the_same_class_is_no_wrapped_one() -> None:
    """Where all linear layers in its place have other sizes, it was replaced."""
    def run(*sizes: str) -> Recording:
        build = Builder("Net")
        with build.scope("Net"):
            x = build.input("x")
            with build.scope("fc", "Sequential") if len(sizes) > 1 else ExitStack():
                for place, size in enumerate(sizes):
                    name = str(place) if len(sizes) > 1 else "fc"
                    with build.scope(name, "Linear", detail=size):
                        x = build.op("linear", x, build.parameter("weight"))
        return build.recording()

    found = lines(run("4, 4"), run("4, 2", "2, 4"))
    assert found[0] == "replaced fc Linear → Sequential"
    assert lines(run("4, 4"), run("4, 4", "4, 2"))[0] == (
        "added fc (Sequential) around 0 (Linear), 1 op, 1 parameter"
    )


@pytest.mark.parametrize(("inner", "is_same"), [("ab", True), ("axy", True), ("xyz", False)])
def test_a_model_in_a_wrapper_is_known_by_half_of_what_is_in_it(inner: str, is_same: bool) -> None:
    """By the names of the smaller of both: one of two is enough."""
    def run(names: str, *, wrapped: bool) -> Recording:
        build = Builder("Net")
        with build.scope("Wrapper", "Wrapper") if wrapped else ExitStack():
            with build.scope("module" if wrapped else "Net", "Net"):
                x = build.input("x")
                for name in names:
                    with build.scope(name, "Linear"):
                        x = build.op("linear", x, build.parameter("weight"))
        return build.recording()

    before, after = run("ab", wrapped=False), run(inner, wrapped=True)
    found = {(before.scopes[one].cls, after.scopes[other].path)
             for one, other in match(before, after).scopes.items()}
    assert (("Net", "module") in found) is is_same


def test_modules_that_are_never_called_are_known_in_a_wrapper() -> None:
    """By their paths from the module around them on."""
    before = _with_idle(model(), "head", "layers.0.drop")
    after = _with_idle(model(3, "module"), "module.head", "module.layers.0.drop")
    assert not [line for line in lines(before, after) if "never called" in line]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(NAMES), max_size=2, unique=True), st.integers(0, 2),
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["", "base"])), min_size=2, max_size=2),
)
def test_wrapped_models_match_the_same_both_ways(
    around: list[str], unwrapped: int, layers: list[tuple[int, str]]
) -> None:
    """Whichever of two models is wrapped more; and each layer that both have is found."""
    (one, base), (other, twin) = layers
    before = model(one, *around, wrapped=base)
    after = model(other, *around[unwrapped:], wrapped=twin)
    for left, right in ((before, after), (after, before)):
        _check_mirrored(left, right)
        scopes = left.scopes
        pairs = match(left, right).scopes
        found = {scopes[old].name for old in pairs if scopes[old].cls == "Layer"}
        assert len(found) == min(one, other)
        assert not compare(left, left)


def test_a_model_in_another_wrapper_is_the_same_model() -> None:
    """Only the wrapper is replaced."""
    assert lines(model(3, "module"), model(3, "net", act="GELU")) == [
        "replaced Around_net Around_module → Around_net",
        "renamed net was module",
        *(f"replaced net.layers.{place}.act ReLU → GELU" for place in range(3)),
    ]


def test_the_former_names_of_what_repeats(tmp_path: Path) -> None:
    """A box in a frame that stands for several layers tells the names of all, an open one none."""
    def run(wrapped: bool) -> Recording:
        build = Builder("Net")
        with build.scope("Net"):
            x = build.input("x")
            for place in range(3):
                name = f"layers.{place}"
                with build.scope(name, "Wrapper") if wrapped else ExitStack():
                    with build.scope("module" if wrapped else name, "Layer"):
                        for part in ("fc", "out"):
                            with build.scope(part, "Linear"):
                                x = build.op("linear", x, build.parameter("weight"))
        return build.recording()

    found = labels(tmp_path, run(False), run(True), depth=2)
    assert "was layers.0 … layers.2" in found["module: Layer"]
    assert "was" not in labels(tmp_path, run(False), run(True), depth=3)["module: Layer"]

"""Which results of code outside of modules are outputs: the program has them at the end."""

from __future__ import annotations

import pytest

from torchrecorder.events import OpKind, ScopeKind
from torchrecorder.graph.variables import results_held
from torchrecorder.testing import Builder


@pytest.mark.parametrize(("kind", "is_output"), [
    (ScopeKind.MODULE, False), (ScopeKind.FUNCTION, False), (ScopeKind.NO_GRAD, True), (None, True),
])
def test_results_of_code_in_calls_are_none(kind: ScopeKind | None, is_output: bool) -> None:
    """Those of regions are, as those of no scope; what no tensor went into, such as a seed, is no
    result."""
    run = Builder("run")
    x = run.input("x")
    if kind is None:
        made = run.op("mul", x, x)
    else:
        with run.scope("scope", kind=kind):
            made = run.op("mul", x, x)
    seed = run.op("seed")
    recording = run.recording()
    tables = recording.ops, recording.values, recording.scopes
    assert results_held(*tables, {made, seed}) == ([made] if is_output else [])
    assert results_held(*tables, set()) == []


@pytest.mark.parametrize(("name", "kind", "read"), [
    ("mul", OpKind.CALLED, False), ("mul", OpKind.CALLED, True), ("clone", OpKind.CALLED, False),
    ("to", OpKind.PASS, False),
])
def test_which_results_are_outputs(name: str, kind: OpKind, read: bool) -> None:
    """None of what something else was computed from, of copies, nor of what returns what it read;
    an operation without a result changes nothing."""
    run = Builder("run")
    made = run.op(name, run.input("x"), kind=kind)
    run.op("check", run.input("y"), outputs=0)
    held = {made, run.op("exp", made)} if read else {made}
    recording = run.recording()
    found = results_held(recording.ops, recording.values, recording.scopes, held)
    assert (made in found) == ((name, read) == ("mul", False))

"""Signatures: what editors and type checkers are told of keyword options is what there is."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import torch

import torchrecorder
from torchrecorder import errors
from torchrecorder.capture.record import InputOptions, record
from torchrecorder.export import EXPORTERS
from torchrecorder.options import OLD_NAMES, OPTIONS
from torchrecorder.signatures import DrawingOptions, GraphvizAttributes, NetworkOptions
from torchrecorder.style.attributes import FIELDS

MODEL, X = torch.nn.Linear(4, 2), torch.ones(1, 4)
RUN = torchrecorder.record(MODEL, X)


def test_drawing_options_are_those_of_the_table() -> None:
    """Every option, every field of a format, the names of 1.x, attributes of Graphviz: no more."""
    of_formats = {field.name for exporter in EXPORTERS for field in fields(exporter)}
    known = {*OPTIONS, *of_formats, *OLD_NAMES}
    assert {*DrawingOptions.__annotations__} - {*GraphvizAttributes.__annotations__} == known
    assert {*GraphvizAttributes.__annotations__} == {*frozenset().union(*FIELDS.values())} - known


def test_no_option_is_required() -> None:
    """A drawing without any is one, too."""
    for options in (GraphvizAttributes, DrawingOptions, NetworkOptions):
        assert options.__required_keys__ == frozenset()


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_a_default_is_of_its_type(name: str) -> None:
    """None only where None is possible; a flag is a flag."""
    default, hint = OPTIONS[name].default, get_type_hints(DrawingOptions)[name]
    kinds = get_args(hint) or (hint,)
    assert isinstance(default, bool) <= (bool in kinds)
    assert (type(None) in kinds) == (OPTIONS[name].check.optional or default is None)


def test_record_options_are_those_of_record() -> None:
    """What the overloads take by keyword is what `record` takes."""
    taken = {*inspect.signature(record).parameters} - {"model", "args", "kwargs"}
    assert {*get_type_hints(InputOptions)} == taken


CODE = """
import torch
import torchrecorder as tr
model, x = torch.nn.Linear(4, 2), torch.ones(1, 4)
rec = tr.record(model, x, repeat=3)
tr.record(model, input_shapes=(1, 4), dtypes=torch.float32)
rec.render("a.svg", depth=2, theme="dark", numbers=("flops",), ranksep=1, render_depth=1)
tr.render_network(model, x, fmt="pdf", hide="x")
tr.summary(model, input_shapes=(1, 4), fold="similar")
rec.top("flops", by="op")
name: str = rec.ops["o0"].name
sizes = rec.values["v0"].shape, rec.scopes["s0"].path, rec.modules["m0"].cls
maybe: tr.Recording | None = rec if rec.ops.get("o9") is None else None
readers = [rec.ops[op].name for op in rec.consumers["v0"]]
grads = [grad.name for grad in rec.owned["o0"]]
around = rec.within("s0"), rec.call_paths["s0"], rec.structures["s0"]
rec.ops[0]  # wrong
wrong: int = rec.ops["o0"].name  # wrong
rec.render("a.svg", dept=2)  # wrong
rec.render("a.svg", direction="up")  # wrong
tr.record(model, x, repeats=3)  # wrong
tr.record(model, x, input_shapes=(1, 4))  # wrong
tr.summary(model, x, fold="maybe")  # wrong
rec.top("flops", by="layer")  # wrong
"""


@pytest.mark.slow
def test_type_checkers_accept_them(tmp_path: Path) -> None:
    """It takes what is right, and names what is not, line by line."""
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(CODE)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--follow-imports=silent",
               "--ignore-missing-imports", "--cache-dir", str(tmp_path / "cache"), "use.py"]
    home = Path(torchrecorder.__file__).parents[1]
    env = dict(os.environ)
    if home.name != "site-packages":  # it looks there itself, but not where an editable install is
        env["MYPYPATH"] = str(home)
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    wrong = {at for at, line in enumerate(CODE.splitlines(), 1) if line.endswith("# wrong")}
    assert found == wrong, done.stdout + done.stderr


def test_errors_are_at_the_top() -> None:
    """Whoever catches one need not know the module it is in."""
    kinds = [one for _, one in inspect.getmembers(errors, inspect.isclass)]
    for kind in kinds:
        assert getattr(torchrecorder, kind.__name__) is kind
        assert kind.__name__ in torchrecorder.__all__


def test_objects_show_themselves_in_a_line() -> None:
    """With what it is and how much is in it."""
    recorder, series = torchrecorder.Recorder(MODEL), torchrecorder.Series(MODEL, every=1)
    assert repr(recorder) == "<Recorder of Linear: not entered yet>"
    with recorder:
        assert repr(recorder) == "<Recorder of Linear: recording>"
        MODEL(X)
    assert repr(recorder) == f"<Recorder of Linear: done, {recorder.recording!r}>"
    with series.step():
        MODEL(X).sum().backward()
    assert repr(series) == "<Series: 1 recorded step of 1 scope>"
    assert repr(RUN.annotations["parameters"]) == "<parameters of Linear: 2 numbers, total 10>"
    assert repr(torchrecorder.view(RUN, depth=1)).startswith("<View of Linear: ")
    assert repr(torchrecorder.figure(RUN)).startswith("<Figure of Linear: ")


def test_a_recorder_shows_its_recording_in_a_notebook() -> None:
    """As the recording itself would; before it is there, what it is."""
    recorder = torchrecorder.Recorder(MODEL)
    assert recorder._repr_mimebundle_() == {"text/plain": "<Recorder of Linear: not entered yet>"}
    with recorder:
        MODEL(X)
    wanted = {"text/plain"}
    assert recorder._repr_mimebundle_(wanted) == recorder.recording._repr_mimebundle_(wanted)

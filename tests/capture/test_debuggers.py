"""Programs under debuggers and other tools with a trace function: the same is recorded, and they
notice nothing."""

from __future__ import annotations

import bdb
import sys
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import torchrecorder
from tests.capture.debugger import debugger
from tests.capture.test_python_calls import X, doubled, shown, twice


@pytest.mark.parametrize("traced", [nullcontext, debugger])
def test_a_loop_is_in_one_call(traced):
    """What a function does again and again is one call of it, also under a debugger."""
    def looped(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x * 2
        return x

    with torchrecorder.Recorder() as recorder, traced():
        looped(X)
    (call,) = shown(recorder.recording)
    assert call[2] == ["mul"] * 3


@pytest.mark.skipif(sys.gettrace() is not None, reason="frames already have a trace function")
def test_a_debugger_that_begins_meanwhile():
    """Tracing that is switched on in the run is not asked to trace marked frames, nor disturbed."""
    events: list[str] = []

    def tracer(frame, event, argument):
        events.append(frame.f_code.co_name)
        return None

    def traced(x):
        x = x.relu()
        sys.settrace(tracer)
        x = doubled(x)
        sys.settrace(None)
        return x.sigmoid()

    with torchrecorder.Recorder() as recorder:
        traced(X)
    assert "doubled" in events
    assert shown(recorder.recording)[0] == ("traced", None, ["relu", "sigmoid"])


@pytest.mark.parametrize("again", [True, False])
def test_a_debugger_sees_the_same_events(again):
    """Line by line, also in frames with a mark of the recorder, and if it does not return the
    function for the next event."""
    def rounds(x):
        for _ in range(2):
            x = doubled(x)

    def followed(context):
        events, own = [], (rounds.__code__, doubled.__code__)

        def trace(frame, event, argument):
            if frame.f_code not in own:
                return None
            events.append((event, frame.f_lineno))
            return trace if again or event == "call" else None

        before = sys.gettrace()
        with context:
            sys.settrace(trace)
            try:
                rounds(X)
            finally:
                sys.settrace(before)
        return events

    plain = followed(nullcontext())
    assert followed(torchrecorder.Recorder()) == plain and len(plain) > 12


PART = """def part(x, kept):
    kept.append(x.relu())
    kept.append(x.sigmoid())
"""


def test_a_debugger_stops_where_it_would(tmp_path):
    """Once at a breakpoint, and after steps out of the function, in a caller that it did not trace.
    """
    file, variables, stops = tmp_path / "part.py", dict[str, Any](), list[tuple[str, int]]()
    file.write_text(PART)
    exec(compile(PART, str(file), "exec"), variables)

    class Debugger(bdb.Bdb):
        def user_line(self, frame):
            stops.append((frame.f_code.co_name, frame.f_lineno))
            self.set_continue() if frame.f_code.co_name == "<lambda>" else self.set_next(frame)

        def user_return(self, frame, value):
            self.set_step() if frame.f_code.co_name == "part" else self.set_continue()

    def calls(kept):
        variables["part"](X, kept)
        kept.append(X.cos())
        return kept

    def run(context):
        stops.clear()
        found = Debugger()
        found.set_break(str(file), 2)
        with context:
            found.runcall(lambda: len(calls([])))
        return [*stops]

    plain, first = run(nullcontext()), calls.__code__.co_firstlineno
    assert plain[1:] == [("part", 2), ("part", 3), ("calls", first + 2), ("calls", first + 3)]
    assert run(torchrecorder.Recorder()) == plain


def test_under_a_debugger_the_same_calls_are_found():
    """Functions around the block are none of the run, and one with a region in it is one call."""
    def around(x):
        return checkpoint(twice, x, use_reentrant=False) + 1

    def calls():
        before = sys._getframe().f_trace
        with torchrecorder.Recorder() as recorder:
            around(X.clone().requires_grad_())
        assert sys._getframe().f_trace is before
        return shown(recorder.recording)

    with debugger():
        traced = calls()
    assert traced == calls()
    assert [name for name, *_ in traced] == ["around", "twice", "doubled", "doubled"]

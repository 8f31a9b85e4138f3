"""Waits, passes and launches that are over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.capture.test_small_instruments import event, slices
from tests.capture.test_small_processes import called, listener
from torchrecorder.capture.probes import communications, profiled
from torchrecorder.capture.tape import Tape
from torchrecorder.trace.slices import Kernel


def test_the_first_rank_of_a_group_is_a_peer() -> None:
    """By its number in the world; there is none before it."""
    made = listener()
    peers = [made._describe(called("broadcast", "gpu", peer)).peer for peer in (0, 3, 4, -1)]
    assert peers == [0, 6, -1, -1]


def test_a_run_that_is_over_holds_no_futures() -> None:
    """They would hold what they call when they are done."""
    made: Any = object.__new__(communications.Communications)
    made.tape, made._works, made._writing, made._gradients = Tape(), {1: 2}, {3: 4}, {}
    made._last_done = {5: 6}
    communication = SimpleNamespace(_replace=lambda **facts: tuple(sorted(facts.items())))
    opened = communications._Pending(made.tape, communication, [], True)  # type: ignore[arg-type]
    opened.future, opened.seconds = SimpleNamespace(done=lambda: False), 2.0
    made._found, made._last, made._last_done = [opened], "work", {}
    made.finish()
    assert (opened.future, made._last, made._works, made._writing) == (None, None, {}, {})
    assert made.tape.events == [(("blocked_seconds", None), ("seconds", 2.0))]


def test_a_pass_that_is_over_has_told_of_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no thread has done so yet."""
    made: Any = object.__new__(communications.Communications)
    made.tape, made._arrive = Tape(lambda: 3.0), lambda opened: None
    made.values = SimpleNamespace(named={})
    communication: Any = SimpleNamespace(backward=True)
    opened = communications._Pending(made.tape, communication, [], True)
    opened.future = SimpleNamespace(done=lambda: True, value=lambda: [])
    made._found = [opened]
    made.backward_ended()
    assert opened.seconds == 0.0 and opened.future is None


def test_the_end_of_what_did_not_begin_ends_nothing() -> None:
    """What is open goes on."""
    made, ended = profiled.ProfilerRanges(), list[str]()
    made._open = [("o1", SimpleNamespace(__exit__=lambda *error: ended.append("o1")))]
    made.op_ended("o9")  # type: ignore[arg-type]
    assert not ended and len(made._open) == 1
    made.op_ended("o1")  # type: ignore[arg-type]
    assert ended == ["o1"] and not made._open


def test_kernels_are_not_taken_for_their_launches() -> None:
    """A profiler lists both under one number."""
    gpu = {"device_type": SimpleNamespace(name="CUDA")}
    launches = [event("cudaLaunchKernel", 10.0 * at, 10.0 * at + 1, id=at) for at in (1, 2)]
    kernels = [SimpleNamespace(name=name, duration=3.0) for name in "kl"]
    ran = [event(name, 10.0 * at + 5, 30.0, id=at, **gpu) for at, name in enumerate("kl", 1)]
    op = event("a", 5.0, 40.0, kernels=kernels, cpu_children=launches)
    assert slices(op, *ran, *launches)[0].kernels == (Kernel("k", 3e-6, 5e-6),
                                                      Kernel("l", 3e-6, 5e-6))
    assert [kernel.gap for kernel in slices(op, *ran[:1], *launches)[0].kernels] == [None, None]

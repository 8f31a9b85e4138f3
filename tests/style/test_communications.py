"""Captions of communication, of hand-made runs with one fact each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torchrecorder
from torchrecorder.events import Communication, OpId, ScopeId, ScopeKind
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.style.communications import MAX_LINES, SHORTEST, CommunicationCaptions
from torchrecorder.testing import Builder

SENT = Communication("all_reduce", "sum", "world", 0, -1, -1, 8, 8, *[None] * 3, False, None, None)


def run_of_two_layers() -> RecordedRun:
    """A model with two layers of one operation each, and a checkpoint around a third operation."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for name in ("Linear", "Tanh"):
            with run.scope(name):
                x = run.op(name.lower(), x)
        with run.scope("checkpoint", kind=ScopeKind.CHECKPOINT):
            run.op("sin", x)
    return run.recording()


def captions(*sent: Communication, **options: Any) -> CommunicationCaptions:
    """Those of the run with these communications; *options* are of the view."""
    run = replace(run_of_two_layers(), communications=sent)
    return CommunicationCaptions(torchrecorder.view(run, **options))


RUN = run_of_two_layers()
OP = OpId(next(iter(RUN.ops)))
SCOPES = {scope.cls or scope.name: scope.id for scope in RUN.scopes.values()}


def waits(*seconds: float | None) -> list[str]:
    """What an operation shows that waited so long, each time for another rank."""
    sent = [SENT._replace(op=OP, waited_seconds=each, last=rank)
            for rank, each in enumerate(seconds)]
    return captions(*sent).op(OP)


def test_the_longest_wait_and_its_rank() -> None:
    """Wherever it is; waits that are not known do not count."""
    assert waits(0.25, 0.5, None) == ["waited 500 ms for rank 1"]
    assert waits(None, 0.75, 0.5) == ["waited 750 ms for rank 1"]
    assert waits(None, None) == [] == waits()


def test_short_waits_are_not_shown() -> None:
    """The shortest that is shown is 0.1 ms."""
    assert waits(SHORTEST * 0.99) == [] == waits(0.0)
    assert waits(SHORTEST) == ["waited 100 µs for rank 0"]


def test_an_operation_shows_its_own_waits() -> None:
    """Not those of others, or what it sends, which its name says."""
    other = SENT._replace(op=OpId("other"), waited_seconds=0.5, last=1)
    assert captions(other).op(OP) == []
    assert captions(SENT._replace(op=OP)).op(OP) == []


def test_waits_follow_what_waited() -> None:
    """In a closed box."""
    sent = SENT._replace(scope=SCOPES["Linear"], waited_seconds=0.5, last=3)
    found = captions(sent, SENT._replace(name="broadcast", scope=SCOPES["Linear"]))
    lines = ["all_reduce, 8 B", "waited 500 ms for rank 3", "broadcast, 8 B"]
    assert found.closed([SCOPES["Linear"]]) == found.closed([*SCOPES.values()]) == lines
    assert found.closed([SCOPES["Tanh"]]) == [] == found.closed([OP])


def test_an_open_module_shows_what_no_box_in_it_does() -> None:
    """What ran in a closed layer stands there, and what an operation sent at the operation; what
    ran in a region of the module's code, at the module."""
    inside = SENT._replace(scope=SCOPES["Linear"])
    outside, of_op = SENT._replace(scope=SCOPES["Net"]), SENT._replace(scope=SCOPES["Net"], op=OP)

    def shown(sent: Communication) -> list[str]:
        view = torchrecorder.view(replace(RUN, communications=(sent,)), depth=1)
        (cluster,) = [each for each in view.clusters.values() if each.id == SCOPES["Net"]]
        return CommunicationCaptions(view).open(cluster)

    assert shown(outside) == ["all_reduce, 8 B"]
    assert shown(SENT._replace(scope=SCOPES["checkpoint"])) == ["all_reduce, 8 B"]
    assert shown(inside) == [] == shown(of_op)
    assert shown(SENT) == []


def test_many_kinds_end_in_their_number() -> None:
    """As many lines as fit, or one less and how many more there are."""
    def lines(kinds: int) -> list[str]:
        sent = [SENT._replace(name=f"kind{number}", scope=SCOPES["Net"], given=0, received=0)
                for number in range(kinds)]
        return captions(*sent).closed([SCOPES["Net"]])

    assert lines(MAX_LINES) == ["kind0", "kind1", "kind2", "kind3"]
    assert lines(MAX_LINES + 1) == ["kind0", "kind1", "kind2", "2 more"]


def test_equal_kinds_are_one_line() -> None:
    """With their number and the sum of the bytes; those of backward come last."""
    sent = SENT._replace(scope=ScopeId(SCOPES["Net"]))
    of_backward = sent._replace(backward=True, name="all_gather")
    found = captions(of_backward, sent, sent._replace(received=24))
    assert found.closed([SCOPES["Net"]]) == ["all_reduce ×2, 32 B", "backward: all_gather, 8 B"]


def test_what_a_function_sends_stands_at_the_function() -> None:
    """The communication itself has only the module."""
    run = Builder("Net")
    with run.scope("Net"), run.scope("helper", kind=ScopeKind.FUNCTION):
        run.op("sin", run.input("x"))
    recording = run.recording()
    net, helper = recording.scopes
    sent = SENT._replace(op=next(iter(recording.ops)), scope=net)
    view = torchrecorder.view(replace(recording, communications=(sent,)), depth=1)
    assert CommunicationCaptions(view).closed([helper]) == ["all_reduce, 8 B"]

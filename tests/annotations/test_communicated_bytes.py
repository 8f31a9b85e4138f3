"""Bytes of communication, at the operation, module or call where they were sent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.graph.test_consistency import blank, changed, keyed
from tests.stepped import stepped
from torchrecorder.events import Communication
from torchrecorder.graph.nodes import GradNode
from torchrecorder.recording import Recording


def sent(
    op: str | None,
    grad: str | None,
    scope: str | None,
    given: int,
    received: int,
    backward: bool = False,
) -> Any:
    """One communication."""
    times = {"seconds": float(given), "blocked_seconds": None, "waited_seconds": 2.0}
    facts = {"op": op, "grad": grad, "scope": scope, "given": given, "received": received}
    facts["backward"] = backward
    return blank(Communication, **times, **facts)


def communicated(recording: Recording, what: str, *found: Any) -> Any:
    """A number of communication, by node."""
    return replace(recording, communications=found).annotations[what].by_node


def test_communication_counts_where_it_ran() -> None:
    """At its op, else its grad node, else its scope; added up, by the larger of its sides."""
    found = [
        sent("o0", None, "s1", 3, 5), sent("o0", None, "s1", 7, 2), sent(None, "g4", "s2", 1, 1),
        sent(None, None, "s2", 4, 4), sent(None, None, None, 9, 9),
    ]
    assert communicated(stepped(), "communication_bytes", *found) == {"o0": 12, "g4": 1, "s2": 4}
    assert communicated(stepped(), "communication_time", *found) == {"o0": 10, "g4": 1, "s2": 4}
    assert communicated(stepped(), "waited_time", *found) == {"o0": 4, "g4": 2, "s2": 2}
    assert communicated(stepped(), "blocked_time", *found) == {}


def test_communication_of_a_node_without_op_counts_at_one_of_its_scope() -> None:
    """The first that has an op; without one, at the node itself."""
    run = changed(stepped(), "grad_nodes", "g3", owner=None)
    assert communicated(run, "communication_bytes", sent(None, "g3", "s2", 1, 0)) == {"g4": 1}
    assert communicated(run, "communication_bytes", sent(None, "g0", None, 1, 0)) == {"g0": 1}
    both = keyed([GradNode("g9", "A", None, "s2", (), None), *stepped().grad_nodes.values()])
    run = replace(stepped(), grad_nodes=both)
    assert communicated(run, "communication_bytes", sent(None, "g9", "s2", 1, 0)) == {"g3": 1}


def test_communication_at_the_end_of_a_pass_counts_at_its_call() -> None:
    """Of several passes, that of the last node before; not in another process's part of a run."""
    last, end = sent(None, "g4", "s2", 1, 1), sent(None, None, None, 4, 8, backward=True)
    once = stepped()
    assert communicated(once, "communication_bytes", last, end) == {"g4": 1, "o2": 8}
    second = once.backward_runs[0].replace(run=1, op="o1")
    ran = tuple(each.replace(run=int(each.grad == "g4")) for each in once.grad_runs)
    twice = replace(once, backward_runs=(*once.backward_runs, second), grad_runs=ran)
    assert communicated(twice, "communication_bytes", end, last) == {"o2": 8, "g4": 1}
    assert communicated(twice, "communication_bytes", last, end) == {"g4": 1, "o1": 8}
    elsewhere = end._replace(scope="s1")
    assert communicated(once, "communication_bytes", elsewhere) == {"s1": 8}
    around = changed(once, "ops", "o2", scope="s1")
    assert communicated(around, "communication_bytes", elsewhere) == {"o2": 8}
    without = replace(once, backward_runs=())
    assert communicated(without, "communication_bytes", elsewhere) == {"s1": 8}
    text = replace(once, communications=(end,)).annotations["communication_bytes"].text
    assert text(["o0", "o2"]) == "8 B backward"

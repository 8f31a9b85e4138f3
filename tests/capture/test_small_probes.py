"""Small facts that probes measure: who waits, what is counted, when memory is released."""

from __future__ import annotations

import contextlib
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torchrecorder
from tests.zoo.case import net
from torchrecorder.capture.internals.table import SAVED_TENSORS
from torchrecorder.capture.probes import communications, retained_tensors, statistics, weights
from torchrecorder.capture.probes.communications import _Pending
from torchrecorder.capture.probes.probes import Probes
from torchrecorder.capture.probes.profiled import PROFILER
from torchrecorder.capture.tape import Tape
from torchrecorder.errors import NotKept
from torchrecorder.events import Statistics

# Communication ----------------------------------------------------------------------------


class Clock:
    """A clock that is set."""

    now = 0.0

    def clock(self) -> float:
        """The time."""
        return self.now


def pending(clock: Any, name: str = "all_reduce") -> _Pending:
    """A communication that begins now."""
    return _Pending(clock, SimpleNamespace(name=name), [], True)  # type: ignore[arg-type]


def ended(error: Exception | None = None) -> Any:
    """The future of a work that has ended."""
    future: Any = torch.futures.Future()
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    return future


def test_time_of_a_communication_with_its_end() -> None:
    """Until it is done, whoever waits after that; waiting twice adds up."""
    clock = Clock()
    one = pending(clock)
    clock.now = 3.0
    one.done(ended())
    clock.now = 5.0
    one.done(ended())
    assert (one.seconds, one.blocked) == (3.0, None)
    one.waited(4.0)
    clock.now = 9.0
    one.waited(7.0)
    assert (one.seconds, one.blocked) == (3.0, 3.0)


def test_a_communication_that_fails() -> None:
    """Has no duration, and is what the run has failed in."""
    told, asked, good = (pending(Clock()) for _ in range(3))
    told.done(ended(RuntimeError("reset")))
    asked.future = ended(RuntimeError("reset"))
    good.future = ended()
    assert [one.is_running() for one in (told, asked, good)] == [True, True, False]
    asked.check_done()
    assert told.seconds is asked.seconds is None and asked.is_running()


@pytest.mark.parametrize(("name", "seconds"), [("recv", 5.0), ("send", None)])
def test_time_of_a_communication_without_an_end(name: str, seconds: float | None) -> None:
    """Until the first wait was over; what was sent may still be on its way then."""
    clock = Clock()
    one = pending(clock, name)
    for clock.now in (5.0, 8.0):
        one.waited(clock.now - 1.0)
    assert (one.seconds, one.blocked) == (seconds, 2.0)


def test_the_end_of_a_communication_is_asked_for() -> None:
    """Where nobody was told of it yet; once."""
    clock = Clock()
    one, other = pending(clock), pending(clock)
    one.future = ended()
    other.future = SimpleNamespace(done=lambda: False)
    clock.now = 2.0
    for each in (one, other, one):
        each.check_done()
        clock.now += 1.0
    assert (one.seconds, one.future) == (2.0, None)
    assert other.seconds is None and other.future is not None


class Work:
    """What the program can wait for."""

    def __init__(self, is_done: bool) -> None:
        self.is_done = is_done


@pytest.mark.parametrize("is_done", [False, True])
def test_a_communication_is_asked_only_while_it_runs(is_done: bool, monkeypatch: Any) -> None:
    """One that was done at once has told its end."""
    clock, asked = Clock(), ended()

    def when_done(work: Work, tell: Any) -> Any:
        if work.is_done:
            tell(ended())
        return asked

    monkeypatch.setattr(communications, "work_in", lambda result: result)
    monkeypatch.setattr(communications, "when_done", when_done)
    listener: Any = SimpleNamespace(
        tape=Tape(), _works={}, _last_done={}, _is_in_callback=lambda: False,
        _blocks_no_more=lambda opened: None,
    )
    begun, work = pending(clock), Work(is_done)
    communications.Communications.ends(listener, begun, work)
    assert begun.future is (None if is_done else asked)
    assert listener._works[id(work)][0]() is work and listener._works[id(work)][1] is begun


def test_what_arrives_at_the_end_of_a_wait_or_a_pass() -> None:
    """The tensor that was waited for, whoever wrote it; of a pass, what began in it."""
    arrived: list[Any] = []
    storages = SimpleNamespace(collective_done=arrived.append)
    listener: Any = SimpleNamespace(
        values=SimpleNamespace(storages=storages, named={}), _arrive=arrived.append,
        _working=contextlib.nullcontext, _found=[pending(Clock()) for _ in range(2)],
    )
    tensor = torch.ones(1)
    communications.Communications.waited(listener, (tensor, None, 0.0))
    assert arrived == [tensor]
    for one, is_backward in zip(listener._found, (False, True)):
        one.communication.backward = is_backward
    communications.Communications.backward_ended(listener)
    assert arrived == [tensor, listener._found[1]]


# What is counted --------------------------------------------------------------------------


@pytest.mark.skipif(not SAVED_TENSORS.present, reason="not seen in this version")
def test_parameters_of_no_module_are_not_saved() -> None:
    """They are there anyway, as those of modules are; other tensors count."""
    weight, plain = nn.Parameter(torch.ones(4)), torch.ones(8)

    def saved(other: Tensor) -> float:
        x = torch.ones((), requires_grad=True)
        recording = torchrecorder.record(lambda x: x * other, (x,), saved=True)
        return sum(recording.annotations["saved_bytes"].by_node.values())

    assert saved(plain) == plain.nbytes
    assert saved(weight) == 4  # the other factor


@pytest.mark.parametrize("pattern", ["Net", "a.b", "a.b: sin", "a.*"])
def test_a_pattern_that_matches_is_no_reason_to_warn(pattern: str) -> None:
    """The name of the outermost call, or the path of another."""
    inner = net(lambda self, x: x.sin())
    model = net(lambda self, x: self.a(x), a=net(lambda self, x: self.b(x), b=inner))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torchrecorder.record(model, torch.ones(1), keep=[pattern])


def test_an_operation_without_results_has_none_that_are_kept() -> None:
    """Not even an empty list of them."""
    model = net(lambda self, x: x * x.item())
    recording = torchrecorder.record(model, torch.ones(1), keep=["Net: item", "Net: mul"])
    assert list(recording.activations) == ["Net: mul"]


def test_memory_that_is_released_before_anything_ran() -> None:
    """It was released in nothing that has a name."""
    model = nn.Sequential(nn.Linear(2, 2, bias=False))
    with torchrecorder.Recorder(model, memory=True) as recorder:
        del model[0]
        torch.ones(3)
    recording = recorder.recording
    assert recording.run.lost == 0
    (weight,) = (item for item in recording.allocations if item.bytes == 16)
    assert (weight.freed_in, weight.role) == ("", "parameter") and weight.end is not None


@pytest.mark.skipif(not SAVED_TENSORS.present, reason="not seen in this version")
def test_memory_behind_a_parameter_is_not_saved() -> None:
    """Also where a tensor shares it that is no view."""
    class Scales(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(8))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight.detach()

    recording = torchrecorder.record(Scales(), torch.ones(8, requires_grad=True), saved=True)
    assert not sum(recording.annotations["saved_bytes"].by_node.values())


def test_the_place_of_an_operation() -> None:
    """Names from the outermost on, up to the first that has a path, or several."""
    around = [SimpleNamespace(path=path, name=name) for path, name in
              (("", "inner"), ("", "outer"), ("a.b", "b"), ("a", "a"))]
    places: Any = retained_tensors.op_places
    both = ["a.b > outer > inner", "c > outer > inner"]
    assert places(around, lambda scope: ["a.b", "c"]) == both
    assert places(around[:2], None) == ["outer > inner"] and places([], None) == [""]


def test_a_histogram_of_one_number() -> None:
    """Has its bins around it; one of none has empty bins."""
    found = weights.histogram(torch.tensor([2.0, 2.0, float("nan"), float("inf")]))
    assert (found.edges[0], found.edges[-1], sum(found.counts)) == (1.5, 2.5, 2)
    assert (found.total, found.squares, len(found.counts)) == (4.0, 8.0, weights.BINS)
    none = weights.histogram(torch.tensor([float("nan")]))
    assert (none.edges[0], none.edges[-1], sum(none.counts)) == (-0.5, 0.5, 0)


def test_what_is_a_profiler() -> None:
    """It has events and averages."""
    def nothing() -> None:
        pass

    made = SimpleNamespace(events=nothing, key_averages=nothing)
    assert PROFILER.holds(made)
    for lacking in ("events", "key_averages"):
        kept = {name: value for name, value in vars(made).items() if name != lacking}
        assert not PROFILER.holds(SimpleNamespace(**kept))
    assert not PROFILER.holds(SimpleNamespace(events=3, key_averages=nothing))


@pytest.mark.parametrize(("own", "paused", "task", "running", "meant"), [
    (True, False, -1, [], True), (True, True, 3, ["run"], False),
    (False, True, 3, ["run"], True), (False, False, -1, ["run"], False),
    (False, False, 3, [], False),
])
def test_whose_communication_it_is(
    own: bool, paused: bool, task: int, running: list[str], meant: bool, monkeypatch: Any
) -> None:
    """The program's, in its thread while no instrument works, or in a pass that it runs."""
    monkeypatch.setattr(communications, "current_graph_task", lambda: task)
    listener: Any = SimpleNamespace(tape=Tape(), backward=SimpleNamespace(running=running))
    listener.tape.thread += not own
    listener.tape.paused = 1.0 if paused else None
    is_meant = communications.Communications._is_of_run
    assert is_meant(listener) is meant
    listener.tape.ignores_calls = True
    assert not is_meant(listener)


def test_a_work_is_kept_until_python_has_it() -> None:
    """That is at the end of the operation or node."""
    listener: Any = SimpleNamespace(_last="work")
    communications.Communications.op_ended(listener, "o0")  # type: ignore[arg-type]
    assert listener._last is None
    listener._last = "work"
    communications.Communications.node_ended(listener, "g0", 0)  # type: ignore[arg-type]
    assert listener._last is None


# Nodes, waits and patterns ----------------------------------------------------------------


def test_nodes_that_did_not_run() -> None:
    """Have no gradients to run on."""
    kept = retained_tensors.ReplayProbe()
    kept.node_begins("g1", 0, (None, torch.ones(1)))  # type: ignore[arg-type]
    assert [item is None for item in kept.given("g1")] == [True, False]  # type: ignore[arg-type]
    with pytest.raises(NotKept, match="'g9' did not run .*1 did"):
        kept.given("g9")  # type: ignore[arg-type]


@pytest.mark.parametrize("timed", [True, False])
def test_waiting_for_a_communication(timed: bool) -> None:
    """Its time is taken if it can be; a work of which nothing is known is waited for, too."""
    clock = Clock()
    one = pending(clock)
    one.timed = timed
    tape = Tape(clock.clock)
    listener: Any = SimpleNamespace(
        tape=tape, _works={}, _is_of_run=lambda: True, _working=contextlib.nullcontext,
        _arrive=lambda opened: None, _last=None, _blocks=lambda opened: None,
        _blocks_no_more=lambda opened: None,
    )
    work = Work(True)
    listener._works[id(work)] = (lambda: work), one
    waits, waited = (getattr(communications.Communications, name) for name in ("waits", "waited"))
    begun = waits(listener, work)
    clock.now = 4.0
    waited(listener, begun)
    assert begun[1] is one and one.blocked == (4.0 if timed else None)
    other = Work(True)
    assert waits(listener, other) == (other, None, 4.0) and not tape.lost
    listener._works[id(other)] = (lambda: work), one
    assert waits(listener, other)[1] is None


def test_patterns_that_match_nothing() -> None:
    """Are told of, of either option."""
    for option in ("stats", "keep"):
        with pytest.warns(Warning, match=option):
            Probes(**{option: ["nothing"]}).warn_unmatched([])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Probes(stats=True, keep=True).warn_unmatched([])


def test_weights_without_data() -> None:
    """Have no norms, and are no trouble."""
    model = nn.Linear(2, 2, device="meta")
    model.weight.grad = torch.ones(2, 2, device="meta")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with weights.WeightProbe(model, histograms=True) as followed:
            pass
    assert followed.weights["weight"] == weights.Weight() and not followed._parameters


def test_time_begins_with_a_communication() -> None:
    """Not with the run."""
    clock = Clock()
    clock.now = 2.0
    one, other = pending(clock), pending(clock)
    clock.now = 5.0
    one.done(ended())
    other.waited(4.0)
    assert one.seconds == other.seconds == 3.0


def test_results_without_a_work(monkeypatch: Any) -> None:
    """There is nothing to wait for."""
    monkeypatch.setattr(communications, "work_in", lambda result: None)
    listener: Any = SimpleNamespace(
        tape=Tape(), _works={}, _last_done={}, _is_in_callback=lambda: False,
        _blocks_no_more=lambda opened: None,
    )
    communications.Communications.ends(listener, pending(Clock()), "result")
    assert not listener._works and not listener.tape.lost


def test_numbers_that_cannot_be_computed_are_lost(monkeypatch: Any) -> None:
    """Nothing is raised in the program."""
    monkeypatch.setattr(Tape, "strict", False)

    def fails(tensor: Tensor) -> None:
        raise NotImplementedError

    monkeypatch.setattr(statistics, "numbers", fails)
    tape: Any = Tape()
    taken = statistics.StatisticsProbe(tape, None, None, True)  # type: ignore[arg-type]
    taken._take("v0", 0, -1, torch.ones(1))
    assert tape.lost == 1 and not any(isinstance(each, Statistics) for each in tape.events)


def test_histograms_of_sparse_weights() -> None:
    """With all that is zero."""
    assert sum(weights.histogram(torch.eye(3).to_sparse()).counts) == 9


def test_an_accumulation_does_not_add_again() -> None:
    """Run again, it gives what it was given."""
    weight, kept = torch.ones(2, requires_grad=True), retained_tensors.ReplayProbe()
    node = (weight * 1).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
    kept.node_hooked("g0", node)  # type: ignore[arg-type]
    given = (torch.ones(2),)
    kept.node_begins("g0", 0, given)  # type: ignore[arg-type]
    assert kept.run("g0")[0].tolist() == [1, 1] and weight.grad is None  # type: ignore[arg-type]

"""Several ranks by hand as one recording: ids, memory, messages, views of shards."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

import torchrecorder
from tests.figures import network
from tests.graph.test_consistency import blank, changed
from tests.ranks.test_by_hand import ran, sent, sharded
from tests.stepped import stepped
from torchrecorder.events import (
    UNFINISHED, GradSwitch, OpId, ParameterPart, RankGroup, Role, ScopeKind, Shard, Slot, ValueId,
)
from torchrecorder.graph.consistency import problems
from torchrecorder.graph.failure import Failure
from torchrecorder.ranks.sharding_ops import without_sharding_ops
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def test_ranks_do_not_share_memory() -> None:
    """Storages with the same number in two ranks are two; without number there is none."""
    recording = network()
    for number, value in enumerate([*recording.values][:-1]):
        recording = changed(recording, "values", value, storage=number)
    other = changed(recording, "ops", "o1", name="tanh")
    whole = torchrecorder.merge([ran(0, whole=recording), ran(1, whole=other)]).whole
    assert not [*problems(whole)]
    found = [value.storage for value in whole.values.values()]
    real = [storage for storage in found if storage >= 0]
    assert found.count(-1) == 2 and len({*real}) == len(real) == len(found) - 2
    assert len({op.index for op in whole.ops.values()}) == len(whole.ops) == 2 * len(recording.ops)


def test_an_op_that_reads_what_it_makes_is_no_source() -> None:
    """As where a wait gives back the tensor that it waits for."""
    recording = sharded()
    wait = next(op for op in recording.ops.values() if op.name == "wait_tensor")
    again = (wait.inputs[0]._replace(value=wait.outputs[0]), *wait.inputs)
    found = without_sharding_ops(changed(recording, "ops", wait.id, inputs=again))
    assert not [*problems(found)]
    assert found.ops == without_sharding_ops(recording).ops


def test_where_a_message_was_lost() -> None:
    """Module and line, as far as they are known."""
    for facts, said in (
        ({"op": "o0", "scope": "s2"}, " in body.0 at /home/me/net.py:13"),
        ({"op": "o4"}, " at /home/me/net.py:20"), ({"scope": "s2"}, " in body.0"), ({}, ""),
    ):
        run = torchrecorder.merge([ran(0, sent("send", tag=0, peer=1, **facts)), ran(1)])
        assert run.problems == (
            f"message no. 1 with tag 0 from rank 0 to rank 1 was sent but not received{said}",
        )


def test_receives_from_any_rank_take_one_message_each() -> None:
    """From those that lack a receive, in their order."""
    takes = [sent("recv", 8, tag=0, peer=-1), sent("recv", 8, tag=0, peer=-1)]
    gives = [sent("send", 8, tag=0, peer=0)]
    run = torchrecorder.merge([
        ran(0, *takes, world=3), ran(1, *gives, world=3), ran(2, *gives, world=3)
    ])
    assert run.problems == ()
    pairs = [(one.ranks, one.places.tolist()) for one in run.collectives]
    assert sorted(pairs) == [((1, 0), [0, 0]), ((2, 0), [0, 1])]


def test_a_view_of_what_alone_is_removed_goes_too() -> None:
    """And is no longer read."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("relu", run.op("detach", run.op("wait_tensor", run.input("x"))))
    found = without_sharding_ops(run.recording())
    assert [op.name for op in found.ops.values()] == ["relu"]


def test_what_hooks_gave_to_passes_has_the_new_ids() -> None:
    """Each pass refers to a tensor of its own rank."""
    made = stepped()
    (run,) = made.backward_runs
    made = replace(made, backward_runs=(
        run.replace(replacements=("v2",), cleared=(Slot("hook()", "v2"),)),
    ))
    other = changed(made, "ops", "o0", name="other")
    whole = torchrecorder.merge([ran(0, whole=made), ran(1, whole=other)]).whole
    first, second = (value for run in whole.backward_runs for value in run.replacements)
    assert first != second and {first, second} <= whole.values.keys()
    assert [slot.value for run in whole.backward_runs for slot in run.cleared] == [first, second]


def test_the_autograd_graph_of_each_rank_stays_its_own() -> None:
    """Tensors and grad nodes lead to grad nodes of the same rank, at the same places."""
    other = changed(stepped(), "ops", "o0", name="other")
    whole = torchrecorder.merge([ran(0, whole=stepped()), ran(1, whole=other)]).whole

    def edges(run: Recording) -> list[list[tuple[int, int] | None]]:
        known = {grad: place for place, grad in enumerate(run.grad_nodes)}
        found = [grad.next for grad in run.grad_nodes.values()]
        found += [(value.grad,) for value in run.values.values()]
        return [[edge and (known[edge.grad], edge.index) for edge in next] for next in found]

    once, (grads, values) = edges(stepped()), (len(stepped().grad_nodes), len(stepped().values))
    both = edges(whole)
    moved = [[edge and (edge[0] + grads, edge[1]) for edge in row] for row in once]
    assert both[:grads] == once[:grads] and both[grads:2 * grads] == moved[:grads]
    assert both[2 * grads:][values:] == moved[grads:]


def test_backward_runs_of_all_ranks_are_numbered_on() -> None:
    """With their nodes, statistics and measurements."""
    other = changed(stepped(), "ops", "o0", name="other")
    whole = torchrecorder.merge([ran(0, whole=stepped()), ran(1, whole=other)]).whole
    assert not [*problems(whole)]
    assert [run.run for run in whole.backward_runs] == [0, 1]
    once, kinds = len(stepped().grad_runs), stepped().statistics
    assert [run.run for run in whole.grad_runs] == [0] * once + [1] * once
    runs = [one.run for one in kinds]
    assert [one.run for one in whole.statistics] == [*runs, *(run + (run >= 0) for run in runs)]
    assert whole.annotations["flops"].total() == 2 * stepped().annotations["flops"].total()
    assert whole.annotations["backward_time"].total() == 2 * 9.75
    by_rank = [whole.ops[run.op].index for run in whole.backward_runs]
    assert by_rank == sorted(by_rank)


def test_weights_are_frozen_at_the_same_operations() -> None:
    """Each in the lane of its rank."""
    add = network().ops[OpId("o4")]
    made = replace(network(), grad_switches=(GradSwitch(ValueId("v1"), False, add.index, None),))
    other = changed(made, "ops", "o0", name="other")
    whole = torchrecorder.merge([ran(0, whole=made), ran(1, whole=other)]).whole
    frozen = [op.index for op in whole.ops.values() if op.name == add.name]
    assert [item.position for item in whole.grad_switches] == frozen and len({*frozen}) == 2


def test_several_messages_of_one_op_are_one_line() -> None:
    """Between the same two operations; buffers that others read are kept."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("batch", run.input("x", (2, 4)), outputs=0)
    sender = run.recording()
    run = Builder("Net")
    with run.scope("Net"):
        buffer, read = run.op("empty"), run.op("empty")
        given = run.op("recv", buffer, read, writes=buffer)
        run.op("add", given, read)
    receiver = run.recording()
    sends = [sent("send", 32, tag=tag, peer=1, op="o0", scope="s0") for tag in range(2)]
    takes = [sent("recv", 32, tag=tag, peer=0, op="o2", scope="s0") for tag in range(2)]
    run_of_both = [ran(0, *sends, whole=sender), ran(1, *takes, whole=receiver)]
    whole = torchrecorder.merge(run_of_both).whole
    assert not [*problems(whole)]
    ops = {op.name: op for op in whole.ops.values()}
    assert len(ops["batch"].outputs) == 1 and len(ops["recv"].inputs) == 1
    assert [op.name for op in whole.ops.values()].count("empty") == 1
    lane = whole.scopes[ops["recv"].scope].parent
    assert ops["recv"].inputs[0] in whole.scopes[lane].inputs


def test_a_collective_has_the_module_of_its_first_rank() -> None:
    """Of all that a rank sends the sum is told; collectives can be kept in sets."""
    run = torchrecorder.merge([
        ran(0, sent(scope="s1"), sent(given=4)), ran(1, sent(scope="s2"), sent(given=4))
    ])
    assert [one.path for one in run.collectives] == ["body", ""]
    assert run.lanes[0].sent_bytes == (12, 12) and len({*run.collectives}) == 2
    assert not any(scope.failed for scope in run.whole.scopes.values())


def test_one_of_two_results_is_one_of_several() -> None:
    """Which of them a rank reads makes no difference; of one it does."""
    def halves(read: int) -> Recording:
        run = Builder("Net")
        with run.scope("Net"):
            run.op("chunk", run.input("x"), outputs=2)
            run.op("relu", f"v{read}")  # type: ignore[arg-type]
        return run.recording()

    run = torchrecorder.merge([ran(rank, whole=halves(1 + rank)) for rank in range(2)])
    assert len(run.lanes) == 1


def test_measurements_and_shards_have_the_new_ids() -> None:
    """Those of an operation that is removed are gone: here it creates the buffer of a receive."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("send", run.input("x"), run.parameter("weight"), outputs=0)
    sender = run.recording()
    run = Builder("Net")
    with run.scope("Net"):
        run.op("recv", run.op("empty"), run.parameter("weight"))
    receiver = run.recording()

    def measured(rank: int, whole: Recording, message: Any) -> Recording:
        (weight,) = (value.id for value in whole.values.values() if value.names == ("weight",))
        shard = blank(Shard, value=weight, bytes=4, shape=(1,), mesh="", placements=())
        amounts = MappingProxyType({op: 1.0 for op in whole.ops})
        whole = replace(whole, shards=(shard,), measured=MappingProxyType({"kept": amounts}),
                        parameter_parts=(ParameterPart(weight, weight),))
        return ran(rank, message, whole=whole)

    found = torchrecorder.merge([
        measured(0, sender, sent("send", 32, tag=0, peer=1, op="o0", scope="s0")),
        measured(1, receiver, sent("recv", 32, tag=0, peer=0, op="o1", scope="s0")),
    ]).whole
    assert [op.name for op in found.ops.values()] == ["send", "recv"]
    assert found.measured == {"kept": dict.fromkeys(found.ops, 1.0)}
    weights = [value.id for value in found.values.values() if value.role is Role.PARAMETER]
    assert [shard.value for shard in found.shards] == weights and len({*weights}) == 2
    assert [part.whole for part in found.parameter_parts] == weights


def test_lanes_that_end_with_a_module_without_operations() -> None:
    """All steps of the next lane come after it."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("relu", run.input("x"))
        with run.scope("skip", "Skip"):
            pass
    other = changed(run.recording(), "ops", "o0", name="tanh")
    whole = torchrecorder.merge([ran(0, whole=run.recording()), ran(1, whole=other)]).whole
    steps = [step.index for step in (*whole.scopes.values(), *whole.ops.values())]
    assert len({*steps}) == len(steps) == 8


def test_a_message_of_unknown_size_is_the_first_tensor() -> None:
    """Where no input of the operation has as many bytes as were sent."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("step", run.input("x", (1,)), run.input("y", (2,)))
    both = [ran(rank, sent(name, 99, tag=0, peer=1 - rank, op="o0", scope="s0"),
                whole=changed(run.recording(), "ops", "o0", name=f"step{rank}"))
            for rank, name in enumerate(("send", "recv"))]
    whole = torchrecorder.merge(both).whole
    message = next(op for op in whole.ops.values() if op.name == "step0").outputs[-1]
    assert whole.values[message].shape == (1,)


@pytest.mark.parametrize("op", [None, "o0"])
def test_a_message_of_no_operation_is_no_line(op: Any) -> None:
    """It is recorded all the same, at both ends; it may be the step that sends and receives."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("step", run.input("x", (2,)))
    whole = run.recording()
    both = [ran(rank, sent(name, 8, tag=0, peer=1 - rank, op=op, scope="s0"), whole=whole)
            for rank, name in enumerate(("send", "recv"))]
    found = torchrecorder.merge(both)
    lines = [len(each.inputs) + len(each.outputs) for each in found.whole.ops.values()]
    assert not found.problems and not [*problems(found.whole)]
    assert [one.name for one in found.whole.communications] == ["send", "recv"]
    assert lines == ([2, 2] if op is None else [3, 3])


def test_what_sets_a_pipeline_up_sends_nothing() -> None:
    """What infers the shapes of tensors is communication only where all is shown."""
    run = Builder("Net")
    with run.scope("Net"):
        with run.scope("setup", "stage", kind=ScopeKind.PIPELINE_SETUP):
            run.op("send", run.input("x"))
        with run.scope("fc", "Linear"):
            run.op("linear", run.input("y"))
    whole = run.recording()
    setup, module = (each.id for each in list(whole.scopes.values())[1:])
    both = [ran(rank, sent("broadcast", scope=setup), sent(scope=module), whole=whole)
            for rank in range(2)]
    merged = torchrecorder.merge(both)
    assert [one.name for one in merged.recording.communications] == ["all_reduce"]
    assert [one.name for one in merged.whole.communications] == ["broadcast", "all_reduce"]
    assert [each.name for each in merged.collectives] == ["broadcast", "all_reduce"]


def test_results_of_each_rank_are_results_of_the_run() -> None:
    """Those of the second after those of the first, and those of its lane."""
    other = changed(network(), "ops", "o1", name="tanh")
    whole = torchrecorder.merge([ran(0, whole=network()), ran(1, whole=other)]).whole
    ends = [scope.outputs for scope in whole.scopes.values() if scope.parent is None]
    assert whole.outputs == tuple(slot for outputs in ends for slot in outputs)
    assert [len(outputs) for outputs in ends] == [len(network().outputs)] * 2
    assert len({slot.value for slot in whole.outputs}) == 2 * len(network().outputs)


def test_a_message_is_no_weight() -> None:
    """Even if a weight is sent: it has its size, and none of its names."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("send", run.parameter("weight"), outputs=0)
    sender = run.recording()
    (weight,) = sender.values.values()
    run = Builder("Net")
    with run.scope("Net"):
        run.op("recv", run.input("x"))
    whole = torchrecorder.merge([
        ran(0, sent("send", weight.bytes, tag=0, peer=1, op="o0", scope="s0"), whole=sender),
        ran(1, sent("recv", weight.bytes, tag=0, peer=0, op="o0", scope="s0"),
            whole=run.recording()),
    ]).whole
    (message,) = whole.ops[OpId("o0")].outputs
    assert whole.values[message] == weight.replace(
        id=message, role=Role.INNER, names=(), producer=OpId("o0"), storage=-1, kind="Tensor",
        trainable=False, requires_grad=False,
    )


def test_only_errors_are_failures_of_a_lane() -> None:
    """A rank that waits has none; each error is at its own operation."""
    errors = ("RuntimeError", UNFINISHED, "ValueError")
    every = []
    for rank, error in enumerate(errors):
        whole = changed(network(), "ops", "o0", name=f"first{rank}")
        failure = Failure(error, "no", whole.ops[OpId("o1")].scope, OpId("o1"), False)
        whole = replace(whole, run=replace(whole.run, failure=failure))
        every.append(ran(rank, whole=whole, world=3))
    whole = torchrecorder.merge(every).whole
    assert [each.error for each in whole.run.lane_failures] == ["RuntimeError", "ValueError"]
    failed = [op for op in whole.ops.values() if op.name == network().ops[OpId("o1")].name]
    assert [(each.op, each.scope) for each in whole.run.lane_failures] == [
        (failed[0].id, failed[0].scope), (failed[2].id, failed[2].scope)
    ]


def test_collectives_by_wait_and_by_size() -> None:
    """The most first; those of unknown time have no wait."""
    times = (3.0, None, 9.0), (1.0, 2.0, 2.0)
    run = torchrecorder.merge([
        ran(rank, *(sent(given=given, seconds=time) for given, time in zip((8, 16, 4), seconds)))
        for rank, seconds in enumerate(times)
    ])
    assert [(one.bytes, wait) for one, wait in run.top()] == [(4, 7.0), (8, 2.0)]
    assert [(one.bytes, size) for one, size in run.top("bytes", 2)] == [(16, 16.0), (8, 8.0)]


def test_a_message_in_a_group_of_others() -> None:
    """A file may say so; it is only not received."""
    others = RankGroup("others", (1, 2), "", "gloo")
    message = sent("send", tag=0, peer=2, group="others")
    run = torchrecorder.merge([
        ran(0, message, world=3, groups=(others,)), ran(1, world=3), ran(2, world=3)
    ])
    assert run.problems == (
        "message no. 1 with tag 0 from rank 0 to rank 2 was sent but not received",
    )


def test_ranks_that_ran_the_same_are_at_the_place_of_the_first() -> None:
    """In what is said of a mismatch."""
    run = torchrecorder.merge([
        ran(0, sent(scope="s1"), world=3), ran(1, sent("broadcast"), world=3),
        ran(2, sent(scope="s2"), world=3),
    ])
    assert run.problems == (
        "no. 1 of group all (ranks 0–2): ranks 0, 2 ran all_reduce of 8 B in body; "
        "rank 1 ran broadcast of 8 B",
    )

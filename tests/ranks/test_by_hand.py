"""Ranks whose recordings are made by hand: what is matched, what is equal, what is removed."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

import torchrecorder
from tests.figures import network
from tests.graph.test_consistency import blank, changed, keyed
from torchrecorder.events import (
    Communication, GradEdge, OpKind, Rank, RankGroup, Role, ScopeKind, Shard, Statistics,
)
from torchrecorder.graph.consistency import problems
from torchrecorder.graph.failure import Failure
from torchrecorder.graph.nodes import BackwardRun, GradNode, GradRun
from torchrecorder.ranks.digest import digest
from torchrecorder.ranks.join import join
from torchrecorder.ranks.sent import group_text, ranks_text
from torchrecorder.ranks.sharding_ops import without_sharding_ops
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder

# Which collectives belong together ------------------------------------------------------


def sent(name: str = "all_reduce", given: int = 8, **facts: Any) -> Communication:
    """A communication in the group of all."""
    usual = {"reduction": "sum", "group": "all", "order": 0, "peer": -1, "tag": -1,
             "received": given, "backward": False, "last": -1}
    found: Communication = blank(Communication, name=name, given=given, **{**usual, **facts})
    return found


def ran(rank: int, *communications: Any, world: int = 2, whole: Recording | None = None,
        groups: tuple[RankGroup, ...] = ()) -> Recording:
    """The recording of one process."""
    every = RankGroup("all", tuple(range(world)), "", "gloo")
    recording = whole or network()
    facts = replace(recording.run, rank=Rank(rank, world, "host", (every, *groups), ()))
    return replace(recording, run=facts, communications=communications)


def joined(*recordings: Recording) -> Any:
    """The collectives and the problems."""
    digests = [digest(recording, recording.run.rank) for recording in recordings]
    return join(digests, range(len(digests)))


@pytest.mark.parametrize(
    ("other", "fits"),
    [
        (sent(), True), (sent(given=16), False), (sent("broadcast"), False),
        (sent(reduction="max"), False), (sent(scope="s1"), True), (sent(received=32), True),
        (sent(backward=True), True),
    ],
)
def test_members_ran_the_same(other: Communication, fits: bool) -> None:
    """By name, reduction and input; where and when does not matter."""
    found, told = joined(ran(0, sent(), sent()), ran(1, other, sent()))
    assert (len(found), len(told)) == ((2, 0) if fits else (0, 1))
    if not fits:
        assert told[0].endswith("(later collectives, not compared: 1)")


@pytest.mark.parametrize("name", ["all_to_all", "gather", "scatter", "barrier", "reduce"])
def test_sizes_that_may_differ(name: str) -> None:
    """The largest side of any rank is the size."""
    found, told = joined(ran(0, sent(name, 8)), ran(1, sent(name, 4, received=24)))
    assert [one.bytes for one in found] == [24] and not told


def test_a_mismatch_in_words() -> None:
    """Ranks with the same together; the module; backward instead of a line."""
    same = sent(scope="s1"), sent()
    _, (told,) = joined(
        ran(0, *same, world=4), ran(1, sent("broadcast", 4, backward=True), world=4),
        ran(2, *same, world=4), ran(3, world=4),
    )
    assert told == (
        "no. 1 of group all (ranks 0–3): ranks 0, 2 ran all_reduce of 8 B in body; "
        "rank 1 ran broadcast of 4 B in backward; rank 3 ran no collective "
        "(later collectives, not compared: 1)"
    )
    _, (told,) = joined(ran(0, sent(op="o0", scope="s2")), ran(1))
    assert "ran all_reduce of 8 B in body.0 at /home/me/net.py:13; rank 1 ran" in told


def test_who_was_last() -> None:
    """The one that was done fastest; nothing is known if one time is not, or of one alone."""
    def times(*seconds: float | None, blocked: float | None = None) -> Any:
        found, _ = joined(*(
            ran(rank, sent(seconds=one, blocked_seconds=blocked), world=len(seconds))
            for rank, one in enumerate(seconds)
        ))
        return found[0].last, found[0].waited, found[0].waits()

    assert times(3.0, 1.0, 2.0) == (1, 2.0, [2.0, 0.0, 1.0])
    assert times(3.0, 1.0, blocked=0.5) == (1, 0.5, [0.5, 0.0])
    assert times(1.0, 1.0)[:2] == (0, 0.0)
    assert times(3.0, None) == (None, None, [None, None])
    assert times(3.0) == (None, None, [None])


def test_waits_of_a_message_are_those_of_the_program() -> None:
    """How long it was blocked: a send is done long before it is received."""
    send = sent("send", tag=1, peer=1, seconds=9.0, blocked_seconds=1.0)
    receive = sent("recv", tag=1, peer=0, seconds=3.0, blocked_seconds=3.0)
    (found,), told = joined(ran(0, send), ran(1, receive))
    assert (found.name, found.last, found.waited, found.ranks) == ("send", 0, 2.0, (0, 1))
    assert not told and found.waits() == [0.0, 2.0]


def test_messages_are_distinguished_by_tag_and_group() -> None:
    """In the order in which they were sent."""
    own = RankGroup("pair", (0, 1), "mesh_pp", "gloo")
    sends = [sent("send", size, tag=tag, peer=1, group=group)
             for size, tag, group in ((1, 0, "all"), (2, 1, "all"), (3, 0, "all"), (4, 0, "pair"))]
    receives = [sent("recv", one.given, tag=one.tag, peer=0, group=one.group)
                for one in (sends[3], sends[1], sends[0], sends[2])]
    found, told = joined(
        ran(0, *sends, groups=(own,)), ran(1, *receives, groups=(own,))
    )
    assert not told
    assert {(one.bytes, one.order, one.group.name) for one in found} == {
        (1, 0, "all"), (2, 0, "all"), (4, 0, "pair"), (3, 1, "all"),
    }
    assert repr(next(one for one in found if one.bytes == 4)) == (
        "<send no. 1 of group pp (ranks 0–1): 4 B, ranks 0–1>"
    )


def test_messages_of_a_rank_that_is_not_there_are_not_compared() -> None:
    """Only that it is missing."""
    found, told = joined(ran(0, sent("send", tag=0, peer=1)))
    assert not found and not told
    alone = digest(ran(0, sent("send", tag=0, peer=1)), ran(0).run.rank)
    assert join([alone], range(2)) == ([], ["no recording of rank 1"])


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ((3,), "rank 3"), ((0, 1), "ranks 0–1"), ((2, 0, 1, 8), "ranks 0–2, 8"),
        ((0, 2, 4, 5, 6), "ranks 0, 2, 4–6"), ((5, 9), "ranks 5, 9"),
    ],
)
def test_ranks_in_words(ranks: tuple[int, ...], said: str) -> None:
    """From the first to the last of those that follow each other."""
    assert ranks_text(ranks) == said
    assert group_text(RankGroup("name", ranks, "mesh_dp", "")) == f"group dp ({said})"
    assert group_text(RankGroup("name", ranks, "", "")) == f"group name ({said})"


# Which ranks ran the same ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "exact", "similar"),
    [
        ({}, True, True),
        ({"op": {"name": "tanh"}}, False, False),
        ({"op": {"inputs": ()}}, False, False),
        ({"value": {"shape": (9, 9)}}, False, True),
        ({"value": {"dtype": "float16"}}, True, True),
        ({"weight": {"shape": (2, 8)}}, False, True),
        ({"weight": {"shape": (4,)}}, False, False),
        ({"weight": {"dtype": "float16"}}, False, False),
        ({"weight": {"names": ("other",)}}, False, False),
        ({"scope": {"cls": "Other"}}, False, False),
        ({"x": {"names": ("other",)}}, True, True),
        ({"sent": sent(given=9)}, False, True),
        ({"sent": sent("broadcast")}, False, False),
        ({"sent": sent(seconds=3.0, order=5)}, True, True),
    ],
)
def test_equal_programs_have_equal_hashes(
    changes: dict[str, Any], exact: bool, similar: bool
) -> None:
    """Sizes count in one of the two; times and orders in neither."""
    recording = network()
    places = {"op": ("ops", "o1"), "value": ("values", "v2"), "weight": ("values", "v1"),
              "scope": ("scopes", "s1"), "x": ("values", "v0")}
    for name, (table, row) in places.items():
        recording = changed(recording, table, row, **changes.get(name, {}))
    first = digest(ran(0, sent()), ran(0).run.rank)
    found = digest(ran(0, changes.get("sent", sent()), whole=recording), ran(0).run.rank)
    assert (found.exact == first.exact, found.similar == first.similar) == (exact, similar)


def test_each_rank_may_read_another_of_several_results() -> None:
    """The first that is read is the first for each, as where ranks take their chunk."""
    def chunked(*read: int) -> str:
        run = Builder("Net")
        with run.scope("Net"):
            run.op("chunk", run.input("x"), outputs=3)
            for number in read:
                run.op("relu", f"v{number}")
        return digest(ran(0, whole=run.recording()), ran(0).run.rank).exact

    assert chunked(1, 2) == chunked(2, 1) == chunked(3, 1) != chunked(1, 1)
    assert chunked(1) == chunked(3)


def test_peers_are_counted_from_the_rank() -> None:
    """Of messages; the root of a collective is the same for all."""
    def hashes(*found: tuple[int, Communication]) -> set[str]:
        return {digest(ran(rank, one, world=4), ran(rank, world=4).run.rank).exact
                for rank, one in found}

    ring = [(rank, sent("send", tag=0, peer=(rank + 1) % 4)) for rank in range(4)]
    assert len(hashes(*ring)) == 1 and len(hashes(*ring, (3, sent("send", tag=0, peer=1)))) == 2
    roots = [(rank, sent("broadcast", peer=2)) for rank in range(3)]
    assert len(hashes(*roots)) == 1 and len(hashes(*roots, (3, sent("broadcast", peer=0)))) == 2


def test_a_shard_has_its_size_in_this_process() -> None:
    """Weights only, not what is written into them."""
    whole = digest(ran(0), ran(0).run.rank)
    shard = blank(Shard, value="v1", bytes=16, shape=(1, 4), mesh="", placements=())
    here = digest(ran(0, whole=replace(network(), shards=(shard,))), ran(0).run.rank)
    assert (whole.parameter_bytes, here.parameter_bytes) == (128, 80)
    assert whole.exact != here.exact
    written = changed(network(), "values", "v1", producer="o0", role=Role.INNER)
    assert digest(ran(0, whole=written), ran(0).run.rank).parameter_bytes == 64


# What sharding adds ---------------------------------------------------------------------


def sharded(*, kind: ScopeKind = ScopeKind.SHARDING) -> Recording:
    """A weight that FSDP gathers in a region, and that a layer uses."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("fc", "Linear"):
            weight = run.parameter("weight")
            with run.scope("fsdp", "fsdp", kind=kind):
                copied = run.op("all_gather_copy_in", run.op("view", weight))
                split = run.op("split_with_sizes_copy", copied, run.constant())
            full = run.op("as_strided", split)
            h = run.op("linear", x, full)
            h = run.op("detach", h)
            h = run.op("wait_tensor", h)
            with run.scope("give", "Redistribute", kind=ScopeKind.CUSTOM_FUNCTION):
                h = run.op("mul", h)
        run.op("relu", h)
    return run.recording()


def test_gathering_a_weight_is_left_out() -> None:
    """The layer reads the weight itself; views of other tensors stay."""
    found = without_sharding_ops(sharded())
    assert not [*problems(found)]
    assert [op.name for op in found.ops.values()] == ["linear", "detach", "relu"]
    linear, detach, relu = found.ops.values()
    names = [found.values[slot.value].names or slot.value for slot in linear.inputs]
    assert names == [("x",), ("fc.weight",)]
    assert relu.inputs[0].value == detach.outputs[0]
    assert [scope.name for scope in found.scopes.values()] == ["Net", "fc"]
    assert without_sharding_ops(network()) == network()


def test_a_module_is_no_region_of_sharding() -> None:
    """Even if nothing is left in it, and even if such an op runs in it."""
    found = without_sharding_ops(sharded(kind=ScopeKind.FUNCTION))
    assert "split_with_sizes_copy" in [op.name for op in found.ops.values()]
    run = Builder("Net")
    with run.scope("Net"), run.scope("wait", "Wait"):
        run.op("wait_tensor", run.input("x"))
    empty = without_sharding_ops(run.recording())
    assert [scope.name for scope in empty.scopes.values()] == ["Net", "wait"] and not empty.ops


def test_what_is_read_besides_is_no_view_of_sharding() -> None:
    """A view outside of the region, one of nothing, and one of what stays."""
    run = Builder("Net")
    with run.scope("Net"):
        weight = run.parameter("weight")
        view = run.op("view", weight)
        with run.scope("fsdp", "fsdp", kind=ScopeKind.SHARDING):
            run.op("chunk_cat", view)
        run.op("exp", view)
        run.op("detach")
        run.op("detach", weight)
        run.op("detach", run.op("wait_tensor", view), weight)
    found = without_sharding_ops(run.recording())
    assert [op.name for op in found.ops.values()] == ["view", "exp", "detach", "detach", "detach"]


def test_what_belongs_to_removed_ops_goes() -> None:
    """Owners, communication, measurements; backward runs only if their call is removed."""
    recording = sharded()
    wait = next(op for op in recording.ops.values() if op.name == "wait_tensor")
    linear = next(op for op in recording.ops.values() if op.name == "linear")
    grads = [GradNode(f"g{number}", "A", op.id, op.scope, (), None)
             for number, op in enumerate((wait, linear))]
    called = enumerate((wait, linear))
    runs = [BackwardRun(number, op.id, 0.0, False, False) for number, op in called]
    region = next(scope.id for scope in recording.scopes.values() if scope.name == "fsdp")
    found = without_sharding_ops(replace(
        recording,
        grad_nodes=keyed(grads), backward_runs=tuple(runs),
        grad_runs=tuple(GradRun(grad.id, number, 0, 0.0, (), (), False)
                        for number, grad in enumerate(grads)),
        statistics=tuple(blank(Statistics, node="g0", run=number) for number in (0, 1)),
        communications=(sent(op=wait.id, scope=region), sent(op=linear.id, scope=linear.scope)),
        measured=MappingProxyType({"n": MappingProxyType({wait.id: 1, linear.id: 2, region: 3})}),
    ))
    assert [grad.owner for grad in found.grad_nodes.values()] == [None, linear.id]
    assert [run.op for run in found.backward_runs] == [linear.id]
    assert [run.grad for run in found.grad_runs] == ["g1"]
    assert [one.run for one in found.statistics] == [1]
    assert [(one.op, one.scope) for one in found.communications] == [
        (None, linear.scope), (linear.id, linear.scope),
    ]
    assert found.measured == {"n": {linear.id: 2}}


def test_an_error_in_what_is_removed_is_of_the_module_around() -> None:
    """The op that raised it may stay, or be removed with its region."""
    recording = sharded()
    gather, linear = (
        next(op for op in recording.ops.values() if op.name == name)
        for name in ("all_gather_copy_in", "linear")
    )
    for op, kept in (gather, None), (linear, linear.id):
        error = Failure("RuntimeError", "no", op.scope, op.id, False)
        failed = replace(recording, run=replace(recording.run, failure=error))
        found = without_sharding_ops(failed)
        assert found.run.failure == replace(error, op=kept, scope=linear.scope)
        assert not [*problems(found)]


def test_the_setup_of_a_pipeline_is_left_out() -> None:
    """Calls in it do not count; its results are no outputs."""
    run = Builder("Net")
    for number in range(3):
        kind = ScopeKind.PIPELINE_SETUP if number == 0 else ScopeKind.FUNCTION
        with run.scope("stage", "stage", kind=kind), run.scope("fc", "Linear"):
            run.op("linear", run.input("x"))
    whole = run.recording()
    calls = [scope.call for scope in whole.scopes.values() if scope.module]
    found = without_sharding_ops(whole)
    assert not [*problems(found)] and len(found.ops) == 2
    assert [scope.call for scope in found.scopes.values() if scope.module] == [
        call - 1 for call in calls[1:]
    ]
    assert len(found.outputs) == len(whole.outputs) - 1


# One run of all -------------------------------------------------------------------------


def test_messages_connect_the_ranks() -> None:
    """The tensor that is sent goes on, of the size that is sent; an empty one is not received."""
    run = Builder("Net")
    with run.scope("Net"):
        small, large = run.input("x", (1,)), run.input("y", (2, 4))
        run.op("send", small, large, outputs=0)
    sender = run.recording()
    run = Builder("Net")
    with run.scope("Net"):
        buffer = run.op("empty")
        given = run.op("recv", buffer, writes=buffer)
        run.op("relu", given)
    receiver = run.recording()
    whole = torchrecorder.merge([
        ran(0, sent("send", 32, tag=0, peer=1, op="o0", scope="s0"), whole=sender),
        ran(1, sent("recv", 0, received=32, tag=0, peer=0, op="o1", scope="s0"), whole=receiver),
    ]).whole
    assert not [*problems(whole)]
    names = [op.name for op in whole.ops.values()]
    assert "empty" not in names and {"send", "recv", "relu"} <= {*names}
    message = next(op for op in whole.ops.values() if op.name == "send").outputs
    received = next(op for op in whole.ops.values() if op.name == "recv")
    assert [whole.values[value].shape for value in message] == [(2, 4)]
    assert [slot.value for slot in received.inputs][-1:] == [*message]
    assert len({op.index for op in whole.ops.values()}) == len(whole.ops)
    assert Role.INPUT in {value.role for value in whole.values.values()}
    assert not any(op.kind is OpKind.HIDDEN for op in whole.ops.values())
    assert not any(isinstance(value.grad, GradEdge) for value in whole.values.values())

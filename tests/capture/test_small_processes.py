"""What stands between the recorder and ``torch.distributed``, one function at a time."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from torchrecorder.capture import planned
from torchrecorder.capture.internals import processes
from torchrecorder.capture.probes import communications
from torchrecorder.capture.probes.communications import Communications
from torchrecorder.capture.tape import Tape
from torchrecorder.events import BYTES_OF_GRADIENT, Communication, Measured, RankGroup


@pytest.mark.parametrize(
    ("imported", "present", "answer"), [(True, True, [1]), (False, True, "no"), (True, False, "no")]
)
def test_votes_of_pipelines(
    imported: bool, present: bool, answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Replaced where a pipeline can be, and where PyTorch votes."""
    stage = SimpleNamespace(vote=lambda: torch.tensor(0) if present and imported else "no")
    name = "torch.distributed.pipelining"
    monkeypatch.setattr(planned, "find", lambda path: {"home.Stage": stage}[path])
    votes = SimpleNamespace(paths=("home.Stage.vote",), present=present)
    monkeypatch.setattr(planned, "STAGE_VOTES", votes)
    monkeypatch.delitem(sys.modules, name, raising=False)
    if imported:
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    planned.agree_on_static_shapes()
    found: Any = stage.vote()
    assert (found if isinstance(found, str) else found.tolist()) == answer


def test_stages_that_vote_alone_agree() -> None:
    """The vote takes place, and its answer is yes."""
    seen: list[Any] = []

    def vote(*given: Any, **named: Any) -> str:
        """Vote."""
        seen.append((given, named))
        return "no"

    agreed = planned._all_agree(vote)
    assert agreed(1, a=2).tolist() == [1] and agreed.__doc__ == "Vote."
    assert agreed(1).dtype is torch.int32 and seen == [((1,), {"a": 2}), ((1,), {})]


def test_a_process_without_torch_distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a member of no group; neither is one that has not begun."""
    assert not processes.in_use()
    for available, initialized in ((True, True), (True, False), (False, True)):
        home = SimpleNamespace(is_available=lambda: available, is_initialized=lambda: initialized)
        monkeypatch.setitem(sys.modules, "torch.distributed", home)
        assert processes.in_use() == (available and initialized)
    monkeypatch.delitem(sys.modules, "torch.distributed")
    assert not processes.in_use()


def distributed(name: str, *bases: type, **held: Any) -> Any:
    """An object of a class with this name in ``torch.distributed``."""
    return type(name, bases or (object,), {"__module__": "torch.distributed.x", **held})()


def test_tensors_of_torch_distributed() -> None:
    """By the name and the home of their class; the tensor in them is read without waiting."""
    local = torch.ones(2)
    waiting = distributed("AsyncCollectiveTensor", elem=local, completed=False)
    ready = distributed("AsyncCollectiveTensor", elem=local, completed=True)
    tensor = distributed("DTensor", _local_tensor=local)
    both = distributed("DTensor", _local_tensor=waiting)
    other = type("DTensor", (), {"_local_tensor": 0, "completed": False})()
    for each in (tensor, both, waiting, ready, local):
        assert processes.local_part(each) is local
    assert processes.local_part(other) is other and not processes.is_dtensor(other)
    assert processes.is_dtensor(tensor) and not processes.is_dtensor(waiting)
    pending = [processes.is_pending(each) for each in (local, tensor, both, waiting, ready, other)]
    assert pending == [False, False, True, True, False, False]


@pytest.mark.parametrize(("name", "held", "text"), [
    ("Shard", {"dim": 1}, "Shard(1)"), ("Replicate", {}, "Replicate()"),
    ("Partial", {"reduce_op": "sum"}, "Partial(sum)"),
    ("_StridedShard", {"dim": 0, "reduce_op": "x"}, "StridedShard(0)"),
])
def test_names_of_placements(name: str, held: dict[str, Any], text: str) -> None:
    """With the dimension or the reduction."""
    layout = SimpleNamespace(placements=[type(name, (), held)()] * 2, device_mesh="m")
    assert processes.dtensor_layout(layout) == ((text, text), "m")


def test_modules_that_gather_their_weights() -> None:
    """Both kinds of FSDP; not what only has the name."""
    assert processes.gathers_weights(distributed("FSDPModule"))
    assert processes.gathers_weights(distributed("FullyShardedDataParallel"))
    assert not processes.gathers_weights(type("FSDPModule", (), {})())
    assert not processes.gathers_weights(distributed("DistributedDataParallel"))


def test_dimensions_of_a_mesh() -> None:
    """Named by number where they have no names; no place for who is not in it."""
    mesh = SimpleNamespace(mesh_dim_names=("dp", "tp"), ndim=2, shape=(2, 3),
                           get_coordinate=lambda: [1, 2])
    assert processes.mesh_facts(mesh) == (("dp", "tp"), (2, 3), (1, 2))
    bare = SimpleNamespace(mesh_dim_names=None, ndim=2, shape=(2, 3), get_coordinate=lambda: None)
    assert processes.mesh_facts(bare) == (("dim0", "dim1"), (2, 3), ())


def operator(name: str, *arguments: str) -> Any:
    """An operator of communication with arguments of these names."""
    named = [SimpleNamespace(name=argument) for argument in arguments]
    return SimpleNamespace(_schema=SimpleNamespace(name=name, arguments=named))


def test_what_an_operator_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors that go in and come out, the other rank, the tag and the group."""
    monkeypatch.setattr(processes, "find", lambda path: SimpleNamespace(unbox=lambda group: group))
    monkeypatch.setattr(processes, "SEES_REDUCTIONS", True)
    a, b = torch.ones(1), torch.ones(2)

    def sent(name: str, **given: Any) -> Any:
        return processes.communication_of(
            operator(f"c10d::{name}", *given), tuple(given.values())
        )

    total = SimpleNamespace(op=lambda: 2)
    assert sent("allreduce_", tensors=[a, b], process_group="g", reduce_op=total) == (
        "all_reduce", "product", "g", -1, -1, [a, b], [a, b]
    )
    unknown = sent("allreduce_", tensors=[a], process_group="g", reduce_op=SimpleNamespace(
        op=lambda: 99
    ))
    assert unknown.reduction == "?"
    assert sent("send", tensors=[a], process_group="g", dst=3, tag=7) == (
        "send", "", "g", 3, 7, [a], []
    )
    assert sent("recv_", tensors=[a], process_group="g", src=2, tag=7) == (
        "recv", "", "g", 2, 7, [], [a]
    )
    assert sent("broadcast_", tensors=[a], process_group="g", root_rank=1).peer == 1
    gathered = sent("allgather_", output_tensors=[[a, a]], input_tensors=[b], process_group="g")
    assert (gathered.given, gathered.received) == ([b], [a, a])
    waiting = sent("barrier", tensor=a, process_group="g")
    assert (waiting.given, waiting.received) == ([], [])


def test_what_a_functional_operator_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its result is what comes; a group may be a name."""
    monkeypatch.setattr(processes, "find", lambda path: lambda name: f"group {name}")
    a, b = torch.ones(1), torch.ones(2)
    space = "_c10d_functional::"
    reduced = operator(f"{space}all_reduce", "input", "reduce_op", "group_name")
    assert processes.communication_of(reduced, (a, "sum", "g"), b) == (
        "all_reduce", "sum", "group g", -1, -1, [a], [b]
    )
    many = operator(f"{space}all_gather_into_tensor_coalesced", "inputs", "group_name")
    assert processes.communication_of(many, ([a, b], 5), [b, a]) == (
        "all_gather", "", 5, -1, -1, [a, b], [b, a]
    )
    sent = operator(f"{space}broadcast", "input", "src", "group_name")
    assert processes.communication_of(sent, (a, 1, "g"), b).peer == 1


def test_when_a_work_is_done() -> None:
    """Its future calls; a backend without futures has none."""
    called: list[int] = []
    future: Any = torch.futures.Future()
    work = SimpleNamespace(get_future=lambda: future)
    assert processes.when_done(work, lambda done: called.append(done.value())) is future
    assert not called
    future.set_result(1)
    assert called == [1] and not processes.has_failed(future)
    failed: Any = torch.futures.Future()
    failed.set_exception(RuntimeError("reset"))
    assert processes.has_failed(failed)

    def refuse() -> None:
        raise NotImplementedError

    assert processes.when_done(SimpleNamespace(get_future=refuse), called.append) is None


class Listens:
    """Writes down what it is told."""

    def __init__(self, answer: Any = "begun") -> None:
        self.answer, self.log = answer, list[Any]()

    def begins(self, operator: Any, args: Any, made: Any = None) -> Any:
        """A call begins."""
        self.log.append(("begins", args, made))
        return self.answer

    def ends(self, begun: Any, result: Any) -> None:
        """It ended."""
        self.log.append(("ends", begun, result))

    def waits(self, on: Any) -> Any:
        """A wait begins."""
        self.log.append(("waits", on))
        return self.answer

    def waited(self, begun: Any) -> None:
        """It is over."""
        self.log.append(("waited", begun))


@pytest.fixture
def listeners(monkeypatch: pytest.MonkeyPatch) -> tuple[Listens, Listens]:
    """One that wants to know of the end, and one that does not."""
    pair = Listens(), Listens(None)
    monkeypatch.setattr(processes, "_listening", SimpleNamespace(users=pair))
    return pair


class Redispatched:
    """An operator that calls another kernel below it, perhaps one that sends."""

    def __init__(self, below: Any = None) -> None:
        self.below = below

    def redispatch(self, keys: int, *args: Any) -> Any:
        """Run the kernels below."""
        if self.below is not None:
            self.below(keys, *args)
        return "result", keys, *args


def test_calls_of_operators_are_told(listeners: tuple[Listens, Listens]) -> None:
    """Before and after; the end only to those that asked for it. The rest of the keys runs."""
    kernel = processes._send_kernel(Redispatched(), 0b110)
    assert kernel(0b011, 1, 2) == ("result", 0b010, 1, 2)
    wants, other = listeners
    begins = ("begins", (1, 2), None)
    assert wants.log == [begins, ("ends", "begun", ("result", 0b010, 1, 2))]
    assert other.log == [begins]


def test_functional_operators_are_told_where_nothing_is_sent(
    listeners: tuple[Listens, Listens]
) -> None:
    """With their result: on fake tensors they call no other operator, which would be told."""
    assert processes._functional_kernel(Redispatched(), 7)(7, 1) == ("result", 7, 1)
    assert listeners[0].log == [("begins", (1,), ("result", 7, 1))] == listeners[1].log
    sends = Redispatched(processes._send_kernel(Redispatched(), 7))
    processes._functional_kernel(sends, 7)(7, 2)
    assert [entry[:2] for entry in listeners[1].log[1:]] == [("begins", (2,))]
    assert listeners[1].log[1][2] is None


def test_waits_are_told(listeners: tuple[Listens, Listens]) -> None:
    """For a tensor and for a work, before and after."""
    assert processes._wait_kernel(Redispatched(), 7)(7, "tensor") == ("result", 7, "tensor")
    assert processes._wrapped_wait(lambda work, *rest: (work, rest))("work", 5) == ("work", (5,))
    wants, other = listeners
    assert wants.log == [
        ("waits", "tensor"), ("waited", "begun"), ("waits", "work"), ("waited", "begun")
    ]
    assert other.log == [("waits", "tensor"), ("waits", "work")]


def test_the_work_of_a_communication(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last result, if it is one."""
    class Script:
        pass

    made = {processes._WORK: SimpleNamespace(unbox=lambda item: ("work", item)),
            "torch._C.ScriptObject": Script}
    monkeypatch.setattr(processes, "find", made.__getitem__)
    work = Script()
    assert processes.work_in(work) == processes.work_in((Script(), work)) == ("work", work)
    assert processes.work_in(3) is processes.work_in((work, 3)) is None


# What is said of them ---------------------------------------------------------------------


def listener() -> Any:
    """The instrument for communication, in a process of a group of four, with gloo and nccl."""
    made: Any = object.__new__(Communications)
    made.tape = Tape()
    made._groups = {"cpu": RankGroup("cpu", (0, 2, 4, 6), "", "gloo"),
                    "gpu": RankGroup("gpu", (0, 2, 4, 6), "", "nccl")}
    made._counts, made._gradients, made._dtensors, made._found = {}, {}, {"v1"}, []
    made._last_done = {}
    made.running = SimpleNamespace(is_backward=False)
    return made


def called(name: str, group: str = "cpu", peer: int = -1, **facts: Any) -> Any:
    """A communication as it is called."""
    usual = {"reduction": "", "tag": -1, "given": [], "received": []}
    return SimpleNamespace(name=name, group=SimpleNamespace(group_name=group), peer=peer,
                           **{**usual, **facts})


def test_what_is_said_of_a_communication() -> None:
    """Its place in the order of its group or of its pair, its peer in the world, its bytes."""
    made = listener()
    a, b = torch.ones(2), torch.ones(3)
    facts = [made._describe(each) for each in (
        called("all_reduce", given=[a, b], received=[b, b], reduction="sum"), called("all_reduce"),
        called("broadcast", "gpu", 3), called("send", peer=1, tag=5), called("send", peer=1, tag=6),
        called("send", peer=1, tag=5), called("recv", peer=1, tag=5), called("gather", peer=4),
    )]
    assert [(each.name, each.order, each.peer) for each in facts] == [
        ("all_reduce", 0, -1), ("all_reduce", 1, -1), ("broadcast", 0, 6), ("send", 0, 2),
        ("send", 0, 2), ("send", 1, 2), ("recv", 0, 2), ("gather", 2, -1),
    ]
    assert isinstance(facts[0], Communication)
    assert (facts[0].given, facts[0].received, facts[0].reduction) == (20, 24, "sum")


def test_what_a_callback_sends() -> None:
    """It is where the communication is that ended in its thread, and only in other threads."""
    made, threads = listener(), ThreadPoolExecutor(1)
    told = made._describe(called("all_reduce"))._replace(
        scope="s1", op="o1", grad="g1", backward=True
    )
    pending = communications._Pending(made.tape, told, [], timed=True)
    assert threads.submit(made._completed_here).result() is None
    done: Any = torch.futures.Future()
    done.set_result(None)
    threads.submit(communications._is_done, pending, made._last_done, done).result()
    assert pending.seconds is not None
    assert threads.submit(made._completed_here).result() is told
    communications._is_done(pending, made._last_done, done)
    assert made._completed_here() is None  # the recorded thread
    found = made._describe(called("broadcast"), told)
    assert (found.scope, found.op, found.grad, found.backward) == ("s1", None, "g1", True)
    assert (found.name, found.order) == ("broadcast", 1)


def test_groups_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When something is sent in them first."""
    asked: list[Any] = []

    def group_facts(group: Any) -> RankGroup:
        asked.append(group.group_name)
        return RankGroup(group.group_name, (1, 3), "", "gloo")

    monkeypatch.setattr(communications, "group_facts", group_facts)
    made = listener()
    peers = [made._describe(called("broadcast", "new", 1)).peer for _ in range(2)]
    assert peers == [3, 3] and asked == ["new"]


def test_communications_that_are_timed() -> None:
    """On the CPU, by a backend that tells when it is done."""
    made, here, there = listener(), torch.ones(1), torch.ones(1, device="meta")
    cases = ("cpu", []), ("gpu", []), ("cpu", [there]), ("cpu", [here])
    timed = [made._is_timed(SimpleNamespace(group=group), called("a", given=[here], received=came))
             for group, came in cases]
    assert timed == [True, False, False, True]


def test_gradients_at_the_end_of_a_pass() -> None:
    """The bytes here of those of spread parameters, if they are leaves with a gradient."""
    made = listener()
    weight, none, other = (nn.Parameter(torch.ones(4)) for _ in range(3))
    weight.grad = other.grad = torch.ones(4)
    inner = weight * 2
    inner.retain_grad()
    inner.sum().backward()
    values = {id(weight): "v1", id(none): "v1", id(other): "v2", id(inner): "v1"}

    def peek(tensor: Tensor) -> str | None:
        return values.get(id(tensor))

    for tensors, found in (((weight,), {"v1": 16}), ((none, other, inner, None), {})):
        made._gradients = {}
        made.values = SimpleNamespace(peek=peek, parts=set(), named={
            number: (lambda tensor=tensor: tensor, None, None)
            for number, tensor in enumerate(tensors)
        })
        made.backward_ended()
        assert made._gradients == found
    made._gradients, made._works, made._writing = {"v1": 16}, {1: 2}, {3: 4}
    made.finish()
    assert made.tape.events == [Measured(BYTES_OF_GRADIENT, "v1", 16)]
    assert not made._works and not made._writing


def test_bytes_of_a_tensor() -> None:
    """Of sizes that are no numbers, none are known."""
    assert communications._bytes(torch.ones(3, dtype=torch.float64)) == 24
    symbolic: Any = SimpleNamespace(numel=lambda: object(), element_size=lambda: 4)
    assert communications._bytes(symbolic) == 0

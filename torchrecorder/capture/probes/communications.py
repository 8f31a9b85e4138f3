"""Communications: record collectives and messages between processes.

They are recorded at the dispatcher, which sees calls from Python and C++, in forward and backward.
Another thread writes the results: instruments read them only after the program has waited for them.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from torchrecorder.capture.hooks.backward import BackwardRuns
from torchrecorder.capture.internals.access import current_graph_task
from torchrecorder.capture.internals.processes import (
    RawCommunication, communication_of, dtensor_layout, group_facts, has_failed, is_dtensor, listen,
    local_part, mesh_facts, rank_and_world, when_done, work_in,
)
from torchrecorder.capture.running_modules import RunningModules
from torchrecorder.capture.scope import Observer
from torchrecorder.capture.tape import Tape
from torchrecorder.capture.tensors.describe import shape_of
from torchrecorder.capture.tensors.tensor_table import TensorTable
from torchrecorder.events import (
    BYTES_OF_GRADIENT, Communication, GradId, Measured, Mesh, OpId, Rank, RankGroup, ScopeId, Shard,
    ValueId,
)

UNTIMED = ("fake", "nccl", "xccl")
"""Backends without times: they do not communicate, or complete on the host with a kernel launch."""


class _Pending:
    """A communication that may be running."""

    def __init__(
        self, tape: Tape, communication: Communication, received: list[Tensor], timed: bool
    ) -> None:
        self.tape = tape
        self.communication = communication
        self.timed = timed
        self.received = [weakref.ref(item) for item in received]
        self.began = tape.clock()
        self.seconds: float | None = None
        self.blocked: float | None = None
        self.future: Any = None  # of its work, while it runs
        self.failed = False

    def done(self, future: Any) -> None:
        """Store the end of the communication; called in a thread of PyTorch."""
        self.failed = has_failed(future)
        if self.seconds is None and not self.failed:
            self.seconds = self.tape.clock() - self.began
        self.future = None

    def is_running(self) -> bool:
        """Whether it is known to have begun and not to have completed, or to have failed."""
        ended = (future := self.future) and future.done() and not has_failed(future)
        return self.timed and self.seconds is None and not ended

    def check_done(self) -> None:
        """Call `done` if the work is completed, but PyTorch has not called it yet."""
        future = self.future
        if future is not None and future.done():
            self.done(future)

    def waited(self, since: float) -> None:
        """Store that the program has waited for it, from *since* to now."""
        now = self.tape.clock()
        self.blocked = (self.blocked or 0.0) + now - since
        if self.seconds is None and self.communication.name != "send":
            self.seconds = now - self.began


class Communications(Observer):
    """Records the communication of the recorded thread, and of threads of its backward passes."""

    def __init__(
        self, tape: Tape, values: TensorTable, backward: BackwardRuns, running: RunningModules
    ) -> None:
        self.tape = tape
        self.values = values
        self.backward = backward
        self.running = running
        self._found: list[_Pending] = []
        self._describing = threading.Lock()
        self._last_done: dict[int, _Pending] = {}  # of each thread, which then runs its callbacks
        self._groups: dict[str, RankGroup] = {}
        self._meshes: dict[Any, Mesh] = {}
        self._counts: dict[Any, int] = {}
        self._works: dict[int, tuple[weakref.ref[Any], _Pending]] = {}
        self._writing: dict[int, _Pending] = {}
        self._last: Any = None  # keeps a work alive until Python gets it
        self._blocking: tuple[_Pending, int] | None = None  # with the index in run order
        self._dtensors: set[ValueId] = set()
        self._gradients: dict[ValueId, int] = {}

    def __enter__(self) -> Communications:
        world = group_facts()
        self._groups[world.name] = world
        self._leave = listen(self)
        self.values.on_dtensor = self.write_shard
        for entry in list(self.values.entries.values()):
            tensor = entry()
            if tensor is not None and is_dtensor(tensor):
                self.write_shard(entry.value, tensor)
        self.backward.left = self.backward_ended
        return self

    def __exit__(self, *error: object) -> None:
        self._leave()

    # What is sent -------------------------------------------------------------------

    def begins(self, operator: Any, args: tuple[Any, ...], made: Any = None) -> _Pending | None:
        """A communication *operator* begins; *made* is its result if it has run on fake tensors.

        Returns None if the call is not recorded.
        """
        is_of_run = self._is_of_run()
        after = None if is_of_run else self._completed_here()
        if not is_of_run and after is None:
            return None
        with self._working():
            sent = communication_of(operator, args, made)
            with self._describing:
                communication = self._describe(sent, after)
            timed = self._is_timed(communication, sent)
            received = sent.received if after is None else []
            opened = _Pending(self.tape, communication, received, timed)
            for tensor in received if made is None else ():
                self.values.storages.expect_collective(tensor)
                self._writing[self.values.storages.of(tensor).number] = opened
            self._found.append(opened)
            if after is None and made is None:
                self._blocks(opened)
            return opened
        return None

    def ends(self, begun: _Pending, result: Any) -> None:
        """The operator returned."""
        with self.tape.survives_errors("communications"):
            self._blocks_no_more(begun)
            work = work_in(result)
            if not self._is_in_callback():
                self._last = work
            if work is not None:
                self._works[id(work)] = weakref.ref(work), begun
                if begun.timed:
                    future = when_done(work, functools.partial(_is_done, begun, self._last_done))
                    begun.future = future if begun.seconds is None and not begun.failed else None

    def broadcast(self, tensors: Sequence[Tensor]) -> None:
        """A broadcast has written *tensors*, without an increase of their versions (torch 2.13)."""
        if self._is_of_run():
            with self._working():
                for tensor in tensors:
                    self.values.storages.collective_done(tensor)

    def waits(self, on: Any) -> tuple[Any, _Pending | None, float] | None:
        """The program begins to wait for *on*, a ``Work`` or a tensor."""
        if not self._is_of_run():
            return None
        with self.tape.survives_errors("communications"):
            if isinstance(on, Tensor):
                opened = self._writing.get(self.values.storages.of(on).number)
            else:
                ref, opened = self._works.get(id(on), (None, None))
                opened = opened if ref is not None and ref() is on else None
            if opened is not None:
                self._blocks(opened)
            return on, opened, self.tape.clock()
        return None

    def waited(self, begun: tuple[Any, _Pending | None, float]) -> None:
        """The program has waited; *begun* is the result of `waits`."""
        on, opened, since = begun
        with self._working():
            if opened is not None:
                self._blocks_no_more(opened)
                if opened.timed:
                    opened.waited(since)
                self._arrive(opened)
            if isinstance(on, Tensor):
                self.values.storages.collective_done(on)
            self._last = None

    def _blocks(self, opened: _Pending) -> None:
        """A call of a communication, or a wait for it, may now block the program."""
        self._blocking = opened, self.tape.index

    def _blocks_no_more(self, opened: _Pending) -> None:
        if self._blocking is not None and self._blocking[0] is opened:
            self._blocking = None

    @property
    def progress(self) -> object:
        """Equal at two times if no communication or wait began, and no wait ended, between them."""
        return len(self._found), self._blocking

    def blocked_in(self, *, in_cpp: bool, backward: bool) -> int | None:
        """The number of the communication that blocks the program, among those of the recording.

        None if nothing blocks it, or something else. *in_cpp*: C++ code of PyTorch is running that
        is no op, as in `DistributedDataParallel` and in a backward pass: it may wait for what it
        began without a call in Python.
        """
        opened = None
        if self._blocking is not None and self._blocking[1] == self.tape.index:
            opened = self._blocking[0]  # else the wait has failed, and the program went on
        elif in_cpp:
            running = (item for item in tuple(self._found) if item.is_running())
            found = (item for item in running if item.communication.backward == backward)
            opened = next(found, None)
        if opened is None:
            return None
        before = sum(type(event) is Communication for event in tuple(self.tape.events))
        return before + self._found.index(opened)

    def _is_of_run(self) -> bool:
        """Whether the current call is made by the run, and not by the recorder."""
        if self.tape.ignores_calls:
            return False
        if self.tape.records(threading.get_ident()):
            return self.tape.paused is None
        return current_graph_task() != -1 and bool(self.backward.running)

    def _completed_here(self) -> Communication | None:
        """The communication of this run in whose callback this thread is, or None.

        Communication hooks of ``DistributedDataParallel`` start further collectives in callbacks,
        in a thread of the backend.
        """
        opened = self._last_done.get(threading.get_ident()) if self._is_in_callback() else None
        return None if opened is None else opened.communication

    def _is_in_callback(self) -> bool:
        """Whether neither the recorded thread nor a backward pass makes the current call."""
        return not self.tape.records(threading.get_ident()) and current_graph_task() == -1

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """A context that records errors; in the recorded thread, its time is the recorder's."""
        is_here = self.tape.records(threading.get_ident())
        try:
            with self.tape.survives_errors("communications"):
                if is_here:
                    self.tape.pause()
                yield
        finally:
            if is_here:
                self.tape.resume()

    def _is_timed(self, communication: Communication, sent: RawCommunication) -> bool:
        on_cpu = all(item.device.type == "cpu" for item in (*sent.given, *sent.received))
        return on_cpu and self._groups[communication.group].backend not in UNTIMED

    def _arrive(self, opened: _Pending) -> None:
        for ref in opened.received:
            tensor = ref()
            if tensor is not None:
                self.values.storages.collective_done(tensor)
        opened.received.clear()

    def _describe(
        self, sent: RawCommunication, after: Communication | None = None
    ) -> Communication:
        """The communication; one in a callback is in the same place as the one *after* which it
        runs."""
        name = str(sent.group.group_name)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = group_facts(sent.group)
        peer = group.ranks[sent.peer] if 0 <= sent.peer < len(group.ranks) else -1
        pair = (sent.name, peer, sent.tag) if sent.name in ("send", "recv") else None
        order = self._counts.get((name, pair), 0)
        self._counts[name, pair] = order + 1
        op, grad, scope = self._place() if after is None else (None, after.grad, after.scope)
        return Communication(
            sent.name,
            sent.reduction,
            name,
            order,
            peer,
            sent.tag,
            sum(map(_bytes, sent.given)),
            sum(map(_bytes, sent.received)),
            scope,
            op,
            grad,
            self.running.is_backward if after is None else after.backward,
            None,
            None,
        )

    def _place(self) -> tuple[OpId | None, GradId | None, ScopeId | None]:
        """The running op, autograd node and scope; all None in callbacks at the end of backward."""
        if not self.running.is_backward:
            return self.tape.op, None, self.tape.scope
        grad = self.backward.current()
        return None, grad, self.running.home(grad)

    # Callbacks of the run ------------------------------------------------------------

    def op_ended(self, op: OpId) -> None:
        """Release the last work: Python has it now."""
        self._last = None

    def node_ended(self, grad: GradId, run: int) -> None:
        """Release the last work."""
        self._last = None

    def backward_ended(self) -> None:
        """Close the communication of a backward pass, for which C++ has waited; read the gradients
        that FSDP has set."""
        for opened in self._found:
            if opened.communication.backward:
                opened.check_done()
                self._arrive(opened)
        for ref, _, _ in list(self.values.named.values()):
            parameter = ref()
            if parameter is None or not parameter.is_leaf or parameter.grad is None:
                continue
            value = self.values.peek(parameter)
            if value and (value in self._dtensors or id(parameter) in self.values.parts):
                self._gradients[value] = _bytes(local_part(parameter.grad))

    def write_shard(self, value: ValueId, tensor: Tensor) -> None:
        """Write placements, mesh and local shape of a DTensor."""
        placements, mesh = dtensor_layout(tensor)
        facts = self._meshes.get(mesh)
        if facts is None:
            facts = self._meshes[mesh] = mesh_facts(mesh)
        part = local_part(tensor)
        self._dtensors.add(value)
        self.tape.write(Shard(value, str(facts), placements, shape_of(part), _bytes(part)))

    def finish(self) -> None:
        """Write the communications, at the end of the run."""
        self._last = None
        for opened in self._found:
            opened.check_done()
            opened.future = None
        for row in self.rows():
            self.tape.write(row)
        for value, size in self._gradients.items():
            self.tape.write(Measured(BYTES_OF_GRADIENT, value, size))
        self._works.clear()
        self._writing.clear()
        self._last_done.clear()

    def rows(self) -> Iterator[Communication]:
        """The communications that have begun, in run order."""
        for opened in tuple(self._found):
            known, blocked = opened.communication, opened.blocked
            yield known._replace(seconds=opened.seconds, blocked_seconds=blocked)

    def rank(self) -> Rank:
        """The rank of this process, its groups and meshes."""
        meshes = tuple(dict.fromkeys(self._meshes.values()))
        return Rank(*rank_and_world(), socket.gethostname(), tuple(self._groups.values()), meshes)


def _is_done(opened: _Pending, last_done: dict[int, _Pending], future: Any) -> None:
    """*opened* has ended, which its future tells this thread before the callbacks of the program.
    Thread-local data would be lost between two callbacks: Python does not know the thread."""
    opened.done(future)
    last_done[threading.get_ident()] = opened


def _bytes(tensor: Tensor) -> int:
    """The bytes of a tensor; 0 if its size is symbolic."""
    number = tensor.numel()
    return number * tensor.element_size() if type(number) is int else 0

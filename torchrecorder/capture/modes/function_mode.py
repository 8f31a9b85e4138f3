"""FunctionMode: a ``TorchFunctionMode`` that records calls of torch functions as ops.

PyTorch calls the mode for every torch function that Python calls, also for attribute reads such as
``x.shape`` and for calls without tensors. It is disabled while it handles a call, so that neither
the inside of a composite function nor calls of the recorder are recorded. Modes are per thread.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FrameType
from typing import Any

from torch import Tensor, is_grad_enabled
from torch.overrides import TorchFunctionMode

from torchrecorder.capture.hooks.backward import BackwardRuns
from torchrecorder.capture.hooks.regions import Regions
from torchrecorder.capture.hooks.source import InternalWork
from torchrecorder.capture.internals.access import (
    PLAIN_TENSOR_TYPES, DisableTorchFunction, count_function_modes, current_graph_task, get_frame,
    is_wrapped, leave_function_mode, peek_transformations,
)
from torchrecorder.capture.modes.argument_names import ArgumentNames
from torchrecorder.capture.modes.arguments import named_arguments, sort_arguments
from torchrecorder.capture.modes.call import (
    Accumulation, Call, Written, is_gradient_known, is_new_gradient,
)
from torchrecorder.capture.modes.call_site import Caller, CallSites
from torchrecorder.capture.modes.composed import body_of, run_body
from torchrecorder.capture.modes.leaf_switches import LeafSwitches
from torchrecorder.capture.modes.op_schema import FunctionFacts, facts_of
from torchrecorder.capture.tensors.alias import holds_alias, run_on_originals
from torchrecorder.capture.tensors.argument_objects import has_function_objects, tensors_in_objects
from torchrecorder.capture.tensors.describe import innermost, is_tensor, tensors_in
from torchrecorder.events import OpId, OpKind, ValueId
from torchrecorder.graph.nodes import Op


class OpRecorder:
    """Records the beginning and end of a call as an op, for function and dispatch modes."""

    def __init__(self, regions: Regions, backward: BackwardRuns) -> None:
        self.regions = regions
        self.backward = backward
        self.tape = backward.tape
        self.autograd = backward.autograd
        self.values = backward.autograd.values
        self.sites = CallSites()
        self.names = ArgumentNames(self.values.early_reads, regions.sources)
        self.switches = LeafSwitches(self.tape, self.values, regions.sources)
        self.caller_at: Callable[[FrameType], Caller] = self.sites.at

    def run_op(
        self,
        func: Callable[..., Any],
        facts: FunctionFacts,
        guarded: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run *func* as an op. *guarded* hides the calls of the recorder from function modes."""
        if guarded:
            with DisableTorchFunction():
                call = self.begin(facts, args, kwargs, guarded)
        else:
            call = self.begin(facts, args, kwargs)
        if call is None:
            return func(*args, **kwargs)
        try:
            result = call.caller(func, args, kwargs)
        except BaseException as error:
            self.fail(call, error)
            raise
        if guarded:
            with DisableTorchFunction():
                self.end(call, result)
        else:
            self.end(call, result)
        if self.tape.at_return is not None:
            self.tape.at_return(call.op, result, func, args, kwargs)
        return result

    def begin(
        self,
        facts: FunctionFacts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        guarded: bool = False,
        frame: FrameType | None = None,
    ) -> Call | None:
        """Record the inputs of the call that *frame* makes; None if it is no op, or on an error."""
        call = Call()
        try:
            tape, values = self.tape, self.values
            call.started, call.outer = tape.pause(), tape.op
            if call.outer is not None:
                self.autograd.end(call.outer)
            call.facts = facts
            frame = frame or get_frame(3)
            call.caller = self.caller_at(frame)
            call.source = self.regions.locate(frame)
            call.function = self.regions.function
            call.place = tape.stack[-1] if tape.stack else None
            tensors, call.arguments = sort_arguments(facts, args, kwargs)
            call.on_objects = guarded and has_function_objects(args, kwargs)
            if call.on_objects:
                named = [*named_arguments(args, facts.names_of(args, kwargs)), *kwargs.items()]
                tensors += tensors_in_objects(named, tensors)
            call.wrapped = peek_transformations() is not None or facts.runs_backward and any(
                is_wrapped(tensor) for _, tensor in tensors
            )
            if call.wrapped:
                tensors = [(name, innermost(tensor)) for name, tensor in tensors]
            tape.inside = call.function.inside if call.function is not None else None
            call.inputs = values.slots_of(tensors)
            call.tensors = self._sources(tensors) if values.aliases else tensors
            if values.early_reads.unnamed:
                self.names.find(call, frame, args, kwargs)
            tape.inside = None
            if facts.runs_backward:
                op = self._begin_backward(call, args, kwargs)
            else:
                call.op = op = tape.next_op()
                call.index = tape.next_index()
            self.autograd.begin()
            tape.op = op
            for observer in tape.observers:
                observer.op_begins(op)
            tape.resume()
            return call
        except InternalWork:
            self.tape.resume()
        except Exception as error:
            self._give_up(call, error)
        return None

    def _begin_backward(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpId:
        """Install hooks on the nodes that the call runs, and record the gradients before it."""
        values, tape = self.values, self.tape
        nodes = [] if call.wrapped else self.backward.behind(args, kwargs)
        accumulates = call.facts.name == "backward"
        added = Accumulation(values, nodes if accumulates else (), kwargs.get("inputs"))
        call.inputs += values.slots_of(added.gradients)
        call.op = op = tape.next_op()
        call.index = tape.next_index()
        if accumulates:
            values.gradients.last = op
        call.added_to = added.left_by(op)
        self.backward.begin(op, nodes, args, kwargs)
        return op

    def _give_up(self, call: Call, error: Exception) -> None:
        """Reset the running op and remove its hooks, after an *error* of the recorder."""
        self.tape.op, self.tape.inside = getattr(call, "outer", None), None
        self.backward.abandon(getattr(call, "op", None))
        self.tape.record_error("functions", error)

    def _sources(self, tensors: list[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
        """*tensors* with the user's tensors instead of the recorder's aliases."""
        values, given = self.values, []
        for name, tensor in tensors:
            if id(tensor) in values.aliases:
                tensor = values.source(tensor)
                values.read(tensor)
            given.append((name, tensor))
        return given

    def end(self, call: Call, result: Any) -> None:
        """Record the outputs and writes of the call."""
        try:
            tape = self.tape
            seconds = tape.pause() - call.started
            tape.op = call.outer
            for observer in reversed(tape.observers):
                observer.op_ended(call.op)
            if call.facts.runs_backward:
                self.backward.end(call.op, seconds)
                given = ((name, ref()) for name, ref in call.added_to)
                call.tensors += [(name, tensor) for name, tensor in given if tensor is not None]
            writes = self._writes(call)
            storages = self.values.storages
            known = call.facts.shares_memory and storages.share_memory(call.tensors, result)
            outputs = () if known else self._outputs(call, result, writes)
            if outputs or call.facts.reads_data:
                self.autograd.end(call.op)
                if tape.observers and not call.facts.leaves_unset:
                    self._show(call, result, writes)
                written = tuple(writes.values()) if writes else ()
                self._write(call, OpKind.CALLED, outputs, written, seconds)
            elif call.facts.sets_gradient:
                self.autograd.end(call.op)
                made = call.made_gradient(self.values)
                self._write(call, OpKind.PASS, (made,), (), seconds)
            elif is_tensor(result) and call.was_given(self.values.source(result)):
                self.autograd.end(call.op)
                self.values.passed = self._write(call, OpKind.PASS, (), (), seconds)
            if call.outer is not None:
                self.autograd.begin()
            tape.resume()
        except Exception as error:
            self._give_up(call, error)

    def fail(self, call: Call, error: BaseException) -> None:
        """Record that the call raised *error*, which may end the run."""
        try:
            self.tape.op = call.outer
            if call.facts.runs_backward:
                self.backward.fail(call.op, error)
            self.tape.fail(error, call.op)
            self._write(call, OpKind.CALLED, (), (), None, failed=True)
        except Exception as own:
            self._give_up(call, own)

    def _show(self, call: Call, result: Any, writes: dict[int, ValueId]) -> None:
        """Call `Observer.op_made` with the results and written arguments, then `op_read`."""
        given = {id(tensor) for _, tensor in call.tensors} - writes.keys()
        results = (self.values.source(item) for _, item in tensors_in(result))
        made = [item for item in results if id(innermost(item)) not in given]
        read, shown = call.only_read(writes), dict[ValueId, Tensor]()
        for tensor in [*made, *(item for _, item in call.tensors if id(item) in writes)]:
            if (value := self.values.peek(innermost(tensor))) is not None:
                shown.setdefault(value, tensor)
        for observer in self.tape.observers:
            observer.op_made(call.op, call.facts.name, list(shown.items()))
            observer.op_read(call.op, read)

    def _writes(self, call: Call) -> dict[int, ValueId]:
        """The new values of arguments that the call has written in place, by ``id()``."""
        found: dict[int, Written] = {}
        entries, facts = self.values.entries, call.facts
        unusual = facts.rebinds or facts.writes
        for name, tensor in call.tensors:
            entry = entries.get(id(tensor))
            if entry is None:
                continue
            if entry.version < 0 or unusual:
                wrote = call.wrote(name, tensor, entry)
            else:
                wrote = tensor._version != entry.version
                if wrote and tensor._version <= entry.storage.received:
                    entry.version = tensor._version
                    wrote = facts.in_place and tensor is call.tensors[0][1]
            if wrote:
                found[id(tensor)] = name, tensor, entry
        if not found:
            return {}
        own = call.own_writes(found.values()) if len(found) > 1 else found.values()
        return {id(tensor): self.values.wrote(tensor, entry, call.op) for _, tensor, entry in own}

    def _outputs(self, call: Call, result: Any, writes: dict[int, ValueId]) -> tuple[ValueId, ...]:
        """The new values of the call: of its results, then of written arguments."""
        usual = not (call.wrapped or call.on_objects or call.facts.attribute)
        if usual and is_tensor(result) and len(writes) < 2:
            if self.values.aliases:
                result = self.values.source(result)
            if writes:
                if id(result) in writes:
                    return (writes[id(result)],)
                return self._several_outputs(call, result, writes)
            for _, tensor in call.tensors:
                if tensor is result:
                    return ()
            return (self.values.add_value(result, call.op),)
        return self._several_outputs(call, result, writes)

    def _several_outputs(
        self, call: Call, result: Any, writes: dict[int, ValueId]
    ) -> tuple[ValueId, ...]:
        """`_outputs` for any results and writes."""
        results = [tensor for _, tensor in tensors_in(result)]
        if call.on_objects:
            known = [("", tensor) for tensor in results]
            results += [tensor for _, tensor in tensors_in_objects([("", result)], known)]
        if call.wrapped:
            results = [innermost(tensor) for tensor in results]
        if self.values.aliases:
            results = [self.values.source(tensor) for tensor in results]
        outputs: dict[ValueId, None] = {}
        given = {id(tensor) for _, tensor in call.tensors} if results else ()
        made, entries = self.values.gradients.made_by_hook, self.values.entries
        for tensor in results:
            if id(tensor) in given or id(tensor) in entries and made(entries[id(tensor)], call.op):
                if id(tensor) in writes:
                    outputs[writes[id(tensor)]] = None
            elif call.facts.reads_gradient:
                self.values.read_gradient(tensor, call.inputs[0].value)
            else:
                outputs[self.values.add_value(tensor, call.op)] = None
        outputs.update(dict.fromkeys(writes.values()))
        return tuple(outputs)

    def _write(
        self,
        call: Call,
        kind: OpKind,
        outputs: tuple[ValueId, ...],
        writes: tuple[ValueId, ...],
        seconds: float | None,
        *,
        failed: bool = False,
    ) -> Op:
        if call.function is not None:
            call.function.inside.append(call.op)
        call.arguments = self.tape.shared.setdefault(call.arguments, call.arguments)
        called = call.row(kind, outputs, writes, seconds, failed=failed)
        self.tape.write(called)
        return called


class FunctionMode(TorchFunctionMode):
    """Records every torch function that Python calls in this thread."""

    def __init__(self, calls: OpRecorder, opens: bool = True) -> None:
        super().__init__()
        self.calls = calls  # records a call as an op
        self.opens = opens  # whether functions of PyTorch that are `composed` are recorded op by op
        self.facts: dict[Any, FunctionFacts] = {}
        # whether a call from this frame during backward comes from a hook, and is no part of the
        # pass. None: every call does
        self.called_by_hook: Callable[[FrameType], bool] | None = None
        self.crowded = False  # whether other function modes were active at its entry

    def __enter__(self) -> FunctionMode:
        self.crowded = count_function_modes() > 0
        return super().__enter__()  # type: ignore[no-any-return, no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        self.facts.clear()  # a method of a scripted module keeps the module alive
        self.calls.sites.clear()
        leave_function_mode(self)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run *func* and record it."""
        kwargs = kwargs or {}
        pass_through = body = None
        try:
            if self._passes():
                pass_through = self.calls.sites.at(get_frame(1))
        except Exception as error:
            self.calls.tape.record_error("functions", error)
        if pass_through is not None:
            return pass_through(func, args, kwargs)
        try:
            facts = self.facts.get(func)
            if facts is None:
                facts = self.facts[func] = facts_of(func)
            values = self.calls.values
            plain = PLAIN_TENSOR_TYPES.issuperset(types)
            usual = plain and not self.crowded
            if facts.composed and self.opens and usual:
                body = body_of(func, get_frame(1), args, values)
            if values.aliases and holds_alias(values, args, kwargs):
                func = functools.partial(run_on_originals, values, func)
            known = facts.ignored
            if facts.special:
                if facts.higher_order:
                    func = functools.partial(self._run_traced, func)
                if facts.leaf_switch:
                    func = functools.partial(self.calls.switches.run, func, get_frame(1))
                if facts.grad_switch and args != (is_grad_enabled(),):
                    self.calls.regions.grad_mode_switched(get_frame(1), *args)
                known |= facts.reads_gradient and usual and is_gradient_known(values, args[0])
                known |= facts.sets_gradient and not (plain and is_new_gradient(*args))
        except Exception as error:
            self.calls.tape.record_error("functions", error)
            return func(*args, **kwargs)
        if body is not None:
            return run_body(self, body, self.calls.sites.at(get_frame(1)), args, kwargs)
        if known:
            return func(*args, **kwargs)
        return self.calls.run_op(func, facts, not usual, args, kwargs)

    def records_kernel(self) -> bool:
        """Whether a Triton kernel that the caller's caller launches is an op of its own."""
        if self.calls.tape.op is not None and current_graph_task() == -1:
            return False
        return not self._passes()

    def _passes(self) -> bool:
        """Whether the caller's caller is in another task, or is part of a backward pass."""
        if current_graph_task() == -1 or self.called_by_hook is None:
            return self.calls.tape.task.is_left()
        return not self.called_by_hook(get_frame(2))

    def _run_traced(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a higher-order operator; module calls are ignored, because it may trace functions."""
        tape, before = self.calls.tape, self.calls.tape.ignores_calls
        tape.ignores_calls = True
        try:
            return func(*args, **kwargs)
        finally:
            tape.ignores_calls = before

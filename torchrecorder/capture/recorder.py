"""Recorder: the context manager that installs and removes the instruments, and builds the result.

A recorder records one run in one thread. Recorders may be nested, and may run in several threads or
asyncio tasks at once; each records only its own. An exception of the user's code propagates, with a
note that names the module and operation; the recording ends there.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Module

from torchrecorder.build import Event, build
from torchrecorder.capture.compiled.second_run import SecondRun
from torchrecorder.capture.failures import attach, explain, remove_own_frames
from torchrecorder.capture.hooks.recorded_threads import RecordedThreads
from torchrecorder.capture.inputs import SEVERAL, check_model, module_of, name_of
from torchrecorder.capture.instruments import Instruments, main_instruments
from torchrecorder.capture.internals.access import DisableTorchFunction, get_frame
from torchrecorder.capture.internals.compiler import tracks_kernels
from torchrecorder.capture.live_modules import LiveModules
from torchrecorder.capture.modes.python_functions import has_own_call, runs_hooks
from torchrecorder.capture.probes.probes import INDUCTOR, Compiled, Probes
from torchrecorder.capture.probes.profiled import is_done, slices_of
from torchrecorder.capture.run_warnings import warn_of_losses, warn_of_others
from torchrecorder.capture.running_modules import RunningModules
from torchrecorder.capture.scope import Choice
from torchrecorder.capture.state.interrupts import interrupts_held
from torchrecorder.capture.tape import OTHER_TASKS, Tape
from torchrecorder.checks import FLAG, TEXT, above_0, check_one, limits_places, suggests_names, warn
from torchrecorder.errors import InvalidArgument, RecorderInUse
from torchrecorder.events import StillHeld
from torchrecorder.graph.recording import RunDone, RunFacts
from torchrecorder.graph.retained_tensors import Kept
from torchrecorder.recording import Recording
from torchrecorder.trace.slices import profiled

if TYPE_CHECKING:
    from torchrecorder.capture.run_file import RunFile

_ELSEWHERE = (
    "; it records what its block runs, also a backward pass. Options of how a model is run go into "
    "record(model, inputs, ...), those of a figure into recording.render(path, ...)."
)


class Recorder:
    """Records what runs inside its ``with`` block.

    Args:
        model: An ``nn.Module``, or a function or method. It gives modules, parameters and buffers
            their dotted names. Other modules that run in the block are recorded too. Their names
            begin with the variable or attribute at the call: ``"critic.0.weight"`` after
            ``self.critic(x)``; a second module of that name is ``"critic_1"``. If the call has no
            such name, or before Python 3.11, they begin with the class. If `record` gets a
            function, modules in its arguments and variables have their names. Other tensors are
            named by the line that reads them first: ``mask`` in ``(loss * mask).sum()`` (Python
            3.11 or later).
        name: Name of the recording; the model's class name if not given.
        stats: Compute mean, std, range, norm, zeros, NaNs of tensors and gradients: of all, or
            of those in a list of scopes (dotted paths, which may contain ``*``).
        keep: Scopes whose outputs and gradients are kept, for `Recording.activations` and
            `Recording.gradients`; also operations by scope and name, ``"layer*: softmax"``.
        flops: Count floating-point operations.
        replay: Keep the autograd graph with the recording, for `Recording.replay`.
        saved: Count the bytes saved for backward.
        compiled: After the block, repeat its calls of *model* with ``torch.compile``, to record
            the graph of each op and the graph breaks. ``"inductor"``: also which ops share a
            kernel; that needs a C++ compiler, and time.
        profiler: A ``torch.profiler.profile`` that is active around the block. Ops and scopes
            are ranges in its trace, and after its end the recording has its measurements.
        memory: Record when the memory of tensors is allocated and released, for
            `Recording.memory`.
        threads: Also record the threads that are started in the block.
        save: A file, such as ``f"run/rank{rank}.json.gz"``, to which the recording is saved at the
            end of the block, also if that raises; before, if the process is told to end with
            ``SIGTERM``, or if nothing happens in the block for *save_after* seconds, as in a
            distributed job that hangs. An existing file is removed at the beginning.
        save_after: A number of seconds.

    Raises:
        InvalidArgument: An option has a wrong value, or needs a *model*.
        RecorderInUse: The recorder is entered a second time.

    Example:
        >>> import torch, torchrecorder
        >>> model, x = torch.nn.Linear(2, 1), torch.ones(3, 2)
        >>> with torchrecorder.Recorder(model) as recorder:
        ...     loss = model(x).sum()
        ...     loss.backward()
        >>> [op.name for op in recorder.recording.ops.values()]
        ['linear', 'sum', 'backward']
    """

    @functools.partial(suggests_names, advice=_ELSEWHERE)
    @limits_places(SEVERAL)
    def __init__(
        self,
        model: Module | None = None,
        *,
        name: str | None = None,
        stats: Choice = False,
        keep: Choice = (),
        flops: bool = False,
        replay: bool = False,
        saved: bool = True,
        compiled: Compiled = False,
        profiler: Any = None,
        memory: bool = False,
        threads: bool = False,
        save: str | Path | None = None,
        save_after: float = 30.0,
    ) -> None:
        check_one("name", name, TEXT.or_none())
        check_model(model)
        check_one("threads", threads, FLAG)
        check_one("save_after", save_after, above_0("a number of seconds"))
        self._model = model
        self._with_threads = threads
        self._probes = Probes(stats, keep, flops, replay, saved, compiled, profiler, memory)
        if compiled and model is None:
            raise InvalidArgument("compiled=True needs the model: Recorder(model, compiled=True)")
        if compiled == INDUCTOR and not tracks_kernels():
            raise InvalidArgument(
                "this version of PyTorch does not report the operations of a kernel; compiled=True "
                "shows the graphs"
            )
        self._file: RunFile | None = None
        if save is not None:
            from torchrecorder.capture.run_file import RunFile

            self._file = RunFile(save, save_after)
        self._running: RunningModules | None = None
        self._kept: Kept | None = None
        self._name = name or name_of(model)
        self._events: tuple[Event, ...] | None = None
        self._recording: Recording | None = None
        self._live: LiveModules | None = None
        self._exit: contextlib.ExitStack | None = None
        self._used = self._runs_model = False

    def __repr__(self) -> str:
        if self._events is not None:
            return f"<Recorder of {self._name}: done, {self.recording!r}>"
        return f"<Recorder of {self._name}: {'recording' if self._used else 'not entered yet'}>"

    if not TYPE_CHECKING:  # type checkers would accept every attribute

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property has failed, with an error of its own
                return object.__getattribute__(self, name)
            has_it = hasattr(Recording, name)
            hint = f"; its recording has it: recorder.recording.{name}" if has_it else ""
            text = f"{type(self).__name__!r} object has no attribute {name!r}{hint}"
            raise AttributeError(text, name=name, obj=self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The MIME bundle of the recording, after the block; else the text of `repr`."""
        if self._events is None:
            return {"text/plain": repr(self)}
        return self.recording._repr_mimebundle_(include, exclude)

    def __enter__(self) -> Recorder:
        if self._used:
            raise RecorderInUse("this recorder was used before; make a new one for each run")
        self._used = True
        try:
            # other function modes must not see calls of the recorder
            with interrupts_held(), DisableTorchFunction():
                self._set_up()
            with self._tape.survives_errors("names"):
                self._instruments.modules.names.enter(get_frame(1))
        except BaseException:
            with self._file_ending():
                self._remove_instruments()
            raise
        return self

    def _set_up(self) -> None:
        self._tape = tape = Tape()
        tape.pause()
        model = module_of(self._model)
        self._instruments = main_instruments(
            tape, self._probes, model, self._name, shared=self._with_threads
        )
        self._running = self._instruments.running
        compiled = self._probes.compiled
        self._second = SecondRun(self._model, fused=compiled == INDUCTOR) if compiled else None
        if self._second is not None:
            self._instruments.modules.called = self._second.called
        if self._file is not None:
            self._watch(self._file)
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._instruments)
            if self._with_threads:
                with tape.survives_errors("threads"):
                    stack.enter_context(RecordedThreads(self._instruments))
            self._exit = stack.pop_all()
        tape.resume()

    def _watch(self, file: RunFile) -> None:
        """Save the unfinished run to *file* if it does not go on."""
        from torchrecorder.capture.run_file import unfinished

        instruments, mode = self._instruments, _grad_mode()

        def progress() -> object:
            if self._exit is None:  # instruments still start: not all is known that is saved
                return object()
            sent = instruments.started.sent
            return len(instruments.tape.events), None if sent is None else sent.progress

        file.start(progress, functools.partial(unfinished, instruments, self._name, mode))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._running is None:
                state = "has ended" if self._used else "was never entered"
                raise RecorderInUse(f"the with block of this recorder {state}")
            with self._file_ending():
                self._end(error)
        finally:  # also if the user interrupts it
            self._clear()

    def _file_ending(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._file is None else self._file.ending()

    def _end(self, error: BaseException | None) -> None:
        tape, instruments = self._tape, self._instruments
        tape.pause()
        tape.ignores_calls = True  # running calls still run the hooks that they began with
        self._remove_instruments()
        if self._second is not None and error is None:
            known = {key: entry.module for key, entry in instruments.registry.entries.items()}
            self._second.run(tape, instruments.regions.sources, known)
        with DisableTorchFunction():
            self._finish(error)
        self._clear()
        if self._file is not None and self._events is not None:
            self._file.write(self._built(self._events))
        self._report(error, tape, instruments)

    def _remove_instruments(self) -> None:
        if self._exit is not None:
            with interrupts_held(), self._tape.survives_errors("end"):
                self._exit.close()

    def _finish(self, error: BaseException | None) -> None:
        tape = self._tape
        self._instruments.finish(functools.partial(self._leave, error))
        unrecorded = self._instruments.modules.others.notes()
        tape.notes.extend([*unrecorded, *([OTHER_TASKS] if tape.task.others_ran else [])])
        self._kept = self._instruments.started.kept()
        rank, sent = None, self._instruments.started.sent
        if sent is not None:
            with tape.survives_errors("end"):
                rank = sent.rank()
        if error is None:
            with tape.survives_errors("values"):
                tape.write(StillHeld(self._instruments.modules.names.living()))
        tape.write(
            RunDone(
                self._name,
                RunFacts(
                    torch_version=str(torch.__version__),
                    grad_mode=_grad_mode(),
                    notes=tuple(dict.fromkeys(tape.notes)),
                    seconds=tape.time() - tape.began,
                    overhead=tape.overhead,
                    rank=rank,
                ),
            )
        )
        self._live = LiveModules(self._instruments.registry.references())
        self._events = tuple(tape.events)

    def _clear(self) -> None:
        """Drop the instruments, and with them the references to tensors and modules."""
        if self._exit is None:
            return
        self._remove_instruments()
        self._running = self._exit = None
        self._tape.events.clear()  # reference cycles of the instruments would keep them alive
        self._tape.task.end()
        self._instruments.clear()
        del self._tape, self._instruments, self._second

    def _report(self, error: BaseException | None, tape: Tape, instruments: Instruments) -> None:
        """Add notes to *error*, and warn about what was not recorded."""
        assert self._events is not None
        if error is not None:
            with tape.survives_errors("end"):
                remove_own_frames(error)
                explain(error, self._built(self._events))
        else:
            self._probes.warn_unmatched(self._events)
            warn_of_others(tape, instruments, runs_model=self._runs_model)
        warn_of_losses(tape, self._events)

    def _leave(self, error: BaseException | None) -> None:
        """Close all open scopes; if *error* ended the run, record where it was raised."""
        if error is not None:
            sent, backward = self._instruments.started.sent, self._tape.failed_at.backward
            blocked = None
            if sent is not None:
                blocked = sent.blocked_in(in_cpp=backward, backward=backward)
            sources = self._instruments.modules.regions.sources
            self._tape.conclude_failure(error, blocked, sources.raising_line)
            attach(error, self)
        self._instruments.modules.leave_all(error)

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call *function* inside the block, and return its result.

        A function, and a module whose class runs no hooks, get their scope here.
        """
        self._runs_model = True
        if isinstance(function, Module) and runs_hooks(type(function)):
            if not has_own_call(type(function)):
                return function(*args, **kwargs)
            function = function.__call__  # ops around the call with hooks belong to it
        return self._instruments.modules.call(self._name, function, args, kwargs)

    def record_error(self, instrument: str, error: Exception) -> None:
        """Record that *instrument* failed outside of the block."""
        self._tape.record_error(instrument, error)

    def module_called(self, module: Module, args: tuple[Any, ...], frame: FrameType) -> None:
        """Record the call of *module* during which a hook, in *frame*, entered this recorder."""
        self._instruments.modules.before(module, args, frame)

    def step_begins(self, frame: FrameType) -> None:
        """One of several equal steps begins in *frame*; the first when this recorder is entered."""
        self._instruments.regions.calls.step_begins(frame)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Dotted paths of the running modules, outermost first.

        In backward, those whose forward created the running autograd node. Empty outside the
        block. In other threads, such as that of a sampling profiler, the scopes of the recorded
        thread.
        """
        running, instruments = self._running, getattr(self, "_instruments", None)
        if running is None or instruments is None:
            return ()
        instruments.modules.close_finished(get_frame(1))
        return running.scopes

    @property
    def is_backward(self) -> bool:
        """Whether the block is running a backward pass."""
        return self._running is not None and self._running.is_backward

    @property
    def recording(self) -> Recording:
        """The recording; available after the block.

        Raises:
            RecorderInUse: The block has not ended, or was never entered.
        """
        if self._events is None:
            raise RecorderInUse("the recording is available after the recorder's with block")
        recording = self._built(self._events)
        if self._probes.profiler is not None:
            self._recording = recording = self._profiled(recording)
        return recording

    def _built(self, events: tuple[Event, ...]) -> Recording:
        """The recording of *events*; built at the first call."""
        if self._recording is None:
            self._recording = build(events, Recording, self._live, self._kept)
        return self._recording

    def _profiled(self, recording: Recording) -> Recording:
        """*recording* with the measurements of the profiler; without, and a warning, if it still
        runs."""
        if not is_done(self._probes.profiler):
            warn("the profiler is still running: read the recording after the profiler's block")
            return recording
        slices, self._probes = slices_of(self._probes.profiler), Probes()
        return profiled(recording, slices)


def _grad_mode() -> str:
    if torch.is_inference_mode_enabled():
        return "inference_mode"
    return "grad" if torch.is_grad_enabled() else "no_grad"

"""DeferredRecorder: a recorder that starts at the first call of a model and ends after n calls.

It records code that cannot be changed, such as a script with its own ``main``. Until the model is
called, only global module hooks are active; compiled code runs eagerly from the beginning, because
a recorder cannot start inside it. A step is one call of the model with the loss, backward and
optimizer after it. Unless all calls are recorded, operations between the optimizer and the next
module (usually data loading) are not, so that all steps have the same operations.

Function modes must be exited in reverse order of entry, but the recorder starts and ends inside
modes of the program. So its modes are put below these on the stack; only PyTorch's mode for the
default device stays below, because it must be the lowest.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from torchrecorder.capture.hooks.optimizer import around_steps, parameters_of
from torchrecorder.capture.internals.access import (
    caller_of_module, default_device_mode, get_frame, put_function_modes, take_function_modes,
)
from torchrecorder.capture.module_tree import parameters_in
from torchrecorder.capture.recorder import Recorder
from torchrecorder.capture.state.force_eager import ForceEager
from torchrecorder.capture.state.interrupts import interrupts_held
from torchrecorder.errors import TorchRecorderError
from torchrecorder.recording import Recording

ModuleChoice = Callable[[Module, FrameType], bool]
"""Returns whether a module, which a frame calls, is the model to record."""


class DeferredRecorder:
    """Records the first steps of the first chosen module, inside its ``with`` block.

    Args:
        chosen: Returns whether a called module is the one to record.
        steps: The number of calls to record; 0 for all.
        options: Keyword options of `Recorder`.

    Attributes:
        model: The recorded module; None before its first call.
        calls: The number of its calls that were recorded.
    """

    def __init__(
        self, chosen: ModuleChoice, steps: int = 1, options: Mapping[str, Any] = {}
    ) -> None:
        self.model: Module | None = None
        self.calls = 0
        self._chosen = chosen
        self._steps = steps
        self._options = options
        self._recorder: Recorder | None = None
        self._modes: list[TorchFunctionMode] = []
        self._hooks = ExitStack()
        self._over = self._inside = self._paused = False
        self._with_grad = True  # in the last call
        self._have_stepped: weakref.WeakSet[Any] = weakref.WeakSet()  # optimizers, since the call

    @property
    def recording(self) -> Recording | None:
        """The recording; None if the module was not called."""
        return None if self._recorder is None else self._recorder.recording

    def __enter__(self) -> DeferredRecorder:
        self._thread = threading.get_ident()
        with ExitStack() as stack:
            with interrupts_held():
                stack.enter_context(ForceEager())
                stack.callback(register_module_forward_pre_hook(self._called).remove)
                after = register_module_forward_hook(self._returned, always_call=True)
                stack.callback(after.remove)
            self._hooks = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        left = error is not None and not isinstance(error, SystemExit)
        self._end(error if left else None)

    def _called(self, module: Module, args: tuple[Any, ...]) -> None:
        """The forward pre-hook: start or end recording if necessary."""
        if self._over or self._inside or threading.get_ident() != self._thread:
            return
        try:
            self._begin_or_end(module, args, get_frame(1))
        except TorchRecorderError:
            raise
        except Exception as error:
            self._record_error(error)

    def _record_error(self, error: Exception) -> None:
        """Report that a callback failed; the program continues."""
        if self._recorder is not None and not self._over:
            self._recorder.record_error("steps of the model", error)
        else:
            message = f"torchrecorder could not record the model: {type(error).__name__}: {error}"
            warnings.warn(message, stacklevel=2)

    def _begin_or_end(self, module: Module, args: tuple[Any, ...], frame: FrameType) -> None:
        begins = self.model is None and self._chosen(module, caller_of_module(frame))
        if begins:
            self._begin(module)
        is_last = self._steps > 0 and self.calls == self._steps
        if is_last and (self._paused or module is self.model):
            self._end(None)  # the last step is done
            return
        self._resume()
        if module is self.model:
            self.calls += 1
            self._inside = True
            self._with_grad = torch.is_grad_enabled()
            self._have_stepped.clear()
            if self._recorder is None:
                return
            self._recorder.step_begins(frame)
            if begins:  # its hooks do not run for this call
                self._recorder.module_called(module, args, frame)

    def _returned(self, module: Module, args: tuple[Any, ...], output: Any) -> None:
        """The forward hook."""
        if module is self.model and threading.get_ident() == self._thread:
            self._inside = False

    @interrupts_held()
    def _begin(self, module: Module) -> None:
        """Start recording, with the recorder's modes below most modes of the program."""
        self.model = module
        self._hooks.push(around_steps(self._steps_now, self._stepped))
        recorder = Recorder(module, **self._options)
        others = take_function_modes()
        try:
            recorder.__enter__()
            self._recorder, self._modes = recorder, take_function_modes()
        finally:
            self._put_with(others)

    def _put_with(self, others: list[TorchFunctionMode]) -> None:
        """Push the recorder's modes below those of the program, *others*."""
        default = default_device_mode()
        lowest = [mode for mode in others if mode is default]
        highest = [mode for mode in others if mode is not default]
        put_function_modes([*lowest, *self._modes, *highest])

    def _take_from(self, modes: list[TorchFunctionMode]) -> list[TorchFunctionMode]:
        """The modes in *modes* that are not the recorder's."""
        return [mode for mode in modes if not any(mode is item for item in self._modes)]

    def _steps_now(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """The pre-hook of optimizer steps, which belong to the recorded step.

        If an optimizer steps again, with a closure, or after a call without gradients, which is not
        that of a training step, the next step begins: the closure calls the model.
        """
        try:
            has_closure = kwargs.get("closure") is not None or any(map(callable, args[1:]))
            is_next = has_closure and (optimizer in self._have_stepped or not self._with_grad)
            if threading.get_ident() == self._thread:
                self._pause() if is_next else self._resume()
        except Exception as error:
            self._record_error(error)

    @interrupts_held()
    def _resume(self) -> None:
        """Continue to record operations after `_pause`."""
        if self._paused:
            self._paused = False
            self._put_with(take_function_modes())

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """The post-hook of optimizer steps: a step of the model's optimizer ends the recorded step.
        """
        try:
            self._pause_after(optimizer)
        except Exception as error:
            self._record_error(error)

    def _pause_after(self, optimizer: Any) -> None:
        if not self._steps or threading.get_ident() != self._thread:
            return
        self._have_stepped.add(optimizer)
        assert self.model is not None
        ours = {*map(id, parameters_in(self.model))}
        if any(id(item) in ours for item in parameters_of(optimizer)):
            self._pause()

    @interrupts_held()
    def _pause(self) -> None:
        """Record no operations until `_resume`."""
        if not self._paused:
            self._paused = True
            put_function_modes(self._take_from(take_function_modes()))

    def _end(self, error: BaseException | None) -> None:
        """Stop recording here."""
        if self._over:
            return
        try:
            self._over = True
            with interrupts_held():
                self._hooks.close()
        finally:  # also if the user interrupts it
            self._end_recorder(error)

    def _end_recorder(self, error: BaseException | None) -> None:
        if self._recorder is None:
            return
        others = self._take_from(take_function_modes())
        put_function_modes(self._modes)
        try:
            self._recorder.__exit__(None if error is None else type(error), error, None)
        finally:
            put_function_modes(others)

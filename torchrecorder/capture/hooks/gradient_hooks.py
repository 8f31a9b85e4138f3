"""GradientHooks: record the torch functions that hooks call while a backward pass runs.

The autograd engine runs hooks with the function modes that are active when it starts, so the
recorder's is pushed then. It is then also called for the backward of custom functions, for the
recomputation of checkpoints and for hooks of PyTorch itself. These are parts of the pass and no
ops; the outermost Python frame that the engine called distinguishes them from hooks of the user.

For a GPU, the engine runs hooks in a thread of its own, with the same modes.
"""

from __future__ import annotations

import inspect
import itertools
import threading
from types import FrameType
from typing import Any

from torch import Tensor

from torchrecorder.capture.autograd.node_facts import behind, is_frozen, nodes_of
from torchrecorder.capture.hooks.backward import BackwardRuns, RunningPass
from torchrecorder.capture.hooks.source import Sources
from torchrecorder.capture.internals.access import (
    ACCUMULATION, DisableTorchFunction, function_modes, leave_function_mode, push_function_mode,
)
from torchrecorder.capture.internals.engine import (
    AROUND_HOOKS, BUCKET, OPTIMIZERS_IN_BACKWARD, engine_replaced, run_engine,
)
from torchrecorder.capture.modes.function_mode import FunctionMode
from torchrecorder.capture.state.shared_patch import SharedPatch
from torchrecorder.capture.tensors.describe import is_a, is_tensor
from torchrecorder.events import GradNodeMade


class GradientHooks:
    """A context in which the torch functions that gradient hooks call are recorded."""

    def __init__(self, functions: FunctionMode, backward: BackwardRuns, sources: Sources) -> None:
        self.functions = functions
        self.backward = backward
        backward.file = sources.file
        self.sources = sources
        self.tape = backward.tape

    def __enter__(self) -> GradientHooks:
        self.functions.called_by_hook = self.called
        self.tape.has_modes = self.has_modes
        _recorded.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        _recorded.remove(self)
        self.functions.called_by_hook = None
        self.tape.has_modes = lambda: False

    def has_modes(self) -> bool:
        """Whether the engine runs the current node for this recorder: its threads have the modes of
        the thread that started the pass, and may run the passes of several threads in turn."""
        return self.functions in function_modes()

    def begin(self) -> bool:
        """The engine starts: push the function mode, if this thread is recorded and its pass is not
        compiled. Returns whether it was pushed."""
        with self.tape.survives_errors("gradient hooks"):
            running = () if self.tape.is_elsewhere() else self.backward.running
            if running and not running[-1].compiled and self.functions not in function_modes():
                push_function_mode(self.functions)
                return True
        return False

    def enter_inner(self, outputs: Any, *, adds: bool) -> list[RunningPass]:
        """The running pass, in a list, if one of its nodes starts an inner pass that accumulates
        gradients (*adds*); else an empty list."""
        entered: list[RunningPass] = []
        with self.tape.survives_errors("gradient hooks"):
            running = self.backward.running[-1:] if adds else []
            if running and running[0].is_in_node(threading.get_ident()):
                running[0].enter_inner()
                entered = running
                self.tape.pause()
                with DisableTorchFunction():
                    self._hook_leaves(nodes_of(outputs))
                self.tape.resume()
        return entered

    def _hook_leaves(self, roots: list[Any]) -> None:
        """Install hooks on the leaf nodes behind *roots*; all others were created by the running
        node."""
        maker = self.backward.current()
        for node in behind(roots):
            grad = None if is_frozen(node) else self.backward.autograd.grad_of(node)
            if grad is not None and node.name() == ACCUMULATION:
                self.backward.running[-1].add_hooks(grad, node)
            elif grad is not None and maker is not None:
                self.tape.write(GradNodeMade(grad, maker))

    def called(self, frame: FrameType | None) -> bool:
        """Whether a torch function called in *frame* is an op: not if a backward pass calls it.

        Stores the gradients that the hook received.
        """
        here, running = threading.get_ident(), self.backward.running
        is_engine = here != self.tape.thread
        if is_engine and not (running and running[-1].enters(here)):
            return False
        inside: list[FrameType] = []
        while frame is not None and frame.f_code is not _engine.__code__:
            inside.append(frame)
            frame = frame.f_back
        if not running or (frame is None and not is_engine):
            return not self.tape.is_elsewhere()
        if not running[-1].is_alone(here):
            return False
        while inside and inside[-1].f_code.co_filename in AROUND_HOOKS:
            inside.pop()
        if not inside or not self._is_hook(inside[-1]):
            return False
        run, values = running[-1], self.functions.calls.values
        gradients = _gradients(inside[-1], after_node=run.in_node)
        for gradient in gradients or ():
            if values.peek(gradient) is None:
                values.gradients.track(gradient, run.op)
        return gradients is not None

    def _is_hook(self, frame: FrameType) -> bool:
        if frame.f_code.co_name == "__torch_dispatch__":
            return False  # of a mode or tensor subclass, for an operator of the node
        return frame.f_code.co_filename == OPTIMIZERS_IN_BACKWARD or self.sources.is_user(frame)


def _gradients(hook: FrameType, *, after_node: bool) -> list[Tensor] | None:
    """The gradients that the engine passed to a *hook*; None if the frame is no gradient hook.

    Hooks of tensors get one tensor, post-accumulate-grad hooks the parameter, hooks of nodes and
    modules one or two tuples, after the module. Further arguments are the program's. Gradients that
    require grad are left out, because autograd knows their origin. *after_node*, while a node runs
    and directly after it, only functions with two tuples are hooks; others unpack saved tensors.
    """
    names, rest, _, held = inspect.getargvalues(hook)
    given: list[Any] = [held.get(name) for name in names] + [*held.get(rest or "", ())]
    if any(type(item).__name__ == BUCKET for item in given):
        return None  # a communication hook of DistributedDataParallel, part of the pass
    given = [item for item in given if is_a(item, (Tensor, tuple, list))]
    tuples = [*itertools.takewhile(lambda item: not is_tensor(item), given)]
    if after_node and len(tuples) < 2:
        return None
    found = given[:1] if not tuples else itertools.chain(*tuples)
    return [item for item in found if is_tensor(item) and not item.requires_grad]


def _engine(*args: Any, **kwargs: Any) -> Any:
    """``_engine_run_backward``, with the function mode of each recorder of this thread."""
    begun = [item for item in _recorded.users if item.begin()]
    adds = bool(kwargs.get("accumulate_grad"))
    inner = [run for item in _recorded.users for run in item.enter_inner(args[0], adds=adds)]
    try:
        return run_engine(*args, **kwargs)
    finally:
        for run in inner:
            with run.tape.survives_errors("gradient hooks"):
                run.leave_inner()
        for item in begun:
            leave_function_mode(item.functions)


_recorded: SharedPatch[GradientHooks] = SharedPatch(lambda: engine_replaced(_engine))

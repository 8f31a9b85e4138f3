"""Sources: the current line of the user's code, and the regions around it, from stack frames.

Frames are walked from the call outwards. Frames of PyTorch, and of Python's ``copy``, are skipped;
the first other frame is the user's line. The walk stops at the nearest module call, so that its
cost does not depend on the depth of the model.
"""

from __future__ import annotations

import copy
import inspect
import os
import re
import sys
import weakref
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import CodeType, FrameType, TracebackType
from typing import Any, NamedTuple

import torch
from torch.nn import Module

from torchrecorder.capture.hooks.custom_functions import AppliedFunctions
from torchrecorder.capture.hooks.frame_marks import OUTSIDE, FrameMark, mark_of
from torchrecorder.capture.hooks.greenlets import greenlet_around
from torchrecorder.capture.internals.access import (
    CALL_CODE, CHECKPOINT_CODES, INNER_CALL_CODES, PIPELINE_BACKWARD, PIPELINE_SCALING, TRANSFERS,
    WRAPPED_CALL_CODE, ZEROING_METHODS, FakeTensor, FakeTensorMode, apply_codes, compiled_codes,
    pipeline_functions,
)
from torchrecorder.capture.internals.compiled_calls import RanEagerly
from torchrecorder.capture.internals.engine import ENGINE_CODE
from torchrecorder.capture.internals.region_functions import (
    AVERAGING, CLIPPING, DATA_LOADERS, GRADIENT_SCALERS, INPUT_CASTS, SHARDING_NAMES,
)
from torchrecorder.capture.internals.table import CHECKPOINT_CALL, RECEIVED
from torchrecorder.capture.modes.python_functions import CALLERS, runs_hooks, uncounted
from torchrecorder.events import OF_WEIGHTS, ScopeKind, SourceLine, new_tuple

_TORCH = os.path.dirname(torch.__file__) + os.sep
PACKAGE = str(Path(os.path.abspath(__file__)).parents[2]) + os.sep
"""The folder of this package."""

_OPERATOR_FILE = os.path.join(PACKAGE, "capture", "modes", "higher_order.py")
_ENTRY_FILE = os.path.join(PACKAGE, "integrations", "targets.py")
_ENTRY_POINT = "-"
"""Marks the file of torchrecorder that runs scripts for the command line and documentation: a walk
ends there, because the frames outside are not the user's."""

_MODULE = ScopeKind.MODULE
_IN_CALL, _LIBRARY, _INTERNAL, _COMPILED, _OF_MODULE, _CASTS, _GENERATED = (
    object() for _ in range(7)
)
_INIT = "__init__"
_OPERATORS = os.path.join(_TORCH, "_higher_order_ops", "")
_DISTRIBUTED = os.path.join(_TORCH, "distributed", "")
_SHARDING = os.path.join(_DISTRIBUTED, "fsdp", ""), os.path.join(_DISTRIBUTED, "utils.py")
_FORWARDS = "forward", "__call__"
_LIMIT = 200


_SHARDING_PLACES: dict[str, object] = {
    **dict.fromkeys(SHARDING_NAMES, ScopeKind.SHARDING),
    **dict.fromkeys([path.rpartition(".")[2] for path in INPUT_CASTS.paths], _CASTS),
    "clip_grad_norm_": ScopeKind.CLIPPING,
}
"""The places of functions of FSDP, by name: a program may import it after a recording starts."""

_PIPELINE_KINDS = {
    PIPELINE_SCALING: ScopeKind.SCALER,
    **dict.fromkeys(PIPELINE_BACKWARD, ScopeKind.PIPELINE_BACKWARD),
}


def _pytorch_codes() -> dict[CodeType, object]:
    """The code objects of PyTorch that call a module, run a region, or do internal work."""
    from torch.utils import checkpoint

    codes: dict[CodeType, object] = dict.fromkeys((CALL_CODE, WRAPPED_CALL_CODE), _MODULE)
    codes.update(dict.fromkeys(INNER_CALL_CODES, _IN_CALL))
    codes[copy.deepcopy.__code__] = _OF_MODULE
    codes.update(dict.fromkeys(apply_codes(), ScopeKind.CUSTOM_FUNCTION))
    for const in torch.optim.Optimizer.profile_hook_step.__code__.co_consts:
        if isinstance(const, CodeType):  # PyTorch's wrapper of every optimizer step
            codes[const] = ScopeKind.OPTIMIZER
    checkpointed: Any = getattr(checkpoint, CHECKPOINT_CALL, checkpoint.checkpoint)
    pretending: Any = FakeTensorMode.__torch_dispatch__, FakeTensor.__torch_dispatch__
    for functions, place in (
        ((checkpointed,), ScopeKind.CHECKPOINT),
        (CLIPPING.functions(), ScopeKind.CLIPPING),
        (ZEROING_METHODS, ScopeKind.ZEROING),
        (AVERAGING.functions(), ScopeKind.AVERAGING),
        (TRANSFERS, ScopeKind.TRANSFER),
        (GRADIENT_SCALERS.functions(), ScopeKind.SCALER),
        (DATA_LOADERS.functions(), ScopeKind.DATA_LOADER),
        ((*pretending, *RECEIVED.functions()), _INTERNAL),
    ):
        codes.update(dict.fromkeys([inspect.unwrap(item).__code__ for item in functions], place))
    for function in pipeline_functions():
        kind = _PIPELINE_KINDS.get(function.__name__, ScopeKind.PIPELINE_SETUP)
        codes[function.__code__] = kind
    codes.update(dict.fromkeys(CHECKPOINT_CODES, _INTERNAL))
    return codes


class InternalWork(Exception):
    """The current op is internal to PyTorch, and not recorded.

    It computes the shape of a fake tensor, handles the saved state of a checkpoint or a tensor that
    another process has sent, or is in the backward of a higher-order operator, which traces
    functions.
    """


class Region(NamedTuple):
    """A running region, or a direct call of ``forward``."""

    kind: ScopeKind
    key: Any  # identifies it: the frame of PyTorch's function, or an applied custom function
    outside: FrameType | None  # the frame that calls it
    inside: int  # the number of frames of the user inside
    forward: FrameType | None = None  # of a direct call; the key has no reference to it
    module: Module | None = None  # of a direct call


class Sources:
    """Walks stack frames, and caches which files are the user's."""

    def __init__(self, functions: AppliedFunctions) -> None:
        self.functions = functions
        self._places = {id(code): place for code, place in _pytorch_codes().items()}
        self._forwards: set[int] = set()  # ids of the code of ``forward`` and ``__call__``
        self._codes: list[CodeType] = []  # kept alive, so that their ids are not reused
        self._files: dict[str, object] = {}
        self._lines: dict[tuple[int, int], SourceLine] = {}
        self._roots = _import_roots()
        self.eager = RanEagerly()
        self.calls: object = None  # whose marks tell which frames, if no generators, ran before
        self.steps: dict[int, str] = {}  # running compiled steps: class of the optimizer, by frame
        self.expect_compiled()

    def expect_compiled(self) -> None:
        """Add the functions of the compiler that call compiled code, once it is imported."""
        self._places.update((id(code), _COMPILED) for code in compiled_codes())

    def walk(
        self, frame: FrameType | None
    ) -> tuple[SourceLine | None, list[Region], list[FrameType], FrameType | None]:
        """The user's line at *frame* or outside it, the regions around it, and the user's frames.

        The walk ends at a module call, or at the first frame that ran before the recording.

        Returns:
            The line, or None if a module call comes first; regions and frames up to the end of the
            walk, innermost first (no frames if ``forward`` itself calls); the module call's frame.

        Raises:
            InternalWork: A function on the way is internal work of PyTorch.
        """
        line: SourceLine | None = None
        regions: list[Region] = []
        frames: list[FrameType] = []
        end: FrameType | None = None
        casts = False
        places, lines, forwards = self._places, self._lines, self._forwards
        applied, callee, greenlet = self.functions.found, None, None
        for _ in range(_LIMIT):
            if frame is None:
                greenlet, frame = greenlet_around(greenlet)
                if frame is None:
                    break
            if applied and id(frame) in applied:
                function = self.functions.running(frame, callee)
                if function is not None:
                    inside = len(frames)
                    regions.append(Region(ScopeKind.CUSTOM_FUNCTION, function, frame, inside))
            code = frame.f_code
            key = id(code)
            place = places[key] if key in places else self._classify(code)
            if place is _OF_MODULE:
                place = self._of_module(frame)
            if type(place) is str:
                if place is _ENTRY_POINT:
                    break
                frames.append(frame)
                if line is None:
                    line = lines.get((key, frame.f_lasti)) or self._line(place, frame, code)
                mark = frame.f_trace
                if type(mark) is FrameMark and mark.get(self.calls) is OUTSIDE:
                    break
            elif place is _LIBRARY:
                pass
            elif place is _IN_CALL or place is _MODULE:
                if len(frames) == 1:
                    frames.clear()
                end = frame if place is _MODULE else frame.f_back
                break
            elif place is _CASTS:
                casts = True
            elif place is _GENERATED:  # the frames inside run code of the compiler
                line, regions, frames = None, [], []
            elif place is ScopeKind.SHARDING and (casts or _ends_with_function(regions)):
                pass  # inputs and outputs of a module are no weights
            elif type(place) is ScopeKind:
                if place in OF_WEIGHTS:  # of the model, not of each module in it
                    regions = [region for region in regions if region.kind not in OF_WEIGHTS]
                facts = place, frame, frame.f_back, len(frames), None, None
                regions.append(new_tuple(Region, facts))
            elif place is _INTERNAL:
                raise InternalWork
            elif place is _COMPILED and id(frame) in self.steps:
                regions.append(Region(ScopeKind.OPTIMIZER, frame, frame.f_back, len(frames)))
            elif place is _COMPILED:
                self.eager.add(frame)
            callee, frame = frame, frame.f_back
            if key in forwards and frame is not None and id(frame.f_code) not in CALLERS:
                self._add_direct(callee, len(frames), regions)
        return line, regions, frames, end

    def _of_module(self, frame: FrameType) -> object:
        """The kind of region if *frame* creates a module, or copies a module or state dict; else
        the place of its file.
        """
        code, argument = frame.f_code, first_local(frame)
        if code.co_name == _INIT:
            return ScopeKind.CONSTRUCTION if isinstance(argument, Module) else self._place(code)
        inside = frame.f_back is not None and frame.f_back.f_code.co_filename == code.co_filename
        is_state = isinstance(argument, dict) and not inside
        return ScopeKind.TRANSFER if is_state or isinstance(argument, Module) else self._place(code)

    def _add_direct(self, frame: FrameType, inside: int, regions: list[Region]) -> None:
        """Add the direct call whose ``forward``, or overridden ``__call__``, runs in *frame*.

        If a module calls its own functions, only the outermost is added.
        """
        mark = mark_of(frame)
        if mark is not None and self in mark:
            module = mark[self]()
        else:  # only once: ``f_locals`` keeps values alive up to Python 3.12
            module = self._called_in(frame)
            if mark is not None:
                mark[self] = _no_module if module is None else weakref.ref(module)
        if module is None:
            return
        if regions and regions[-1].module is module:
            regions.pop()
        key = frame if mark is None else mark
        regions.append(Region(_MODULE, key, frame.f_back, inside, frame, module))

    def _called_in(self, frame: FrameType) -> Module | None:
        """The module whose ``forward``, or ``__call__`` without hooks, runs in *frame*, or None."""
        module = first_local(frame)
        if not isinstance(module, Module):
            return None
        calls_hooks = frame.f_code.co_name == "__call__" and runs_hooks(type(module))
        return None if calls_hooks else module

    def ignore(self, region: Region) -> None:
        """Ignore this direct call from now on, because the hooks of the module have run."""
        if type(region.key) is FrameMark:
            region.key[self] = _no_module

    def is_in_region(self, frame: FrameType) -> bool:
        """Whether any frame around *frame* runs a region."""
        for outer, _ in walk_stack(frame):
            place = self._places.get(id(outer.f_code)) or self._classify(outer.f_code)
            if place is _OF_MODULE:
                place = self._of_module(outer)
            if place not in (_MODULE, _IN_CALL, _LIBRARY, _GENERATED) and type(place) is not str:
                return True
        return False

    def custom_functions(self, frame: FrameType | None) -> list[Any]:
        """The custom functions that run around *frame*, innermost first; see `class_of`."""
        regions = self.walk(frame)[1]
        return [region.key for region in regions if region.kind is ScopeKind.CUSTOM_FUNCTION]

    def raising_line(self, traceback: TracebackType | None, *, backward: bool) -> SourceLine | None:
        """The innermost line of the user's code in *traceback*, or None.

        Args:
            traceback: That of the user's exception.
            backward: Only consider lines inside a backward pass, not the one that started it.
        """
        found = None
        counts = not backward
        for frame, line in walk_tb(traceback):
            code = frame.f_code
            place = self._place(code)
            if place is _ENTRY_POINT:
                found = None  # frames outside are not the user's
            elif isinstance(place, str) and counts:
                found = SourceLine(place, line, code.co_name)
            counts = counts or code is ENGINE_CODE
        return found

    def is_user(self, frame: FrameType) -> bool:
        """Whether *frame* runs the user's code."""
        return isinstance(self._place(frame.f_code), str)

    def line_of(self, frame: FrameType) -> SourceLine | None:
        """The current line of *frame*, if it runs the user's code; else None."""
        place = self._place(frame.f_code)
        return self._line(place, frame, frame.f_code) if isinstance(place, str) else None

    def _line(self, file: str, frame: FrameType, code: CodeType) -> SourceLine:
        """The current line of *frame*; computed once per instruction."""
        place = id(code), frame.f_lasti
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = SourceLine(file, frame.f_lineno, code.co_name)
        return line

    def _classify(self, code: CodeType) -> object:
        """Determine and cache the place of *code*: a region, a file, or a marker."""
        place = _OF_MODULE if code.co_name == _INIT else self._place(code)
        if code.co_name == "backward" and code.co_filename.startswith(_OPERATORS):
            place = _INTERNAL
        if code.co_filename.startswith(_SHARDING):
            place = _SHARDING_PLACES.get(code.co_name, place)
        if code.co_filename == _OPERATOR_FILE:
            place = _GENERATED
        if code.co_name in _FORWARDS:
            self._forwards.add(id(code))
        self._places[id(code)] = place
        self._codes.append(code)
        return place

    def _place(self, code: CodeType) -> object:
        """The name of the file of *code* if it is the user's; else a marker."""
        file = code.co_filename
        place = self._files.get(file)
        if place is None:
            place = self._files[file] = self._of_file(file)
        return place

    def file(self, filename: str) -> str | None:
        """The name of *filename* in recordings if it is the user's; else None."""
        place = self._of_file(filename)
        return place if isinstance(place, str) else None

    def _of_file(self, filename: str) -> object:
        if filename == _ENTRY_FILE:
            return _ENTRY_POINT
        if filename.startswith((_TORCH, PACKAGE, "<frozen")) or filename == copy.__file__:
            return _LIBRARY
        filename = uncounted(filename)
        if cell := cell_name(filename):
            return cell
        for root in self._roots:  # the folders that files are imported from
            if filename.startswith(root):
                return filename[len(root) :]
        return os.path.basename(filename)


def _ends_with_function(regions: list[Region]) -> bool:
    """Whether the outermost of *regions* is a custom function, as for inputs of FSDP modules."""
    return bool(regions) and regions[-1].kind is ScopeKind.CUSTOM_FUNCTION


def _no_module() -> None:
    """Returns None, as a dead reference; for frames that run no direct call."""


def arguments(frame: FrameType) -> tuple[object, ...]:
    """The positional arguments of the function that runs in *frame*; those in ``*args`` only if it
    has no others, as in a decorator."""
    code, held = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount]
    if not names:
        rest = first_local(frame)
        return rest if type(rest) is tuple else ()
    return tuple(held.get(name) for name in names)


def first_local(frame: FrameType) -> object:
    """The first argument of the function that runs in *frame*, such as ``self``."""
    names = frame.f_code.co_varnames
    return frame.f_locals.get(names[0]) if names else None


def cell_name(filename: str) -> str:
    """The display name (``In [3]``) of the notebook cell with this file name; empty for a file.

    The file name contains a hash or a number; IPython knows the number of the cell.
    """
    if not re.search(r"[/\\]ipykernel_\d+[/\\]|ipython-input-\d+-", filename):
        return ""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    format_name = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)
    known = format_name(filename)
    number = re.search(r"\d+", known[1] if known else filename if filename[0] == "<" else "")
    return f"In [{number[0]}]" if number else "<cell>"


def _import_roots() -> list[str]:
    """The folders of ``sys.path``, the longest first."""
    found = {os.path.dirname(os.__file__), os.getcwd(), *(path for path in sys.path if path)}
    return sorted((os.path.join(path, "") for path in found), key=lambda item: (-len(item), item))

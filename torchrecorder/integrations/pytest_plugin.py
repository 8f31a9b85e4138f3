"""pytest: fixtures that fail when an architecture changes, or exceeds a budget.

Registered with pytest on installation; other tests are not affected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec

import pytest

from torchrecorder.checks import WORD, check_one

if TYPE_CHECKING:
    from torchrecorder.recording import Recording

P = ParamSpec("P")

FOLDER = "__architectures__"
"""The folder of snapshots, beside the test files."""

UPDATE = "--update-architectures"
"""The option that writes snapshots instead of comparing with them."""


_ASSERTED = pytest.StashKey[dict[Path, str]]()
"""The snapshots that tests of this session asserted, and by which test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that accepts changes."""
    group = parser.getgroup("torchrecorder")
    group.addoption(
        UPDATE,
        action="store_true",
        help="save the architectures that tests assert, instead of comparing with saved ones",
    )


@pytest.fixture
def assert_architecture(request: pytest.FixtureRequest) -> AssertArchitecture:
    """A function that fails if a model differs from its saved snapshot.

    Example::

        def test_net(assert_architecture):
            assert_architecture(Net(), torch.zeros(1, 3, 32, 32))
    """
    folder = request.path.parent / FOLDER / request.path.stem
    classes = [request.cls.__qualname__] if request.cls is not None else []
    test = ".".join([*classes, request.node.name])
    asserted = request.config.stash.setdefault(_ASSERTED, {})
    return AssertArchitecture(folder, test, bool(request.config.getoption(UPDATE)), asserted)


@pytest.fixture
def assert_budgets() -> Callable[..., Recording]:
    """A function that fails if a model, or a module in it, exceeds a budget.

    Example::

        def test_size(assert_budgets):
            budgets = {"": {"parameters": 12e6, "flops": 4e9}, "layer*": {"saved_bytes": 1e8}}
            assert_budgets(Net(), torch.zeros(1, 3, 32, 32), budgets=budgets)
    """
    return check_budgets


def _seen_from_outside(function: Callable[P, Recording]) -> Callable[P, Recording]:
    """*function*, with exceptions whose tracebacks have no frames of this package."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> Recording:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except Exception as error:
            frames, kept = [], None
            trace = error.__traceback__
            while trace is not None:
                package = trace.tb_frame.f_globals.get("__name__", "").partition(".")[0]
                if package != "torchrecorder":
                    frames.append(trace)
                trace = trace.tb_next
            for frame in reversed(frames):
                kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
            raise error.with_traceback(kept)

    return called


class AssertArchitecture:
    """Compares models with the snapshots of one test; other tests *asserted* theirs before."""

    def __init__(self, folder: Path, test: str, update: bool, asserted: dict[Path, str]) -> None:
        self.folder, self.test, self.update = folder, test, update
        self.asserted = asserted
        self.taken: set[str] = set()

    @_seen_from_outside
    def __call__(
        self, model: Any, *args: Any, snapshot: str | None = None, **options: Any
    ) -> Recording:
        """Record *model* and compare it with its snapshot.

        Args:
            model: A module, function or method; or a recording.
            *args: Arguments of the model; a single mapping holds keyword arguments.
            snapshot: Name of the snapshot; that of the test if not given.
            **options: See `torchrecorder.record`: ``kwargs``, ``input_shapes``, ``fake`` ...

        Returns:
            The recording.

        Raises:
            AssertionError: It differs, or there is no snapshot yet; or another test has asserted
                this snapshot of another architecture.
        """
        check_one("snapshot", snapshot, WORD.or_none())
        path = self._path(snapshot)
        recording = _recording(model, args, options)
        problem = self._problem(path, recording)
        if problem:
            raise AssertionError(problem)
        return recording

    def __repr__(self) -> str:
        return f"<assert_architecture of {self.test}>"

    def _path(self, snapshot: str | None) -> Path:
        name = re.sub(r"[^\w.\-\[\]]+", "_", snapshot or self.test).strip("._") or "model"
        if name in self.taken:
            raise AssertionError(
                f"the snapshot {name!r} is asserted twice: pass another name as snapshot="
            )
        self.taken.add(name)
        return self.folder / f"{name}.json"

    def _problem(self, path: Path, recording: Recording) -> str:
        """The problem as text; empty if there is none."""
        import torchrecorder

        there = path.is_file()
        found = torchrecorder.compare(torchrecorder.load(path), recording) if there else None
        other = self.asserted.setdefault(path, self.test)
        if found is not None and not found:
            return ""
        if found is not None and other != self.test:
            return (
                f"{other} and {self.test} assert different architectures as {_short(path)}:"
                f"\n{found.text()}\nTo tell them apart, pass each a name of its own as snapshot=."
            )
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            torchrecorder.save(portable(recording), path, times=False)
            return ""
        problem = (
            f"there is no snapshot {_short(path)} of this architecture yet." if found is None
            else f"the architecture is not that of {_short(path)}:\n{found.text()}"
        )
        return f"{problem}\nTo accept it, run pytest with {UPDATE}."


@_seen_from_outside
def check_budgets(
    model: Any, *args: Any, budgets: Mapping[str, Mapping[str, float]], **options: Any
) -> Recording:
    """Record *model* and check *budgets*.

    Args:
        model: A module, function or method; or a recording.
        *args: Arguments of the model; a single mapping holds keyword arguments.
        budgets: By dotted path or pattern such as ``"layer*"``, and by name of an annotation:
            the upper limit. The empty path is the whole run.
        **options: See `torchrecorder.record`.

    Returns:
        The recording.

    Raises:
        AssertionError: A budget is exceeded; the message lists all that are.
        InvalidArgument: No module has this path, or the annotation cannot be measured.
        UnknownAnnotation: No annotation has this name.
    """
    from torchrecorder.annotations import by_name, flags_for
    from torchrecorder.annotations.limits import BUDGETS, exceeded

    check_one("budgets", budgets, BUDGETS)
    wanted = [by_name(name) for limits in budgets.values() for name in limits]
    measured = dict.fromkeys(flags_for(wanted), True)
    recording = _recording(model, args, {**measured, **options})
    problems = exceeded(recording, budgets)
    if problems:
        raise AssertionError("over budget:\n  " + "\n  ".join(problems))
    return recording


def portable(recording: Recording) -> Recording:
    """*recording* without what depends on the machine, the files or the versions."""
    run = replace(recording.run, torch_version="", notes=(), lost=0)
    scopes = {key: scope.replace(source=None) for key, scope in recording.scopes.items()}
    ops = {key: op.replace(source=None) for key, op in recording.ops.items()}
    return replace(
        recording,
        run=run,
        scopes=scopes,
        ops=ops,
        measured={},
        statistics=(),
        function_calls={},
        compiled_graphs=(),
        graph_breaks=(),
        fused_kernels=(),
        grad_switches=(),
    )


def _recording(model: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Recording:
    """*model* if it is a recording; otherwise the recording of one run."""
    import torchrecorder

    if isinstance(model, torchrecorder.Recording):
        return model
    if len(args) == 1 and isinstance(args[0], Mapping):
        return torchrecorder.record(model, args[0], **options)
    return torchrecorder.record(model, args or None, **options)


def _short(path: Path) -> str:
    return "/".join(path.parts[-3:])

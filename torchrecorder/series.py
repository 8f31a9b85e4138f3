"""Series: how gradients and activations of chosen scopes change over a training loop."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from torchrecorder.annotations.amounts import exact
from torchrecorder.annotations.parameter_owners import own
from torchrecorder.annotations.places import scope_name
from torchrecorder.annotations.statistics import gradients, number, root_of_squares, share, values
from torchrecorder.checks import CALLABLE, TEXTS, one_of, path_of, takes, whole_number
from torchrecorder.console import encodable
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import GradEdge, GradId, Statistics
from torchrecorder.export.line_chart import Chart, chart
from torchrecorder.export.table.alignment import Column, table
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import check_recording
from torchrecorder.recording import Recording

NUMBERS = {
    "gradient_norm": ("Gradient norm", True, number),
    "parameter_gradient_norm": ("Weight gradient norm", True, number),
    "activation_std": ("Activation std", True, number),
    "activation_mean": ("Activation mean", False, number),
    "zeros": ("Share of zeros", False, share),
    "not_finite": ("NaN and Inf", False, exact),
}
"""What is followed: title, whether it goes by orders of magnitude, how it is shown."""

WHAT = one_of(*NUMBERS)

VANISHING, EXPLODING, DEAD = 1e-3, 1e3, 0.95
"""Gradients below and above these shares of the largest or smallest; zeros above this one."""


class Point(NamedTuple):
    """One scope in one step; None where the step had no such number."""

    step: int
    scope: str
    gradient_norm: float | None
    parameter_gradient_norm: float | None
    activation_mean: float | None
    activation_std: float | None
    zeros: float | None
    not_finite: float | None


class Series:
    """Records every n-th step of a training loop.

    Args:
        model: The model that is trained.
        every: Record one step of so many.
        scopes: Dotted paths with ``*``; the innermost modules if not given.

    Example:
        >>> import torch, torchrecorder
        >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> series = torchrecorder.Series(model, every=10)
        >>> for _ in range(21):
        ...     with series.step():
        ...         model(torch.ones(2, 4)).sum().backward()
        >>> sorted({point.step for point in series.points})
        [0, 10, 20]
    """

    @takes(every=whole_number(1), model=CALLABLE, scopes=TEXTS.or_none())
    def __init__(
        self, model: Any, *, every: int = 10, scopes: str | Sequence[str] | None = None
    ) -> None:
        self.points: list[Point] = []
        self.every = every
        self._model = model
        self._scopes = (scopes,) if isinstance(scopes, str) else scopes
        self._steps = 0

    def __repr__(self) -> str:
        steps, scopes = len({point.step for point in self.points}), len(self.scopes)
        return f"<Series: {steps} recorded steps of {scopes} scopes>"

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """One step of the loop: forward, loss and backward go into this block."""
        number_, self._steps = self._steps, self._steps + 1
        if number_ % self.every:
            yield
            return
        from torchrecorder.capture.recorder import Recorder

        stats = True if self._scopes is None else tuple(self._scopes)
        with Recorder(self._model, stats=stats, saved=False) as recorder:
            yield
        self.add(recorder.recording, number_)

    @takes(step=whole_number(0))
    def add(self, recording: Recording, step: int) -> None:
        """Add one recorded step.

        Raises:
            InvalidArgument: The recording has no statistics.
        """
        check_recording(recording)
        if not recording.statistics and recording.values:
            raise InvalidArgument(
                f"the recording of {recording.name} has no statistics to add: "
                "record(..., stats=True) takes them"
            )
        self.points.extend(points(recording, step, self._scopes))

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that are followed, in the order in which they run."""
        return tuple(dict.fromkeys(point.scope for point in self.points))

    @takes(what=WHAT)
    def lines(self, what: str = "gradient_norm") -> dict[str, list[tuple[int, float]]]:
        """For each scope, one number by step.

        Raises:
            InvalidArgument: There is no such number; the message lists them.
        """
        found: dict[str, list[tuple[int, float]]] = {}
        for point in self.points:
            amount = getattr(point, what)
            if amount is not None:
                found.setdefault(point.scope, []).append((point.step, amount))
        return found

    def table(self) -> list[dict[str, Any]]:
        """Every point as a dict, ready for ``pandas.DataFrame``."""
        return [point._asdict() for point in self.points]

    @takes(what=WHAT, columns=whole_number(1))
    def text(self, what: str = "gradient_norm", columns: int = 6) -> str:
        """One number as a table for the terminal: a line per scope, a column per step."""
        lines = self.lines(what)
        title, _, show = NUMBERS[what]
        steps = sorted({step for line in lines.values() for step, _ in line})
        shown = _spread(steps, columns)
        cells = [Column(title, list(lines))]
        for step in shown:
            found = [dict(line).get(step) for line in lines.values()]
            said = ["" if each is None else show(each) for each in found]
            cells.append(Column(str(step), said, right=True))
        return encodable("\n".join([*table(cells), *self.remarks()]))

    @takes(what=WHAT)
    def plot(self, path: str | Path, what: str = "gradient_norm") -> Path:
        """Write a small plot of one number over the steps, as SVG.

        Raises:
            InvalidArgument: There is no such number, or *path* is not an SVG file.
        """
        target = path_of(path)
        if target.suffix.lower() != ".svg":
            raise InvalidArgument(f"a plot is written as .svg, not as {target.name!r}")
        title, logarithmic, show = NUMBERS[what]
        drawn = Chart(title, "step", self.lines(what), logarithmic, show)
        target.write_text(chart(drawn), encoding="utf-8")
        return target

    def remarks(self) -> Iterator[str]:
        """What stands out in the last step: vanishing, exploding, dead, not finite."""
        last = [point for point in self.points if point.step == self.points[-1].step]
        norms = {p.scope: p.gradient_norm for p in last if p.gradient_norm is not None}
        largest = max(filter(math.isfinite, norms.values()), default=0.0)
        zeros = {p.scope: p.zeros for p in last if p.zeros is not None}
        yield from _remark(
            f"vanishing: gradients below {VANISHING:g} of the largest, {largest:.2g}",
            {scope: f"{norm:.2g}" for scope, norm in norms.items() if norm < VANISHING * largest},
        )
        yield from _remark(
            f"exploding: gradients above {EXPLODING:g}",
            {scope: f"{norm:.2g}" for scope, norm in norms.items() if norm > EXPLODING},
        )
        yield from _remark(
            f"dead: at least {share(DEAD)} zeros",
            {scope: share(zero) for scope, zero in zeros.items() if zero >= DEAD},
        )
        yield from _remark(
            "not finite", {p.scope: f"{p.not_finite:.0f} numbers" for p in last if p.not_finite}
        )

    def _repr_html_(self) -> str:
        """The plot, in a notebook."""
        title, logarithmic, show = NUMBERS["gradient_norm"]
        return chart(Chart(title, "step", self.lines(), logarithmic, show))


def points(
    recording: Recording, step: int, scopes: Sequence[str] | None = None
) -> Iterator[Point]:
    """What a recording with statistics says of its scopes, or of those in *scopes*."""
    made = {each.node: each for each in values(recording)}
    flowed = {GradEdge(GradId(each.node), each.index): each for each in gradients(recording)}
    added = {
        leaf: flowed[GradEdge(grad.id, 0)]
        for grad in recording.grad_nodes.values()
        if (leaf := grad.variable) is not None and GradEdge(grad.id, 0) in flowed
    }
    for scope in recording.scopes.values():
        if _follows(recording, scope, scopes):
            outputs = [recording.values[slot.value] for slot in scope.outputs]
            module = recording.module_of(scope)
            weights = own(module) if module is not None else ()
            yield _point(
                step,
                scope_name(recording, scope.id),
                [made[value.id] for value in outputs if value.id in made],
                [flowed[value.grad] for value in outputs if value.grad in flowed],
                [added[weight] for weight in weights if weight in added],
            )


def _follows(recording: Recording, scope: Scope, scopes: Sequence[str] | None) -> bool:
    if scope.recompute or scope.module is None:
        return False
    if scopes is None:
        inner = (each for each in recording.children[scope.id] if isinstance(each, Scope))
        return not any(each.module is not None for each in inner)
    return any(fnmatchcase(scope_name(recording, scope.id), pattern) for pattern in scopes)


def _point(
    step: int,
    scope: str,
    made: Sequence[Statistics],
    flowed: Sequence[Statistics],
    added: Sequence[Statistics],
) -> Point:
    first = made[0] if made else None
    every = [*made, *flowed, *added]
    return Point(
        step,
        scope,
        root_of_squares(each.norm for each in flowed) if flowed else None,
        root_of_squares(each.norm for each in added) if added else None,
        first.mean if first is not None else None,
        first.std if first is not None else None,
        first.zeros / first.count if first is not None and first.count else None,
        sum(each.nans + each.infs for each in every) if every else None,
    )


def _remark(what: str, found: Mapping[str, str]) -> Iterator[str]:
    """One line about the scopes that were found, at most six of them by name."""
    if found:
        named = [f"{scope} ({said})" for scope, said in found.items()]
        more = f" and {len(named) - 6} more" if len(named) > 6 else ""
        yield f"{what}: {', '.join(named[:6])}{more}"


def _spread(steps: Sequence[int], columns: int) -> list[int]:
    """At most so many steps, the first and the last among them."""
    if len(steps) <= columns:
        return list(steps)
    last = len(steps) - 1
    places = [round(place * last / (columns - 1)) for place in range(columns - 1)] + [last]
    return [steps[place] for place in dict.fromkeys(places)]

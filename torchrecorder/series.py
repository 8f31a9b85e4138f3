"""Series: gradients, weights and activations of chosen scopes over a training loop."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from torchrecorder.annotations.amounts import exact
from torchrecorder.annotations.parameter_owners import own
from torchrecorder.annotations.places import scope_name
from torchrecorder.annotations.statistics import (
    added_gradients, gradients, number, root_of_squares, share, unknown_gradients, values,
)
from torchrecorder.checks import CALLABLE, FLAG, TEXTS, one_of, plural, takes, whole_number
from torchrecorder.console import encodable
from torchrecorder.errors import InvalidArgument, RecorderInUse
from torchrecorder.events import GradEdge, GradId, Statistics, ValueId
from torchrecorder.export.chart_files import write_chart, write_page
from torchrecorder.export.line_chart import LineChart
from torchrecorder.export.table.alignment import Column, table
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Scope
from torchrecorder.graph.recording import check_recording
from torchrecorder.recording import Recording

if TYPE_CHECKING:
    from torchrecorder.capture.probes.weights import Histogram, Weight

NUMBERS = {
    "gradient_norm": ("Gradient norm", True, number),
    "parameter_gradient_norm": ("Weight gradient norm, of the last pass", True, number),
    "clipped_gradient_norm": ("Weight gradient norm, for the optimizer", True, number),
    "weight_norm": ("Weight norm", True, number),
    "update_ratio": ("Update, relative to the weight", True, number),
    "activation_std": ("Activation std", True, number),
    "activation_mean": ("Activation mean", False, number),
    "zeros": ("Share of zeros", False, share),
    "not_finite": ("NaN and Inf", False, exact),
}
"""The numbers of a series: title, whether the scale is logarithmic, how a number is formatted."""

WHAT = one_of(*NUMBERS)

VANISHING, EXPLODING, DEAD = 1e-3, 1e3, 0.95
"""Limits of remarks: gradients relative to the largest one, gradients, share of zeros."""


class Point(NamedTuple):
    """The numbers of one scope in one step, over all of its calls; None if there is no number.

    Attributes:
        gradient_norm: Norm of the gradient of the scope's output.
        parameter_gradient_norm: Norm of the gradients that the last backward pass computes for its
            weights, without those accumulated before: not yet clipped, or unscaled by a gradient
            scaler.
        clipped_gradient_norm: Norm of the gradients of its weights that the optimizer uses:
            accumulated, unscaled and clipped. Without an optimizer step in the block, of the
            gradients at the end of the block.
        weight_norm: Norm of its weights before the optimizer's step.
        update_ratio: Norm of the change of its weights by the optimizer, divided by their norm.
    """

    step: int
    scope: str
    gradient_norm: float | None
    parameter_gradient_norm: float | None
    activation_mean: float | None
    activation_std: float | None
    zeros: float | None
    not_finite: float | None
    clipped_gradient_norm: float | None = None
    weight_norm: float | None = None
    update_ratio: float | None = None


class Bars(NamedTuple):
    """A histogram of one tensor in one step.

    Attributes:
        name: Dotted name of the parameter.
        what: ``"weights"`` or ``"gradients"`` (those that the optimizer uses).
        bars: Its edges and counts.
    """

    step: int
    name: str
    what: str
    bars: Histogram


class Series:
    """Records every n-th step of a training loop.

    Args:
        model: The model that is trained.
        every: Record every n-th step.
        scopes: Dotted paths, which may contain ``*``; by default the innermost modules.
        histograms: Also compute histograms of weights and gradients.

    Attributes:
        points: One `Point` per scope and recorded step.
        histograms: One `Bars` per parameter and recorded step, if *histograms* is true.

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

    @takes(every=whole_number(1), model=CALLABLE, scopes=TEXTS.or_none(), histograms=FLAG)
    def __init__(
        self,
        model: Any,
        *,
        every: int = 10,
        scopes: str | Sequence[str] | None = None,
        histograms: bool = False,
    ) -> None:
        self.points: list[Point] = []
        self.histograms: list[Bars] = []
        self._with_histograms = histograms
        self.every = every
        self._model = model
        self._scopes = (scopes,) if isinstance(scopes, str) else scopes
        self._steps = 0
        self._in_step = self._has_recorded = False

    def __repr__(self) -> str:
        steps, scopes = len({point.step for point in self.points}), len(self.scopes)
        return f"<Series: {plural(steps, 'recorded step')} of {plural(scopes, 'scope')}>"

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """A context for one step of the loop: forward, loss, backward, clipping and optimizer.

        Without an optimizer step in the block, there are no update ratios.

        Raises:
            RecorderInUse: The block of another step of this series has not ended.
        """
        if self._in_step:
            raise RecorderInUse(
                "a step of this series is still running: series.step() cannot be nested; end its "
                "block, or use another Series"
            )
        self._in_step = True
        try:
            with self._recorded():
                yield
        finally:
            self._in_step = False

    @contextlib.contextmanager
    def _recorded(self) -> Iterator[None]:
        """One step, recorded if it is the n-th."""
        number_, self._steps = self._steps, self._steps + 1
        if number_ % self.every:
            yield
            return
        from torchrecorder.capture.probes.weights import WeightProbe
        from torchrecorder.capture.recorder import Recorder
        from torchrecorder.capture.scope import SeriesScopes

        stats = True if self._scopes is None else SeriesScopes(self._scopes)
        followed = WeightProbe(self._model, histograms=self._with_histograms)
        with followed, Recorder(self._model, stats=stats, saved=False) as recorder:
            yield
        self._add(recorder.recording, number_, followed.weights)

    @takes(step=whole_number(0))
    def add(self, recording: Recording, step: int) -> None:
        """Add one recorded step.

        Raises:
            InvalidArgument: The recording has no statistics.
        """
        check_recording(recording)
        if not recording.statistics and recording.values:
            raise InvalidArgument(
                f"the recording of {recording.name} has no statistics: "
                "record(..., stats=True) measures them"
            )
        self._add(recording, step, {})

    def _add(self, recording: Recording, step: int, weights: Mapping[str, Weight]) -> None:
        self._has_recorded = True
        self.points.extend(points(recording, step, self._scopes, weights))
        known = recording.call_paths.known
        for name, weight in weights.items():
            if self._scopes is None or _fits(known((name.rpartition(".")[0],)), self._scopes):
                for what, bars in weight.histograms.items():
                    self.histograms.append(Bars(step, name, what, bars))

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of this series, in run order."""
        return tuple(dict.fromkeys(point.scope for point in self.points))

    @takes(what=WHAT)
    def lines(self, what: str = "gradient_norm") -> dict[str, list[tuple[int, float]]]:
        """For each scope, one number per step.

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
        """One number as a text table: a line per scope, a column per step."""
        lines = self.lines(what)
        title, _, show = NUMBERS[what]
        steps = sorted({step for line in lines.values() for step, _ in line})
        shown = _spread(steps, columns)
        cells = [Column(title, list(lines))]
        for step in shown:
            found = [dict(line).get(step) for line in lines.values()]
            texts = ["" if item is None else show(item) for item in found]
            cells.append(Column(str(step), texts, right=True))
        return encodable("\n".join([*table(cells), *self.remarks()]))

    @takes(what=WHAT)
    def plot(self, path: str | Path, what: str = "gradient_norm") -> Path:
        """Write a plot of one number over the steps, as SVG, PDF, PNG or HTML.

        Raises:
            InvalidArgument: There is no such number.
            UnknownFormat: The suffix is another one.
        """
        return write_chart(self._chart(what), path)

    def page(self, path: str | Path) -> Path:
        """Write a page with plots of all numbers, and `remarks`.

        Raises:
            UnknownFormat: The suffix is not ``.html``.
        """
        plots = [self._chart(what) for what in NUMBERS if self.lines(what)]
        return write_page("Training", plots, [*self.remarks()], path)

    def _chart(self, what: str) -> str:
        title, logarithmic, show = NUMBERS[what]
        notable = {scope for _, scopes in self._problems() for scope in scopes}
        return LineChart(title, "step", self.lines(what), logarithmic, show, notable).svg()

    def remarks(self) -> Iterator[str]:
        """Problems in the last step, such as dead units or NaN; or why there are no numbers."""
        if not self.points and self._has_recorded:
            of = "has numbers" if self._scopes is None else f"matches scopes={self._scopes!r}"
            yield f"no module that ran {of}"
        elif not self.points:
            yield "no step was recorded: put the body of the loop in `with series.step():`"
        for what, scopes in self._problems():
            yield from _remark(what, scopes)

    def _problems(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Each kind of problem, with the scopes that have it in the last step and their numbers."""
        last = [point for point in self.points if point.step == self.points[-1].step]
        norms = {p.scope: p.gradient_norm for p in last if p.gradient_norm is not None}
        largest = max(filter(math.isfinite, norms.values()), default=0.0)
        zeros = {p.scope: p.zeros for p in last if p.zeros is not None}
        yield (
            f"vanishing: gradients below {VANISHING:g} of the largest, {largest:.2g}",
            {scope: f"{norm:.2g}" for scope, norm in norms.items() if norm < VANISHING * largest},
        )
        yield (
            f"exploding: gradients above {EXPLODING:g}",
            {scope: f"{norm:.2g}" for scope, norm in norms.items() if norm > EXPLODING},
        )
        yield (
            f"dead: at least {share(DEAD)} zeros",
            {scope: share(zero) for scope, zero in zeros.items() if zero >= DEAD},
        )
        yield "not finite", {p.scope: f"{p.not_finite:.0f} numbers" for p in last if p.not_finite}

    def _repr_html_(self) -> str:
        """The plot, in a notebook."""
        return self._chart("gradient_norm")


def points(
    recording: Recording,
    step: int,
    scopes: Sequence[str] | None = None,
    followed: Mapping[str, Weight] = MappingProxyType({}),
) -> Iterator[Point]:
    """The numbers of a recording with statistics for its scopes, or for those in *scopes*."""
    made = {value.node: value for value in values(recording)}
    flowed = {
        GradEdge(GradId(gradient.node), gradient.index): gradient
        for gradient in gradients(recording)
    }
    added, unknown = added_gradients(recording), unknown_gradients(recording)
    calls = grouped(
        (scope_name(recording, scope.id), scope) for scope in recording.scopes.values()
        if _follows(recording, scope, scopes)
    )
    for name, found in calls.items():
        outputs = {value: recording.values[value] for call in found for _, value in call.outputs}
        modules = filter(None, map(recording.module_of, found))
        weights = dict.fromkeys(weight for module in modules for weight in own(module))
        firsts = (next((made[v] for _, v in call.outputs if v in made), None) for call in found)
        given = [flowed[value.grad] for value in outputs.values() if value.grad in flowed]
        taken = [added[weight] for weight in weights if weight in added]
        every = [*(made[value] for value in outputs if value in made), *given, *taken]
        yield Point(
            step,
            name,
            _together(item.norm for item in given),
            _together(item.norm for item in taken) if unknown.isdisjoint(weights) else None,
            *_of_activations([*filter(None, firsts)]),
            sum(item.nans + item.infs for item in every) if every else None,
            *_of_weights(recording, weights, followed),
        )


def _of_activations(
    results: Sequence[Statistics],
) -> tuple[float | None, float | None, float | None]:
    """Mean, standard deviation and share of zeros of the results of all calls of a scope."""
    if not results:
        return None, None, None
    elements = sum(item.count for item in results)
    finite = [(item.count - item.nans - item.infs, item) for item in results]
    total = sum(count for count, _ in finite)
    zeros = sum(item.zeros for item in results) / elements if elements else None
    if not total:
        return results[0].mean, results[0].std, zeros
    mean = sum(count * item.mean for count, item in finite if count) / total
    squares = (count * (item.std**2 + (item.mean - mean) ** 2) for count, item in finite if count)
    return mean, math.sqrt(sum(squares) / total), zeros


def _of_weights(
    recording: Recording, weights: Iterable[ValueId], followed: Mapping[str, Weight]
) -> tuple[float | None, float | None, float | None]:
    """Three numbers of the weights of a scope: the norm of the gradients that the optimizer used,
    the norm of the weights, and the ratio of update to weights."""
    names = [name for weight in weights for name in recording.values[weight].names]
    found = [followed[name] for name in names if name in followed]  # by one of its names
    norm = _together(item.norm for item in found)
    update = _together(item.update for item in found)
    ratio = update / norm if update is not None and norm else None
    return _together(item.gradient for item in found), norm, ratio


def _together(norms: Iterable[float | None]) -> float | None:
    """The joint norm of several tensors; None if none has a norm."""
    found = [norm for norm in norms if norm is not None]
    return root_of_squares(found) if found else None


def _follows(recording: Recording, scope: Scope, scopes: Sequence[str] | None) -> bool:
    if scope.recompute or scope.module is None:
        return False
    if scopes is None:
        inner = (child for child in recording.children[scope.id] if isinstance(child, Scope))
        return not any(item.module is not None for item in inner)
    name = scope_name(recording, scope.id)
    return _fits(recording.call_paths[scope.id] if scope.path else (name,), scopes)


def _fits(paths: Sequence[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for path in paths for pattern in patterns)


def _remark(what: str, texts: Mapping[str, str]) -> Iterator[str]:
    """One line about the scopes in *texts*, which names at most six of them."""
    if texts:
        named = [f"{scope} ({text})" for scope, text in texts.items()]
        more = f" and {len(named) - 6} more" if len(named) > 6 else ""
        yield f"{what}: {', '.join(named[:6])}{more}"


def _spread(steps: Sequence[int], columns: int) -> list[int]:
    """At most *columns* steps, with the first and the last."""
    if len(steps) <= columns:
        return list(steps)
    last = len(steps) - 1
    places = [round(place * last / (columns - 1)) for place in range(columns - 1)] + [last]
    return [steps[place] for place in dict.fromkeys(places)]

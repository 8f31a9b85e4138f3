"""Statistics of tensors and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from torchrecorder.annotations.amounts import exact
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.annotations.parameter_owners import before_writes, leaf_gradients
from torchrecorder.events import GradEdge, GradId, Role, Statistics, ValueId
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import recomputed, returned_unchanged


def number(amount: float) -> str:
    """*amount* with three digits, ``0.0123``, ``1.2e-09``; large numbers with all digits."""
    return f"{amount:,.0f}" if 999.5 <= abs(amount) < 1e6 else f"{amount:.3g}"


def share(part: float) -> str:
    """``12 %``."""
    return f"{100 * part:.3g} %"


def root_of_squares(norms: Iterable[float]) -> float:
    """The joint norm of several tensors, from their norms."""
    return math.sqrt(sum(item * item for item in norms))


def values(recording: RecordedRun) -> Iterable[Statistics]:
    """Statistics of values, without gradients in the backward pass.

    What a module returned unchanged has those of the tensor that it was given.
    """
    found = {one.node: one for one in recording.statistics if one.run < 0}
    for value, given in returned_unchanged(recording) if found else ():
        if given in found:
            found[value] = found[given]._replace(node=value)
    return found.values()


def activations(recording: RecordedRun) -> Iterator[Statistics]:
    """Statistics of the values computed in forward, without updated parameters and buffers."""
    made = recording.values
    return (
        one for one in values(recording)
        if one.node not in recording.stored and made[ValueId(one.node)].producer is not None
    )


def gradients(recording: RecordedRun) -> Iterator[Statistics]:
    """Statistics of gradients, each with the grad node that received it."""
    return (statistic for statistic in recording.statistics if statistic.run >= 0)


def _activation(
    name: str,
    title: str,
    take: Callable[[Statistics], float],
    show: Callable[[float], str] = number,
) -> Annotation:
    """An annotation for a statistic of the finite elements of each value that has some."""

    def compute(recording: RecordedRun) -> dict[str, float]:
        return {one.node: take(one) for one in activations(recording) if _bad(one) < one.count}

    return Annotation(name, title, "", compute, None, show, needs=("stats",))


def _bad(each: Statistics) -> float:
    return each.nans + each.infs


def bad_numbers(recording: RecordedRun) -> dict[str, float]:
    """The number of NaNs and infinities in each value and gradient."""
    found: dict[str, float] = {}
    for statistic in recording.statistics:
        found[statistic.node] = found.get(statistic.node, 0) + _bad(statistic)
    return found


def activation_norms(recording: RecordedRun) -> dict[str, float]:
    """The norm of each result of an op."""
    return {one.node: one.norm for one in activations(recording)}


def added_gradients(recording: RecordedRun) -> dict[ValueId, Statistics]:
    """For each leaf, statistics of the gradient that the last pass accumulated, if only once."""
    found: dict[ValueId, Statistics] = {}
    if not recording.statistics:
        return found
    first, seen = before_writes(recording), set[tuple[str, int]]()
    again = recomputed(recording)
    for gradient in gradients(recording):
        leaf = recording.grad_nodes[GradId(gradient.node)].variable
        if leaf is None or recording.values[leaf].producer in again:
            continue
        found[first.get(leaf, leaf)] = gradient
        if (gradient.node, gradient.run) in seen:
            del found[first.get(leaf, leaf)]
        seen.add((gradient.node, gradient.run))
    return found


def parameter_gradient_norms(recording: RecordedRun) -> dict[str, float]:
    """The norms of `added_gradients`, of weights only."""
    added = added_gradients(recording).items()
    return {leaf: gradient.norm for leaf, gradient in added if _is_weight(recording, leaf)}


def unknown_gradients(recording: RecordedRun) -> frozenset[ValueId]:
    """Weights with a gradient that is not in `added_gradients`: added twice, or not measured."""
    if not recording.statistics:
        return frozenset()
    added, again = added_gradients(recording), recomputed(recording)
    return frozenset(
        leaf for leaf, gradient in leaf_gradients(recording).items()
        if leaf not in added and gradient.bytes and _is_weight(recording, leaf)
        and recording.values[leaf].producer not in again
    )


def _is_weight(recording: RecordedRun, leaf: ValueId) -> bool:
    return recording.values[leaf].role is Role.PARAMETER


def gradient_norms(recording: RecordedRun) -> dict[str, float]:
    """For each result of an op, the norm of its gradient in the last backward pass.

    A module that returns its input unchanged has a result with the gradient of the input.
    """
    last = {GradEdge(GradId(one.node), one.index): one.norm for one in gradients(recording)}
    return {
        value.id: last[value.grad]
        for value in (recording.values.values() if last else ())
        if value.producer is not None and value.grad in last
    }


NOT_FINITE = Annotation(
    "not_finite", "NaN, Inf", "", bad_numbers, sum, exact, needs=("stats", "backward"), passes=True
)
"""Count of NaNs and infinities, in values and gradients."""

STATISTICS = (
    _activation("activation_mean", "Mean", lambda item: item.mean),
    _activation("activation_std", "Std", lambda item: item.std),
    _activation("activation_min", "Min", lambda item: item.low),
    _activation("activation_max", "Max", lambda item: item.high),
    # of outputs of ops; NaN or infinite if they contain such a number
    Annotation("activation_norm", "Norm", "", activation_norms, None, number, needs=("stats",)),
    # the share of zeros in outputs of ops
    _activation("zeros", "Zeros", lambda item: item.zeros / (item.count or 1), share),
    NOT_FINITE,
    # of the gradient of an op's output
    Annotation(
        "gradient_norm", "Grad norm", "", gradient_norms, None, number, logarithmic=True,
        needs=("stats", "backward"),
    ),
    # of the gradients of parameters; for several parameters, the joint norm of all of them
    Annotation(
        "parameter_gradient_norm", "Weight grad norm", "", parameter_gradient_norms,
        root_of_squares, number, logarithmic=True, needs=("stats", "backward"),
        unknown=unknown_gradients,
    ),
)
"""Statistics of outputs, and norms of gradients."""

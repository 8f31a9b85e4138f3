"""Pipeline: the options of a view, and the steps that make the view."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar, Union

from torchrecorder.checks import (
    FLAG, MAPPING, PATTERN, PLACE, TEXTS, number_or, one_of, pair, whole_number, words,
)
from torchrecorder.errors import InvalidArgument
from torchrecorder.events import OpId
from torchrecorder.graph.gc_pause import without_gc
from torchrecorder.graph.recording import RecordedRun, check_recording
from torchrecorder.option_table import Checked, documented, option
from torchrecorder.select.compiled import without_wrappers
from torchrecorder.select.focus import Focus
from torchrecorder.select.functions import MAX_DIRECT_OPS, WithFunctions
from torchrecorder.select.group import GroupSiblings, patterns
from torchrecorder.views.auto_depth import (
    DEFAULT_MAX_BOXES, DepthChoice, choose, max_depth, plain_modules,
)
from torchrecorder.views.backward import backward_view
from torchrecorder.views.collapse import Collapse, members
from torchrecorder.views.expand_ops import open_ops
from torchrecorder.views.fold.blocks import loose_unit, repeated, unit_of
from torchrecorder.views.fold.fold import Fold, repeats
from torchrecorder.views.fold.micro_batches import micro_batches
from torchrecorder.views.full_view import full_view
from torchrecorder.views.hide import HideNamed, HideOps, HideStored, NamedScopes, hide_identities
from torchrecorder.views.inputs import group_inputs, group_samples
from torchrecorder.views.outputs import HideReadOutputs, group_outputs, joined_outputs
from torchrecorder.views.quiet_ops import (
    comparisons, copies, hook_registrations, idle_loads, idle_transfers, is_identity, is_reshape,
    made_for_conditions, returns_no_tensor,
)
from torchrecorder.views.tensors import show_tensors
from torchrecorder.views.training import drawn_backwards
from torchrecorder.views.unread_arguments import hide_unread_arguments, overwritten
from torchrecorder.views.view import BoxKind, Step, Unfolded, View

StateT = TypeVar("StateT")

COUNTED_KINDS = (BoxKind.MODULE, BoxKind.REGION, BoxKind.OP, BoxKind.HIDDEN)
"""The kinds of boxes that *max_boxes* counts."""

REFOLD_FACTOR = 1.5
"""With more than this multiple of *max_boxes*, or of the boxes that were expected if these are
more, the default depth is chosen again, as if nothing folded."""
OPS: Literal["ops"] = "ops"
"""The depth that shows all operations."""

FOLDS: tuple[str | bool, ...] = (True, False, "similar")
"""The valid values of ``fold``."""

GROUPS = replace(
    MAPPING,
    several=True,
    read=lambda text: {name: words(members) for name, members in pair(text).items()},
)


@documented
@dataclass(frozen=True)
class ViewOptions(Checked):
    """The options of a view."""

    depth: Union[int, Literal["ops"], None] = option(
        "How many levels of modules are open. 0 draws one box per outermost call, 1 its children, "
        "and so on. Modules that run a single op (a convolution, an activation) and "
        "``nn.MultiheadAttention`` stay boxes until the last level, which shows every op in its "
        "module. ``\"ops\"`` shows every op of all levels, and no frame around a single one. "
        "None opens as many levels as *max_boxes* allows: all ops of a small network, the blocks "
        "of a ResNet; fewer if the figure would not *fit* its place. Batches of data loaders, "
        "optimizer steps, ``zero_grad``, gradient clipping, averaging, gradient scalers and calls "
        "that create, move, copy or load a model are then one box each.",
        number_or(whole_number(0), OPS).or_none(),
        default=None,
        flag="-d",
        placeholder="LEVELS",
    )
    max_boxes: int = option(
        "Without a depth, open as many levels as give at most this number of boxes.",
        whole_number(1),
        default=DEFAULT_MAX_BOXES,
        placeholder="NUMBER",
    )
    focus: str | None = option(
        "Show only this module, by its path or a pattern. Such as ``\"encoder.layer.*\"``; *depth* "
        "counts from there.",
        PATTERN.or_none(),
        default=None,
        placeholder="NAME",
    )
    since: str | None = option(
        "Show only this, and what depends on it. The path of a module, the name of an input, "
        "output or parameter, or a recorded id. Operations on weights alone that it needs are "
        "shown too.",
        PLACE.or_none(),
        default=None,
        placeholder="NAME",
    )
    until: str | None = option(
        "Show only this, and what it depends on. With *since*, only what is between the two.",
        PLACE.or_none(),
        default=None,
        placeholder="NAME",
    )
    hide: str | tuple[str, ...] = option(
        "Leave out these modules, operations, inputs, outputs or weights, by name or path, modules "
        "by class as well; patterns, separated by commas or in a tuple. Arrows pass through.",
        TEXTS,
        default=(),
        placeholder="NAME,...",
    )
    closed: str | tuple[str, ...] = option(
        "Draw each of these modules as one box, at any depth. Names, paths, classes or patterns, "
        "like those of *hide*.",
        TEXTS,
        default=(),
        placeholder="NAME,...",
    )
    group: Mapping[str, str | Sequence[str]] = option(
        "Group siblings under a name of your own. ``{\"Stem\": [\"conv1\", \"bn1\", \"relu\"]}`` "
        "takes paths of modules and operations, or patterns. A group is one more level for "
        "*depth*. A parameter is in the group if all of its readers are, and may be named too.",
        GROUPS,
        factory=dict,
        placeholder="TEXT=NAME,...",
    )
    functions: bool | None = option(
        "Group the direct operations of a module by the Python functions that ran them. "
        "Each call of a function is then one more level for *depth*, like a call of a module. None "
        f"does so in modules, functions and programs with more than {MAX_DIRECT_OPS} direct "
        "operations; True in all, False in none. The additions of a sum such as ``sum(losses)`` "
        "are one box unless False.",
        FLAG.or_none(),
        default=None,
    )
    fold: Union[bool, Literal["similar"]] = option(
        "Fold repeated siblings into one box, or row of a table, with ×N. True: siblings of equal "
        "structure; ``\"similar\"``: also consecutive siblings of one class whose sizes, settings, "
        "connections or optional parts differ, and the box lists the differences; this is the "
        "default if *max_boxes* is exceeded at any level otherwise. False: every sibling.",
        one_of(*FOLDS),
        default=True,
    )
    view: Literal["forward", "backward"] = option(
        "Which pass is drawn. ``\"forward\"``, or ``\"backward\"``: the autograd graph, in the "
        "direction of the gradients. Of the other options of a view, *depth*, *max_boxes*, "
        "*focus*, *since*, *until*, *group*, *functions* and *fold* apply to it.",
        one_of("forward", "backward"),
        default="forward",
    )
    parameters: bool | None = option(
        "Draw parameters and buffers as boxes. None draws only those whose module has no box that "
        "reads them, such as a class token that an open module adds.",
        FLAG.or_none(),
        default=None,
    )
    tensors: bool = option(
        "Draw tensors as boxes. Otherwise they are arrows.", FLAG, default=False
    )
    passes: bool = option(
        "Draw modules that return their input unchanged, such as identity, and dropout in "
        "evaluation mode.",
        FLAG,
        default=True,
    )
    reshapes: bool = option(
        "Draw operations that only reshape, such as ``view`` and ``permute``.",
        FLAG,
        default=True,
    )
    grad_nodes: bool = option(
        "Open operations to the autograd nodes that they created. An operation with a single "
        "node stays a box, with the name of the node.",
        FLAG,
        default=False,
    )
    queries: bool = option(
        "Draw operations whose results only Python reads, such as ``item``. These are operations "
        "that return no tensor, copies such as ``detach`` that only these read, comparisons that "
        "only an ``if`` of Python reads, what modules compute from numbers alone for such an "
        "``if``, what data loaders load or shuffle that no operation reads, moves that change "
        "nothing, and tensors that are only overwritten, or of which only the form is read, as by "
        "``randn_like``.",
        FLAG,
        default=False,
    )

    def __post_init__(self) -> None:
        GroupSiblings(self.group)
        super().__post_init__()


@without_gc()
def make_view(recording: RecordedRun, options: ViewOptions = ViewOptions()) -> View:
    """The view of *recording* for *options*.

    Raises:
        InvalidArgument: *recording* is not a recording, or an option does not fit it.
    """
    part = part_of(recording, options)
    if options.view == "backward":
        if recording.grad_nodes and not part.grad_nodes:
            raise InvalidArgument(
                "view='backward' shows the autograd graph, and the chosen part of the run has none"
            )
        depth = sys.maxsize if options.depth == OPS else options.depth
        view = backward_view(part, depth, options.max_boxes)
        if options.fold:
            view = Fold(similar=options.fold == "similar")(view)
        return replace(view, unfolded=partial(_unfolded_backward, part, options))
    start, quiet = full_view(part), find_quiet(part, options)
    view = fitting(part, options, quiet, partial(_through, start, options, quiet), _drawn)
    if may_fold_more(options, _drawn(view)):
        more = replace(options, fold="similar")
        similar = fitting(part, more, quiet, partial(_through, start, more, quiet), _drawn)
        if _drawn(similar) <= options.max_boxes:
            view, options = similar, more
    return replace(view, unfolded=partial(unfolded, start, options, quiet))


def part_of(recording: RecordedRun, options: ViewOptions) -> RecordedRun:
    """The part of *recording* that is drawn, with scopes for groups and functions."""
    check_recording(recording)
    recording = without_wrappers(recording)
    grouped = WithFunctions(options.functions)(GroupSiblings(options.group)(recording))
    part = Focus(options.focus, options.since, options.until)(grouped)
    HideNamed(patterns(options.hide)).check("hide", grouped, part)
    NamedScopes(patterns(options.closed)).check("closed", grouped, part)
    return part


def fitting(
    recording: RecordedRun, options: ViewOptions, quiet: frozenset[OpId],
    through: Callable[[DepthChoice], StateT], drawn: Callable[[StateT], int],
) -> StateT:
    """What *through* makes for *options*, with fewer open scopes if repeats that do not fold make
    too many boxes; *drawn* counts these."""
    choice = choice_of(recording, options, quiet)
    view = through(choice)
    if choice.plain is not None and drawn(view) > options.max_boxes:
        view = through(choice.plain)
    expected = max(options.max_boxes, choice.boxes)
    if options.depth is None and drawn(view) > expected * REFOLD_FACTOR:
        wide = choice_of(recording, replace(options, fold=False), quiet)
        choice = wide.plain or wide
        view = min(view, through(choice), key=drawn)
        for depth in range(choice.depth + 1, max_depth(recording)):
            deeper = through(replace(choice, depth=depth))
            if drawn(deeper) > options.max_boxes:
                break
            view = deeper
    return view


def may_fold_more(options: ViewOptions, drawn: int) -> bool:
    """Whether similar siblings fold by default, if that makes at most *max_boxes*: *drawn* are
    more."""
    return options.fold is True and options.depth is None and drawn > options.max_boxes


def _through(
    view: View, options: ViewOptions, quiet: frozenset[OpId], choice: DepthChoice, *,
    fold: bool = True,
) -> View:
    for step in plan(view.recording, options, choice, quiet, fold=fold):
        view = step(view)
    return view


def _drawn(view: View) -> int:
    """The number of boxes of modules, functions and operations."""
    return sum(box.kind in COUNTED_KINDS for box in view.boxes.values())


def closed_scopes(
    recording: RecordedRun, options: ViewOptions, choice: DepthChoice
) -> frozenset[str]:
    """The scopes that stay closed, whatever their depth."""
    named = NamedScopes(patterns(options.closed)), NamedScopes(patterns(options.hide))
    return choice.closed.union(*(each.scopes(recording) for each in named))


def _unfolded_backward(part: RecordedRun, options: ViewOptions) -> Unfolded:
    start = backward_view(part, sys.maxsize)
    view, groups, similar = _repeats(start, options)
    return Unfolded(view, members(view, members(start)), groups, similar)


def unfolded(start: View, options: ViewOptions, quiet: frozenset[OpId]) -> Unfolded:
    """Everything that can be opened in the view with these *options*; *start* is the view of the
    whole run."""
    choice = DepthChoice(max_depth(start.recording), frozenset())
    view, groups, similar = _repeats(_through(start, options, quiet, choice, fold=False), options)
    whole_view, inside = joined_outputs(view, groups), members(view, members(start))
    if options.fold:
        whole_view = group_inputs(whole_view, {item for group in groups for item in group})
    if options.tensors:
        whole_view = show_tensors(whole_view, groups)
    return Unfolded(whole_view, inside, groups, similar)


def _repeats(view: View, options: ViewOptions) -> tuple[View, tuple[tuple[str, ...], ...], bool]:
    """*view* with its blocks, the groups of siblings that fold, and whether these may differ."""
    similar = options.fold == "similar"
    return *(repeats(view, similar) if options.fold else (view, ())), similar


def plan(
    recording: RecordedRun,
    options: ViewOptions = ViewOptions(),
    choice: DepthChoice | None = None,
    quiet: frozenset[OpId] | None = None,
    *,
    fold: bool = True,
) -> list[Step]:
    """The steps that make the view of *recording*, in order.

    Args:
        recording: The recording to draw.
        options: The options of the view.
        choice: The depth and closed scopes; by default chosen by size.
        quiet: The ops that are not shown, if known.
        fold: Whether the last steps are there, which fold what *options* ask for and then draw
            tensors: a tensor between two repeats is inside their fold.
    """
    quiet = find_quiet(recording, options) if quiet is None else quiet
    choice = choice or choice_of(recording, options, quiet)
    unwanted = HideNamed(patterns(options.hide))
    closed = closed_scopes(recording, options, choice)
    # what `HideStored` hides would leave open scopes empty, as what is quiet would
    hidden = quiet if options.parameters else quiet | recording.bookkeeping
    steps: list[Step] = [] if options.queries else [hide_unread_arguments]
    steps += [Collapse(choice.depth, hidden, closed), HideOps(quiet), HideReadOutputs(quiet)]
    if unwanted.patterns:
        steps.append(unwanted)
    if not options.passes:
        steps.append(hide_identities)
    if not options.parameters:
        steps.append(HideStored(options.parameters is False, bool(options.fold)))
    if options.grad_nodes:
        steps.append(open_ops)
    if options.fold:
        steps.append(group_samples)
    if options.fold and fold:
        steps += [Fold(options.fold == "similar"), group_outputs, group_inputs]
    if options.tensors and fold:
        steps.append(show_tensors)
    return steps


def choice_of(
    recording: RecordedRun, options: ViewOptions, quiet: frozenset[OpId] | None = None
) -> DepthChoice:
    """The depth and closed scopes for *options*; *quiet* ops, if known, are not shown."""
    quiet = find_quiet(recording, options) if quiet is None else quiet
    quiet |= recording.bookkeeping
    if options.depth == OPS:
        alone = frozenset() if options.parameters else plain_modules(recording, quiet)
        return DepthChoice(max_depth(recording), alone)
    folding: frozenset[str] = frozenset()
    if options.depth is None and options.fold:
        unit = loose_unit if options.fold == "similar" else unit_of
        folding = repeated(recording, unit, micro_batches(recording))
    return choose(recording, options.depth, quiet, folding, options.max_boxes)


def find_quiet(
    recording: RecordedRun, options: ViewOptions = ViewOptions()
) -> frozenset[OpId]:
    """The ops that are not shown."""
    needed = {item.op for item in recording.graph_breaks} | {*drawn_backwards(recording)}
    decided = frozenset[OpId]()
    if not options.queries:
        decided = comparisons(recording, needed) | idle_loads(recording)
        decided |= idle_transfers(recording) | hook_registrations(recording)
        decided |= made_for_conditions(recording, decided, needed)
        decided |= copies(recording, needed, decided) | overwritten(recording).views
    return decided | {
        op.id for op in recording.ops.values()
        if is_identity(op)
        or not options.reshapes and is_reshape(op)
        or not options.queries and returns_no_tensor(op) and op.id not in needed
    }

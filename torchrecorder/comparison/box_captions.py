"""Box captions: short texts about the differences of each node, for the boxes of a figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from torchrecorder.annotations import by_name
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.checks import plural
from torchrecorder.comparison.display_names import AROUND, differences, hyperparameters
from torchrecorder.comparison.edge_match import RETURNS
from torchrecorder.comparison.kinds import ALONE, Change, ChangeKind
from torchrecorder.comparison.marks import GONE, nodes_of
from torchrecorder.comparison.match import Matching
from torchrecorder.comparison.overlay import Overlay
from torchrecorder.events import ModuleId, OpId, ScopeId, ValueId
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.graph.relations import step_of
from torchrecorder.style import labels
from torchrecorder.style.composites import Composites
from torchrecorder.style.diff_colors import MAX_LINE_LENGTH, DiffCaption
from torchrecorder.style.hyperparameters import unify
from torchrecorder.style.weights import Weights

ORDER = (
    ChangeKind.REPLACED, ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.CHANGED,
    ChangeKind.MEASURED, ChangeKind.RETIMED, ChangeKind.REWIRED, ChangeKind.RENAMED,
    ChangeKind.RESIZED, ChangeKind.CAST, ChangeKind.FROZEN, ChangeKind.UNFROZEN,
)
"""The order in which kinds of differences are shown."""

MOVED = (*ALONE, ChangeKind.RENAMED)
"""Kinds of differences that the number of blocks in a module already shows."""

MINOR_KINDS = (
    ChangeKind.FROZEN, ChangeKind.UNFROZEN, ChangeKind.RESIZED, ChangeKind.CAST,
    ChangeKind.REWIRED, ChangeKind.RENAMED,
)
"""Kinds of differences in a module that are shown only if there are no others."""

FORMS = (ChangeKind.RESIZED, ChangeKind.CAST)
"""Kinds of differences of shapes and dtypes."""

SHORT_NAMES = {"kernel_size": "kernel", "normalized_shape": "shape"}
"""Short names of settings."""

BLOCKS = re.compile(r"(\d+) × (.+)")
"""The caption of a module that consists of blocks of one kind."""

LINE_LENGTH = 30
"""The maximum number of characters of a line of settings or names."""

NOW = {ChangeKind.FROZEN: "now frozen", ChangeKind.UNFROZEN: "now trainable"}
"""The text for modules with such weights."""

WHOLE = "the whole model"
"""The former name of a model that is now part of another one."""

NodeChange = tuple[str, Change]
"""A change, and the node of the overlay that it is about."""


class BoxCaptions:
    """The captions of the nodes of an overlay; *cls* returns the displayed class of a module."""

    def __init__(
        self,
        both: Overlay,
        matching: Matching,
        changes: Sequence[Change],
        cls: Callable[[Scope], str],
    ) -> None:
        self.before, self.after, self.both = matching.before, matching.after, both.recording
        self.marks = both.marks
        self.pairs: dict[str, tuple[ScopeId, ScopeId]] = {
            **{GONE + old: (old, new) for old, new in matching.wrapped.items()},
            **{new: (old, new) for old, new in matching.wrapped.items()},
            **{new: (old, new) for old, new in matching.scopes.items()},
        }
        self.there = matching.scopes
        self.blocks = Composites(self.before, cls), Composites(self.after, cls)
        self.weights = Weights(self.before), Weights(self.after)
        self.own: dict[str, list[Change]] = {}
        self.inside: dict[str, list[NodeChange]] = {}
        for change in sorted(changes, key=lambda change: ORDER.index(change.kind)):
            if change.after:
                for node in nodes_of(change.after, change.kind, self.after, matching.back):
                    self._place(change, node)
            elif change.before:
                self._place(change, GONE + change.before)

    def of(self, node: str) -> DiffCaption | None:
        """The caption of a node; None if nothing in it differs, or if only one run has it."""
        own, inside = self.own.get(node, []), self.inside.get(node, [])
        scope = self.both.scopes.get(ScopeId(node))
        if self.marks.get(node) in ALONE:
            texts = [change.text for change in own if change.text.startswith(AROUND)]
            if not texts or scope is None:
                return None
            held = (texts[0].partition(", ")[0],)  # modules that both runs have
            return DiffCaption(inside=held, pieces=dict(self._pieces(scope)))
        if not (own or inside):
            return None
        pieces = dict(self._pieces(scope)) if scope is not None else {}
        within = tuple(self._within(inside, scope, pieces)) if scope is not None else ()
        about = (line for change in own for line in self._about(change))
        former = next(filter(None, map(self._former, own)), "")
        return DiffCaption(tuple(about), within, former, pieces)

    # Places -----------------------------------------------------------------------------

    def _place(self, change: Change, node: str) -> None:
        """Add a change to its node (the op that computes a value) and to all scopes around it."""
        value = self.both.values.get(ValueId(node))
        if value is not None and value.producer is not None:
            node = value.producer
        self.own.setdefault(node, []).append(change)
        around = (outer for home in self._homes(node) for outer in self.both.within(home))
        for outer in dict.fromkeys(around):
            self.inside.setdefault(outer, []).append((node, change))

    def _homes(self, node: str) -> Iterator[ScopeId | None]:
        """The scopes directly around a node; for a weight, the calls of its module."""
        step = step_of(self.both, node)
        if step is not None:
            yield step.scope if isinstance(step, Op) else step.parent
        elif node in self._owners:
            yield from self.both.modules[self._owners[node]].calls

    @cached_property
    def _owners(self) -> Mapping[str, ModuleId]:
        """The module of each weight."""
        modules = self.both.modules.values()
        return {slot.value: module.id for module in modules for slot in module.stored}

    # Of a node itself -------------------------------------------------------------------

    def _about(self, change: Change) -> Iterator[str]:
        """The lines about a node itself."""
        kind = change.kind
        if kind in (ChangeKind.REPLACED, *FORMS):
            yield f"was {change.text.partition(' → ')[0]}"
        elif kind is ChangeKind.CHANGED:
            yield from labels.filled(self._settings(change), LINE_LENGTH)
        elif kind in NOW:
            yield NOW[kind]
        elif kind is ChangeKind.MEASURED:
            annotation, numbers, share = _measured(change.text)
            whole = annotation.titled(f"{numbers} {share}".strip())
            yield whole if len(whole) <= MAX_LINE_LENGTH else annotation.titled(numbers)
        elif kind is ChangeKind.RETIMED or self._is_short_rewiring(change):
            yield change.text

    def _former(self, change: Change) -> str:
        """The former name of a scope, with its path if that differs too; of an op, the scope."""
        if change.kind is not ChangeKind.RENAMED:
            return ""
        old = self.before.scopes.get(ScopeId(change.before or ""))
        if old is None:
            return change.text.removeprefix("was ")
        new = self.after.scopes[ScopeId(change.after or "")]
        if old.parent is None:
            return WHOLE if new.parent is not None else old.name
        if self.there.get(old.parent) in self.after.within(new.parent) and old.name != new.name:
            return old.name
        return change.text.removeprefix("was ")

    def _settings(self, change: Change) -> Iterator[str]:
        """The settings or arguments that differ, or other facts."""
        pair = self._given(change)
        if pair is None or change.text != differences(*pair):
            yield change.text
            return
        before, after = pair
        for name in dict.fromkeys((*before, *after)):
            old, new = (unify(one.get(name, "default")).strip("'\"") for one in pair)
            if before.get(name) != after.get(name):
                yield f"{SHORT_NAMES.get(name, name.replace('_', ' '))} {old} → {new}"

    def _given(self, change: Change) -> tuple[dict[str, str], dict[str, str]] | None:
        """The settings or arguments of a module or op in both runs."""
        left, right = change.before or "", change.after or ""
        if left in self.before.ops:
            ops = self.before.ops[OpId(left)], self.after.ops[OpId(right)]
            return dict(ops[0].arguments), dict(ops[1].arguments)
        if left not in self.before.scopes:
            return None
        old, new = self.before.scopes[ScopeId(left)], self.after.scopes[ScopeId(right)]
        modules = self.before.module_of(old), self.after.module_of(new)
        if modules[0] is None or modules[1] is None:
            return None
        return (
            hyperparameters(old.cls, modules[0].detail), hyperparameters(new.cls, modules[1].detail)
        )

    # Of what is inside ------------------------------------------------------------------

    def _pieces(self, scope: Scope) -> Iterator[tuple[str, str]]:
        """The parts of the caption of a module that are numbers in both runs."""
        if scope.id not in self.pairs:
            return
        before, after = self.pairs[scope.id]
        old, new = self.before.scopes[before], self.after.scopes[after]
        least, most = (one.count(item) for one, item in zip(self.weights, (old, new)))
        if labels.parameters(least) != labels.parameters(most) != "":
            text = labels.parameters(most)
            yield text, f"{labels.count(least)} → {text}"
        left, right = (one.caption(item) for one, item in zip(self.blocks, (old, new)))
        was, now = BLOCKS.fullmatch(left), BLOCKS.fullmatch(right)
        if was and now and was[2] == now[2] and was[1] != now[1]:
            yield right, f"{was[1]} → {right}"

    def _within(
        self, placed: Sequence[NodeChange], scope: Scope, pieces: Mapping[str, str]
    ) -> Iterator[str]:
        """The lines about differences in a module, the most important first."""
        counted = any(map(BLOCKS.fullmatch, pieces))
        kinds: dict[ChangeKind, dict[str, list[str]]] = {}
        for node, change in self._main(placed):
            part = self.both.scopes.get(ScopeId(node))
            if not (counted and change.kind in MOVED and part and part.parent == scope.id):
                texts = kinds.setdefault(change.kind, {})
                for text in self._inner(change):
                    texts.setdefault(text, []).append(self._name(node, change, scope))
        for kind in MINOR_KINDS:
            if len(kinds) > 1 or pieces:
                kinds.pop(kind, None)
        for kind, texts in kinds.items():
            is_partial = kind in NOW and self._is_mixed(scope)
            for text, names in texts.items():
                weights = f"{plural(len(names), 'weight')} " if is_partial else ""
                yield weights + _joined(kind, text, names)

    def _is_mixed(self, scope: Scope) -> bool:
        """Whether only some of the weights of a module are trained in the second run."""
        weights = self.weights[1]
        return 0 < (weights.trained.of([scope.id]) or 0) < weights.count(scope)

    def _main(self, placed: Sequence[NodeChange]) -> Iterator[NodeChange]:
        """The most important change of each node; none for nodes in a replaced module."""
        seen, replaced = set[str](), set[str]()
        for node, change in placed:
            around = {outer for home in self._homes(node) for outer in self.both.within(home)}
            if node not in seen and replaced.isdisjoint(around):
                yield node, change
            seen.add(node)
            if change.kind is ChangeKind.REPLACED:
                replaced.add(node)

    def _inner(self, change: Change) -> Iterator[str]:
        """The text about a change for the box of a module around it."""
        if change.follows and change.kind is not ChangeKind.REWIRED:
            return
        kind = change.kind
        if kind in ALONE:
            yield ""
        elif kind is ChangeKind.CHANGED:
            yield ", ".join(self._settings(change))
        elif kind is ChangeKind.RENAMED:
            yield f"was {self._former(change)}"
        elif kind in NOW:
            yield NOW[kind]
        elif kind is ChangeKind.MEASURED:
            annotation, numbers, share = _measured(change.text)
            yield f"{annotation.title} {share.strip('()') or numbers}"
        elif kind in (ChangeKind.REPLACED, *FORMS) or self._is_short_rewiring(change):
            yield change.text

    def _is_short_rewiring(self, change: Change) -> bool:
        """Whether an op or module reads another tensor, and the text about it is short."""
        read = change.kind is ChangeKind.REWIRED and not change.text.startswith(RETURNS)
        return read and len(change.text) <= MAX_LINE_LENGTH

    def _name(self, node: str, change: Change, around: Scope) -> str:
        """The name of the changed part, as it is called in the scope *around*."""
        value, step = self.both.values.get(ValueId(node)), step_of(self.both, node)
        if value is not None:
            return value.names[0].rpartition(".")[2] if value.names else "a tensor"
        if not isinstance(step, Scope):
            return step.name if step is not None else ""
        outer = self.both.scopes[step.parent] if step.parent is not None else around
        numbered = outer.id != around.id and step.name.isdigit()
        return f"{outer.name}.{step.name}" if numbered else step.name


def _measured(text: str) -> tuple[Annotation, str, str]:
    """The annotation of a number, its values in both runs, and how much they differ, if known."""
    name, _, change = text.partition(": ")
    numbers, _, share = change.partition(" (")
    return by_name(name), numbers, f"({share}" if share else ""


def _joined(kind: ChangeKind, text: str, names: Sequence[str]) -> str:
    """One line for equal changes in several places."""
    if kind in NOW:
        return text
    once = list(dict.fromkeys(names))
    if kind in ALONE:
        listed = ", ".join(once)
        return f"{kind.value} {listed if len(listed) <= LINE_LENGTH - 8 else f'{len(names)} parts'}"
    if len(names) > 1 and kind is ChangeKind.RENAMED:
        return f"{len(names)} renamed"
    if len(once) > 1 and kind is ChangeKind.MEASURED:
        return f"{len(once)} parts: {text}"
    if kind is ChangeKind.REPLACED and text.partition(" → ")[2] == once[0]:
        return text  # of an op
    return f"{once[0]}: {text}" if len(once) == 1 else text

"""Equal places: places of a tree with equal appearance and data, which share one entry.

Two places are equal if their recorded data are equal, and if everything inside them is equal, with
names. Ids, positions in the run, paths, source lines and names of calls do not count. A model of a
hundred equal blocks stores the texts, looks and facts of one of them, with other titles.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property

from torchrecorder.events import ModuleId, OpId, ScopeId, Slot, ValueId, names_gradient
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Op, Scope
from torchrecorder.style.merge_captions import result
from torchrecorder.style.style import RULES, Style
from torchrecorder.views.bundles import FlowKind
from torchrecorder.views.fold.blocks import is_block
from torchrecorder.views.tree import Tree, TreeNode


def representatives(
    tree: Tree, style: Style, flows: Sequence[FlowKind], unread: Mapping[str, str]
) -> Sequence[int]:
    """For each place of *tree* the first equal place, which may be itself.

    If the style can depend on the box, no two places are equal. *flows* are the kinds of tensors on
    the arrows, *unread* the captions of boxes that no drawn box reads.
    """
    if not _is_uniform(tree, style):
        return range(len(tree.places))
    return _Keys(tree, flows, unread).representatives()


def _is_uniform(tree: Tree, style: Style) -> bool:
    """Whether *style* draws equal recorded data in the same way everywhere."""
    recording = tree.view.recording
    own = (
        style.finish, style.rename, style.colors, style.notes, style.numbers, style.edge_attributes
    )
    marked = recording.failed, recording.statistics, recording.compiled_graphs
    plain = style.rules == RULES and not any((*own, *marked, tree.view.backward))
    return plain and not any(arrow.some for arrow in tree.view.arrows)


class _Keys:
    """Computes keys that are equal for equal places.

    Keys of values and modules are small integers, so that two places are compared quickly.
    """

    def __init__(self, tree: Tree, flows: Sequence[FlowKind], unread: Mapping[str, str]) -> None:
        self.tree = tree
        self.flows = flows
        self.unread = unread
        self.view = tree.view
        self.recording = tree.view.recording
        self._numbers: dict[Hashable, int] = {}
        self._values: dict[ValueId, int] = {}
        self._modules: dict[ModuleId, int] = {}

    def representatives(self) -> list[int]:
        places = self.tree.places
        inside: dict[int, list[tuple[int, str]]] = {}
        depth = [0] * len(places)  # which the color of an open place shows; folds have none
        for number, place in enumerate(places):
            if place.parent >= 0:
                depth[number] = depth[place.parent] + (not places[place.parent].fold)
        keys = [0] * len(places)
        scopes = self.recording.scopes
        for number in reversed(range(len(places))):
            place = places[number]
            inner = tuple(reversed(inside.pop(number, ())))
            keys[number] = self._number((depth[number], inner, self._place(number, place)))
            scope = scopes.get(ScopeId(place.id))
            beside = inside.setdefault(place.parent, [])
            beside.append((keys[number], scope.name if scope else ""))
        first: dict[int, int] = {}
        return [first.setdefault(key, number) for number, key in enumerate(keys)]

    def _number(self, key: Hashable) -> int:
        """A small number for *key*: equal keys have equal numbers."""
        return self._numbers.setdefault(key, len(self._numbers))

    def _place(self, number: int, place: TreeNode) -> Hashable:
        """The recorded data of a place, without the places inside it."""
        if place.fold:  # one whose siblings may differ lists them
            return number if self.tree.unfolded.similar else self._fold(place)
        op = self.recording.ops.get(OpId(place.id))
        if op is not None:
            return place.id not in self.view.clusters, self._op(op), self._leaving(op.id)
        cluster = self.view.clusters.get(place.id)
        if is_block(place.id):
            return number if cluster is None else ("block", cluster.names, cluster.count)
        scope = self.recording.scopes.get(ScopeId(place.id))
        if scope is not None:
            return cluster is None, self._scope(scope), self._leaving(place.id)
        return number

    def _fold(self, place: TreeNode) -> Hashable:
        scopes = self.recording.scopes
        names = [scopes[ScopeId(item)].name for item in place.fold if item in scopes]
        return "fold", len(place.fold), tuple(names)

    def _op(self, op: Op) -> Hashable:
        box = self.view.boxes.get(op.id)
        if box is not None and sum(map(self.recording.ops.__contains__, box.members)) > 1:
            return op.id  # it stands for other ops too
        values, writes = self.recording.values, op.writes
        names = [found for output in op.outputs if (found := values[output].names)]
        return (
            op.kind, op.name, op.qualname, op.arguments, self._slots(op.inputs),
            tuple([(self._value(output), output in writes) for output in op.outputs]),
            tuple(filter(names_gradient, names)),
            tuple([grad.name for grad in self.recording.owned.get(op.id, ())]),
            op.scope in self._detailed, self.unread.get(op.id),
        )

    @cached_property
    def _detailed(self) -> frozenset[ScopeId]:
        """The calls of modules that have settings."""
        scopes, modules = self.recording.scopes.values(), self.recording.modules
        return frozenset(
            scope.id for scope in scopes if scope.module and modules[scope.module].detail
        )

    def _scope(self, scope: Scope) -> Hashable:
        return (
            scope.kind, scope.cls, scope.call,
            self._slots(scope.inputs), self._slots(scope.outputs),
            -1 if scope.module is None else self._module(scope.module),
        )

    def _slots(self, slots: Iterable[Slot]) -> Hashable:
        known, number = self._values, self._value
        return tuple([(name, known.get(value) or number(value)) for name, value in slots])

    def _value(self, value: ValueId) -> int:
        """The recorded data of a tensor; with its names, if it has several."""
        number = self._values.get(value)
        if number is None:
            one = self.recording.values[value]
            number = self._values[value] = self._number((
                one.shape, one.dtype, one.device, one.role, one.requires_grad, one.bytes,
                one.kind, one.trainable, one.names if len(one.names) > 1 else (),
            ))
        return number

    def _module(self, module: ModuleId) -> int:
        """The recorded data of a module; one that is called several times equals no other."""
        number = self._modules.get(module)
        if number is None:
            one = self.recording.modules[module]
            number = self._modules[module] = self._number((
                one.qualname, one.cls, one.detail, one.training,
                self._slots(one.parameters), self._slots(one.buffers),
                module if len(one.calls) > 1 else "", self._uncalled.get(module, ()),
            ))
        return number

    @cached_property
    def _uncalled(self) -> dict[ModuleId, tuple[ModuleId, ...]]:
        """The submodules of each module that were never called: their parameters count too."""
        modules = self.recording.modules.values()
        by_name = {name: module.id for module in modules for name in module.names}
        found: dict[ModuleId, tuple[ModuleId, ...]] = {}
        for module in modules:
            if not module.calls and module.stored:
                for outer in filter(None, map(by_name.get, module.around())):
                    found[outer] = (*found.get(outer, ()), module.id)
        return found

    @cached_property
    def _arrows(self) -> dict[str, list[int]]:
        """The arrows that leave each box, by index."""
        return grouped((arrow.tail, number) for number, arrow in enumerate(self.view.arrows))

    def _leaving(self, tail: str) -> Hashable:
        """The outputs of a box, which are shown on it: equal tensors have equal indices."""
        if tail not in self._arrows:
            return ()
        places: dict[object, tuple[int, int, int]] = {}
        found = []
        for number in self._arrows[tail]:
            arrow = self.view.arrows[number]
            value = self.view.given(arrow) or arrow.value
            if value not in places:
                what = -1 if value is None else self._value(value)
                places[value] = len(places), what, result(self.recording, tail, value)
            found.append((self.view.boxes[arrow.head].kind, places[value], self.flows[number]))
        return tuple(found)

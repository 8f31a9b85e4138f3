"""Differences: what differs between siblings that are drawn as one box."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from torchrecorder.annotations.annotation import Numbers
from torchrecorder.annotations.parameters import PARAMETERS
from torchrecorder.events import ScopeId, ValueId
from torchrecorder.graph.mappings import grouped
from torchrecorder.graph.nodes import Module, Op, Scope
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.graph.relations import scopes_inside
from torchrecorder.graph.structural_hash import is_inactive, without_numbers
from torchrecorder.style import labels
from torchrecorder.style.hyperparameters import FLAGS, NEVER, SAID, size, split, unify
from torchrecorder.views.quiet_ops import RESHAPES, is_identity, returns_no_tensor

SHOWN = 4
"""The maximum number of differences on a box; the rest is in its tooltip."""

WIDTHS = frozenset(
    "in_features out_features in_channels out_channels num_features normalized_shape nx nf".split()
)
"""Settings that follow from the number of channels."""

IMPLIED = frozenset("padding groups".split())
"""Settings that usually follow from other settings; they are shown only if nothing else differs."""

KINDS = ("part", "size", "setting", "wiring")


class Facet(NamedTuple):
    """One difference, with a short text about it."""

    kind: str  # one of `KINDS`
    title: str
    values: tuple[str, ...]  # one per repeat; may be empty
    brief: str


class Differences:
    """The differences between calls of one class."""

    def __init__(self, recording: RecordedRun) -> None:
        self.recording = recording
        self._found: dict[tuple[str, ...], tuple[Facet, ...]] = {}

    @cached_property
    def _weights(self) -> Numbers:
        return PARAMETERS.on(self.recording)

    def facets(self, scopes: tuple[str, ...]) -> tuple[Facet, ...]:
        """The differences between these scopes, the most important first."""
        if scopes not in self._found:
            repeats = [_Repeat(self.recording, ScopeId(scope)) for scope in scopes]
            self._found[scopes] = tuple(_facets(repeats))
        return self._found[scopes]

    def brief(self, scopes: tuple[str, ...], kinds: Collection[str] = KINDS) -> tuple[str, ...]:
        """The most important differences of these kinds, as short texts."""
        texts = [facet.brief for facet in self.facets(scopes) if facet.kind in kinds]
        return (*texts[:SHOWN], *(["…"] if len(texts) > SHOWN else []))

    def table(self, scopes: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """The name and all differences of each repeat."""
        facets = self.facets(scopes)
        inside = [scopes_inside(self.recording, [ScopeId(scope)]) for scope in scopes]
        counts = [int(self._weights.of(item) or 0) for item in inside]
        weighty = len(set(counts)) > 1
        for place, (scope, count) in enumerate(zip(scopes, counts)):
            texts = [
                f"{facet.title} {facet.values[place]}".strip()
                for facet in facets
                if facet.values[place]
            ]
            if weighty:
                texts.append(labels.parameters(count) or "no params")
            found = self.recording.scopes[ScopeId(scope)]
            yield found.path or found.name, ", ".join(texts) or "nothing special"


class _Repeat:
    """The contents of one of the siblings, by relative path.

    Relative paths consist of names, or of classes if names are numbers. Consecutive scopes of one
    class have the same path; their contents are compared separately.
    """

    def __init__(self, recording: RecordedRun, scope: ScopeId) -> None:
        self.recording = recording
        self.scope = recording.scopes[scope]
        self.modules: dict[str, Module] = {}  # of the first scope in each place, as the class
        self.classes: dict[str, str] = {}
        self.runs: dict[str, int] = {"": 1}  # the number of scopes at each path
        self.ops: dict[str, list[Op]] = {}  # directly in the scopes at each path
        self.features: set[int] = set()  # output sizes from its parameters
        self._walk()

    def _walk(self) -> None:
        waiting = [(self.scope, "")]
        while waiting:
            scope, place = waiting.pop()
            module = self.recording.modules[scope.module] if scope.module is not None else None
            for slot in module.parameters if module is not None else ():
                self.features.update(self.recording.values[slot.value].shape[:1])
            self.classes.setdefault(place, scope.cls)
            steps = self.recording.children[scope.id]
            if module is not None and not is_inactive(module, steps):
                self.modules.setdefault(place, module)
            waiting.extend(reversed([*self._children(scope, place)]))

    def _children(self, scope: Scope, around: str) -> Iterator[tuple[Scope, str]]:
        """The scopes in a scope, each with its path; its ops are collected too."""
        last, place = None, ""
        for child in self.recording.children[scope.id]:
            if isinstance(child, Op):
                if not (is_identity(child) or returns_no_tensor(child)):
                    self.ops.setdefault(around, []).append(child)
                continue
            key = child.cls, without_numbers(child.name)
            if key != last:
                name = child.cls if child.name.isdigit() else child.name
                place = self._free(f"{around}.{name}" if around else name)
            last = key
            self.runs[place] = self.runs.get(place, 0) + 1
            yield child, place

    def _free(self, place: str) -> str:
        """*place*, with a number appended if it is in use."""
        number, found = 1, place
        while found in self.runs:
            number += 1
            found = f"{place} ({number})"
        return found

    @property
    def output(self) -> tuple[tuple[int, ...], str]:
        """The shape and dtype of the first output."""
        values = [self.recording.values[slot.value] for slot in self.scope.outputs[:1]]
        return (values[0].shape, values[0].dtype) if values else ((), "")


def _facets(repeats: Sequence[_Repeat]) -> Iterator[Facet]:
    again = {place for repeat in repeats for place, number in repeat.runs.items() if number > 1}
    yield from _runs(repeats, again)
    yield from _parts(repeats, again)
    sizes = list(_sizes(repeats))
    yield from sizes
    yield from _settings(repeats, again, not any(item.title == "channels" for item in sizes))
    yield from _wiring(repeats)


def _differing(kind: str, title: str, values: Sequence[str]) -> Iterator[Facet]:
    if len(set(values)) > 1:
        yield Facet(kind, title, tuple(values), f"{title} {labels.several(tuple(values))}")


def _present(kind: str, title: str, there: Sequence[bool]) -> Facet:
    values = tuple("" if item else "none" for item in there)
    if sum(there) <= len(there) / 2:
        values = tuple("yes" if item else "" for item in there)
    return Facet(kind, title, values, f"{title} in {sum(there)} of {len(there)}")


def _is_in(place: str, others: Collection[str]) -> bool:
    """Whether a place is inside one of *others*."""
    while place:
        place = place.rpartition(".")[0]
        if place in others:
            return True
    return False


# The kinds of differences ------------------------------------------------------------------


def _runs(repeats: Sequence[_Repeat], again: Collection[str]) -> Iterator[Facet]:
    """Different numbers of blocks in stages."""
    for place in dict.fromkeys(place for repeat in repeats for place in repeat.runs):
        counts = [repeat.runs.get(place, 0) for repeat in repeats]
        if place in again and all(counts) and not _is_in(place, again):
            title = repeats[0].classes[place]
            for facet in _differing("part", title, [f"×{count}" for count in counts]):
                text = labels.several(tuple(map(str, counts)))
                yield facet._replace(brief=f"{title} ×{text}")


def _parts(repeats: Sequence[_Repeat], again: Collection[str]) -> Iterator[Facet]:
    """Modules and ops that only some siblings have; the contents of such modules are not listed."""
    kinds = dict.fromkeys(
        (place, cls) for repeat in repeats for place, cls in repeat.classes.items()
    )
    places = Counter(place for place, _ in kinds)
    apart: dict[str, None] = dict.fromkeys(again)
    found: dict[tuple[bool, ...], list[str]] = {}
    for place, cls in sorted(kinds, key=lambda kind: kind[0].count(".")):
        there = tuple(repeat.classes.get(place) == cls for repeat in repeats)
        if place and not all(there) and not _is_in(place, apart):
            apart[place] = None
            name = place.rpartition(".")[2]
            found.setdefault(there, []).append(f"{name}: {cls}" if places[place] > 1 else name)
    for there, names in found.items():
        yield _present("part", _listed(names), there)
    yield from _other_ops(repeats, apart)


def _other_ops(repeats: Sequence[_Repeat], apart: Collection[str]) -> Iterator[Facet]:
    counts = [
        Counter(
            op.name
            for place, ops in repeat.ops.items()
            if place not in apart and not _is_in(place, apart)
            for op in ops
        )
        for repeat in repeats
    ]
    every = dict.fromkeys(name for count in counts for name in count)
    found = grouped((tuple(name in count for count in counts), name) for name in every)
    for there, names in found.items():
        if not all(there):
            yield _present("part", _listed(sorted(names, key=lambda name: name in RESHAPES)), there)


def _listed(names: Sequence[str]) -> str:
    return ", ".join([*names[:2], *(["…"] if len(names) > 2 else [])])


def _sizes(repeats: Sequence[_Repeat]) -> Iterator[Facet]:
    """Channels, and other sizes of outputs."""
    shapes, dtypes = zip(*(repeat.output for repeat in repeats))
    yield from _differing("size", "dtype", dtypes)
    if len(set(map(len, shapes))) > 1:
        yield from _differing("size", "gives", [labels.shape(shape) for shape in shapes])
        return
    places = [at for at, sizes in enumerate(zip(*shapes)) if len(set(sizes)) > 1]
    pairs = [*zip(shapes, repeats)]
    named = (at for at in places if all(shape[at] in item.features for shape, item in pairs))
    wide = next(named, -1)
    if wide >= 0:
        title = "channels" if len(shapes[0]) > 3 else "features"
        yield from _differing("size", title, [str(shape[wide]) for shape in shapes])
    rest = [at for at in places if at != wide]
    if rest:
        sizes = ["×".join(str(shape[at]) for at in rest) for shape in shapes]
        yield from _differing("size", "size", sizes)


def _settings(repeats: Sequence[_Repeat], again: Collection[str], widths: bool) -> Iterator[Facet]:
    """Hyperparameters; one line per name if its modules change together."""
    found: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for place in repeats[0].modules:
        if _is_in(place, again) or not all(place in repeat.modules for repeat in repeats):
            continue
        settings = [dict(_parsed(repeat.modules[place].detail)) for repeat in repeats]
        for name in dict.fromkeys(name for item in settings for name in item):
            values = tuple(item.get(name, "") for item in settings)
            if len(set(values)) > 1 and (widths or name != "width"):
                found.setdefault(name, {}).setdefault(values, []).append(place)
    some = {name for name in found if name not in IMPLIED}
    for name in sorted(found, key=lambda name: name == "width"):
        if name in some or not some:
            yield from _setting(name, found[name])


def _setting(name: str, ways: dict[tuple[str, ...], list[str]]) -> Iterator[Facet]:
    text = SAID.get(name, "{}").replace("{}", "").strip(" ×") or name.replace("_", " ")
    title = "kernel" if name == "kernel_size" else text
    for values, places in [*ways.items()][:2]:
        where = places[0] if len(ways) > 1 or name == "width" else ""
        shown = [value for value in values if value]
        if len(shown) < len(values):
            text = FLAGS.get((name, shown[0]), f"{title} {labels.several(tuple(shown))}")
            yield _present("setting", f"{where} {text}".strip(), [bool(value) for value in values])
        elif name == "width":
            yield Facet("setting", where, values, f"{where} {labels.span(values)}".strip())
        else:
            yield from _differing("setting", f"{where} {title}".strip(), values)


@lru_cache(maxsize=4096)
def _parsed(detail: str) -> tuple[tuple[str, str], ...]:
    """The settings in ``extra_repr()``; those that follow from channels under one name."""
    plain, named = split(detail)
    wide = [*plain, *(named.pop(name) for name in list(named) if name in WIDTHS)]
    if plain and named.get("groups") == plain[0]:
        named.pop("groups")  # depthwise: groups equal channels
    kept = {name: text for name, text in named.items() if name not in NEVER}
    sizes = {name: size(text) if "size" in name else unify(text) for name, text in kept.items()}
    return (*sizes.items(), *([("width", " → ".join(wide))] if wide else []))


def _wiring(repeats: Sequence[_Repeat]) -> Iterator[Facet]:
    """Differences in inputs, from inside and from outside the siblings."""
    made: dict[ValueId, int] = {}
    before: list[str] = []
    for number, item in enumerate(repeats):
        reads = {made[slot.value] for slot in item.scope.inputs if slot.value in made}
        before.append(str(len(reads)))
        made.update((slot.value, number) for slot in item.scope.outputs)
    parents = [None, *(repeat.scope.parent for repeat in repeats)]
    later = [
        text for at, text in enumerate(before) if repeats[at].scope.parent == parents[at]
    ]
    if len(set(later)) > 1:
        text = labels.several(tuple(later))
        title = "reads of those before:"
        yield Facet("wiring", title, tuple(before), f"reads {text} of those before")
    yield from _surroundings(repeats, made)


def _surroundings(repeats: Sequence[_Repeat], made: Collection[ValueId]) -> Iterator[Facet]:
    """Arguments that only some siblings have or with several sources, not *made* by siblings."""
    arguments = [_arguments(repeat.scope) for repeat in repeats]
    for name in dict.fromkeys(name for item in arguments for name in item):
        values = [item.get(name, ()) for item in arguments]
        if any(value in made for item in values for value in item):
            continue
        sources = list(dict.fromkeys(filter(None, values)))
        name = f"input {name}" if name.isdigit() else name
        if () in values:
            yield _present("wiring", name, [bool(value) for value in values])
        elif len(sources) > 1:
            numbers = tuple(f"no. {sources.index(value) + 1}" for value in values)
            yield Facet("wiring", name, numbers, f"{name}: {len(sources)} different tensors")


def _arguments(scope: Scope) -> dict[str, tuple[ValueId, ...]]:
    """The tensors in each argument; items of a list or tuple are one argument."""
    found: dict[str, tuple[ValueId, ...]] = {}
    for slot in scope.inputs:
        name, _, number = slot.name.rpartition(".")
        name = name if name and number.isdigit() else slot.name
        found[name] = (*found.get(name, ()), slot.value)
    return found

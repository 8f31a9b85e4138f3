"""Annotation: a number per node that follows from a recording, and how to add it up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from torchrecorder.annotations.owned import Owned
from torchrecorder.checks import guess
from torchrecorder.errors import UnknownAnnotation
from torchrecorder.graph.recording import Recording


@dataclass(frozen=True)
class Annotation:
    """A number per op, value or grad node.

    Attributes:
        name: What it is asked for by, ``"output_bytes"``.
        title: Heading of a column of it, ``"Output"``.
        unit: What is counted; empty for plain counts.
        compute: From a recording to its numbers, by node id. A node may be left out.
        merge: Several numbers into one, for closed boxes and for tables: ``sum``, ``max``.
            None where that makes no sense, as for a ratio.
        show: One number as short text.
        logarithmic: Orders of magnitude matter: colours go by the logarithm.
    """

    name: str
    title: str
    unit: str
    compute: Callable[[Recording], Mapping[str, float]]
    merge: Callable[[Iterable[float]], float] | None
    show: Callable[[float], str]
    logarithmic: bool = False

    def on(self, recording: Recording) -> Numbers:
        """The numbers of *recording*."""
        return Numbers(self, self.compute(recording), Owned(recording))


@dataclass(frozen=True)
class Numbers:
    """The numbers of one annotation in one recording.

    Attributes:
        by_node: The number of each node that has one.
        owned: What the modules of the recording own.
    """

    annotation: Annotation
    by_node: Mapping[str, float]
    owned: Owned

    def of(self, members: Iterable[str]) -> float | None:
        """One number for *members* together; None if they have none, or none in common.

        A module or scope among the members brings the parameters and buffers of the
        module. What is named twice, as a tied parameter is, counts once.
        """
        found = [self.by_node[each] for each in self.owned.within(members) if each in self.by_node]
        if len(found) == 1:
            return found[0]
        merge = self.annotation.merge
        return merge(found) if found and merge is not None else None

    def text(self, members: Iterable[str]) -> str:
        """The number of *members* as text; empty where there is none."""
        number = self.of(members)
        return "" if number is None else self.annotation.show(number)

    def total(self) -> float:
        """The number of the whole run; 0 where there is nothing to add up."""
        merge = self.annotation.merge
        return merge(self.by_node.values()) if self.by_node and merge is not None else 0


def measured(quantity: str) -> Callable[[Recording], Mapping[str, float]]:
    """What computes an annotation that the run itself has measured."""
    return lambda recording: dict(recording.measured.get(quantity, {}))


def by_name(name: str) -> Annotation:
    """The annotation of this name.

    Raises:
        UnknownAnnotation: There is none; the message lists those there are.
    """
    from torchrecorder.annotations import ANNOTATIONS

    known = {each.name: each for each in ANNOTATIONS}
    if name in known:
        return known[name]
    close = guess(name, known) or "."
    raise UnknownAnnotation(f"no annotation is called {name!r}{close} Known: {', '.join(known)}")

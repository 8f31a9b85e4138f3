"""Template: the layout of one distinct scope with its children closed."""

from __future__ import annotations

from typing import Any, NamedTuple

from torchrecorder.layout.layered.equal_branches import EqualBranches
from torchrecorder.layout.layered.ports import End


class ClosedChild(NamedTuple):
    """A closed child.

    Attributes:
        across: The position of its center, across the flow.
        row: Its layer.
        width: Its size across the flow.
        height: Its size along the flow.
        last: The last layer that it may fill when it is open.
    """

    across: float
    row: int
    width: float
    height: float
    last: int


class Stem(NamedTuple):
    """A segment of an edge along the flow, through layers and beside the boxes.

    Gap *n* is the space before layer *n*; the last gap follows the last layer.

    Attributes:
        across: Its position across the flow; -1 and less are lanes beside everything.
        begin: The gap in which it begins.
        end: The gap in which it ends; before *begin* for a line that runs back.
    """

    across: float
    begin: int
    end: int


class Branch(NamedTuple):
    """The route of a net to one of its sinks: the numbers of its stems, in order."""

    sink: End
    stems: tuple[int, ...]


class Trunk(NamedTuple):
    """A net with its route; *side*: it carries no data, but a mask, positions or the like."""

    source: End
    stems: tuple[Stem, ...]
    branches: tuple[Branch, ...]
    side: bool = False


class Template(NamedTuple):
    """One distinct scope.

    Attributes:
        children: Its children.
        rows: The number of layers.
        entries: The positions across the flow at which tensors enter.
        exits: The positions across the flow at which tensors leave.
        trunks: The nets that join the children.
        lanes: The number of lanes.
        branches: Equal branches, whose forks and joins are centered.
    """

    children: tuple[ClosedChild, ...]
    rows: int
    entries: tuple[float, ...]
    exits: tuple[float, ...]
    trunks: tuple[Trunk, ...]
    lanes: int
    branches: tuple[EqualBranches, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As lists, for the page."""
        return {
            "children": [list(closed) for closed in self.children],
            "rows": self.rows,
            "entries": list(self.entries),
            "exits": list(self.exits),
            "trunks": [
                [list(source), [list(stem) for stem in stems], [
                    [list(sink), list(way)] for sink, way in branches
                ], *[1] * side]
                for source, stems, branches, side in self.trunks
            ],
            "lanes": self.lanes,
            "branches": [[*map(list, each)] for each in self.branches],
        }

"""Constants of the nested layout; a page is given them, so that it lays out in the same way.

All distances are in points.
"""

from __future__ import annotations

PAD = 9.0
"""Between the border of an open scope and what is in it."""

BELOW = 4.0
"""Between the header of an open scope and what is in it."""

APART = {(True, True): 16.0, (True, False): 12.0, (False, True): 12.0, (False, False): 9.0}
"""Between two neighbours of a layer, each of which is a box or a line."""

BEFORE = 8.0
"""Between a layer and the first track below it."""

TRACK = 5.0
"""From one track to the next."""

BAND = 80.0
"""The most that all tracks of a gap take; more of them are closer to each other."""

ARROW = 10.0
"""Between the last track and the layer below, where arrows have their heads."""

GAP = 18.0
"""Between two layers with no track between them."""

EDGE = 10.0
"""Between the border of a scope and a layer, with no track between them."""

LANE = 6.0
"""From one lane to the next, and between the lanes and the rest of the scope."""

LANES = 150.0
"""The most that all lanes take; more of them are closer to each other."""

PORTS = 12.0
"""From one port of a box to the next, where lines cannot come straight."""

CLOSE = 8.0
"""Between two lines that come straight to a box, at least."""

ASIDE = 10.0
"""From the centre of a side at which a line may meet it, to come straight."""

INSET = 6.0
"""Between the corner of a box and a port, at least."""

LEVEL = 1.0
"""Lines that would move sideways by less than this go straight."""

CORNER = 5.0
"""Radius of the corners of a line."""

STRAIGHT, SIDE, LONG, TURN, THROUGH = 4, 3, 2, 1, 0.25
"""Weights of line segments in the coordinate assignment: between boxes in neighbouring layers;
the same where it is not the main line through both; between two dummy nodes; between a box and a
dummy node; and between the entry and the exit of a scope, so that chains of scopes are in line."""

ROUNDS = 3
"""How many times all boxes and groups are moved."""

PUSHED = 4
"""How many times a moving group may absorb the neighbours that block it."""

NEAR = 80.0
"""Distance between the ends of a line up to which both are moved as one group."""

BEND = 20.0
"""How much longer a line may become to lose a bend."""

FEW = 6
"""Number of lines up to which their bends count; of more, only the lengths do."""

WIDER = 0.25
"""The share of its first width by which a scope may grow for straight lines."""

LEAST = 0.01
"""Shorter moves are not made."""


def to_json() -> dict[str, float]:
    """All of them by name, for the page."""
    plain = {name: value for name, value in globals().items() if isinstance(value, (int, float))}
    boxes, mixed, lines = APART[True, True], APART[True, False], APART[False, False]
    return {**plain, "BOXES_APART": boxes, "MIXED_APART": mixed, "LINES_APART": lines}

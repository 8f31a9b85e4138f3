"""Constants of the nested layout; a page is given them, so that it lays out in the same way.

All distances are in points.
"""

from __future__ import annotations

PAD = 9.0
"""Between the border of an open scope and its contents."""

HEADER_GAP = 4.0
"""Between the header of an open scope and its contents."""

SEPARATION = {(True, True): 16.0, (True, False): 12.0, (False, True): 12.0, (False, False): 9.0}
"""Between two neighbours of a layer, each of which is a box or a line."""

TRACK_MARGIN = 8.0
"""Between a layer and the first track below it."""

TRACK_PITCH = 5.0
"""From one track to the next."""

MAX_TRACKS_HEIGHT = 80.0
"""The maximum height of all tracks of a gap; many tracks are closer to each other."""

ARROW_MARGIN = 10.0
"""Between the last track and the layer below, where arrows have their heads."""

LAYER_GAP = 18.0
"""Between two layers with no track between them."""

BORDER_MARGIN = 10.0
"""Between the border of a scope and a layer, with no track between them."""

LANE_PITCH = 6.0
"""From one lane to the next, and between the lanes and the rest of the scope."""

MAX_LANES_WIDTH = 150.0
"""The maximum width of all lanes; many lanes are closer to each other."""

PORT_PITCH = 12.0
"""From one port of a box to the next, where lines cannot be straight."""

MIN_PORT_PITCH = 8.0
"""The minimum distance between two straight lines into a box."""

MAX_PORT_OFFSET = 10.0
"""The maximum offset of a straight line from the centre of a side."""

PORT_MARGIN = 6.0
"""The minimum distance between the corner of a box and a port."""

STRAIGHT_TOLERANCE = 1.0
"""Lines with a smaller offset are drawn straight."""

CORNER_RADIUS = 5.0
"""Radius of the corners of a line."""

STRAIGHT_WEIGHT, LONG_WEIGHT, BEND_WEIGHT, SIDE_WEIGHT, THROUGH_WEIGHT = 4, 2, 1, 0.5, 0.25
"""Weights of line segments in the coordinate assignment: between boxes in neighbouring layers;
between two dummy nodes; between a box and a dummy node; from a box that reads nothing to one that
also reads others; and between the entry and the exit of a scope, so that chains of scopes are in
line."""

COMPACTION_PASSES = 3
"""The number of passes over all boxes and groups."""

MAX_PUSHES = 4
"""The maximum number of times that a moving group absorbs the neighbours that block it."""

GROUP_DISTANCE = 80.0
"""Distance between the ends of a line up to which both are moved as one group."""

BEND_COST = 20.0
"""The extra length of a line that one bend less is worth."""

MAX_BEND_EDGES = 6
"""Number of lines up to which their bends count; of more, only the lengths do."""

MAX_WIDENING = 0.25
"""The share of its first width by which a scope may grow for straight lines."""

MIN_MOVE = 0.01
"""Shorter moves are not made."""


def to_json() -> dict[str, float]:
    """All of them by name, for the page."""
    plain = {name: value for name, value in globals().items() if isinstance(value, (int, float))}
    boxes, mixed, lines = SEPARATION[True, True], SEPARATION[True, False], SEPARATION[False, False]
    return {**plain, "BOX_SEPARATION": boxes, "MIXED_SEPARATION": mixed, "LINE_SEPARATION": lines}

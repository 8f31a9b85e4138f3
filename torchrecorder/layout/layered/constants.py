"""Constants: distances and weights of the nested layout. The page gets them too, so that its layout
is the same.

All distances are in points.
"""

from __future__ import annotations

PAD = 9.0
"""Distance between the border of an open scope and its contents."""

HEADER_GAP = 4.0
"""Distance between the header of an open scope and its contents."""

TITLE_SHIFT = 24.0
"""How far the contents of a scope may move for a title in one line instead of two."""

SEPARATION = {(True, True): 16.0, (True, False): 12.0, (False, True): 12.0, (False, False): 9.0}
"""Minimum distance between two neighbors in a layer, by whether each of them is a box (else an
edge)."""

TRACK_MARGIN = 8.0
"""Distance between a layer and the first track below it."""

TRACK_PITCH = 5.0
"""Distance between two tracks."""

MAX_TRACKS_HEIGHT = 80.0
"""The maximum height of all tracks of a gap; if there are many, they are closer together."""

ARROW_MARGIN = 10.0
"""Distance between the last track and the layer below it, where the arrowheads are."""

LAYER_GAP = 18.0
"""Distance between two layers without a track between them."""

BORDER_MARGIN = 10.0
"""Distance between the border of a scope and a layer, without a track between them."""

LANE_PITCH = 6.0
"""Distance between two lanes, and between the lanes and the rest of the scope."""

MAX_LANES_WIDTH = 150.0
"""The maximum width of all lanes; if there are many, they are closer together."""

PORT_PITCH = 12.0
"""Distance between two ports of a box if its edges cannot be straight."""

MIN_PORT_PITCH = 8.0
"""The minimum distance between two straight edges into a box."""

MAX_PORT_OFFSET = 10.0
"""The maximum offset of a straight edge from the center of a side."""

PORT_MARGIN = 6.0
"""The minimum distance between the corner of a box and a port."""

STRAIGHT_TOLERANCE = 1.0
"""Edges with a smaller offset are drawn straight."""

CORNER_RADIUS = 5.0
"""Radius of the rounded corners of an edge."""

STRAIGHT_WEIGHT, LONG_WEIGHT, BEND_WEIGHT, SIDE_WEIGHT, THROUGH_WEIGHT = 4, 2, 1, 0.5, 0.25
"""Weights of segments in the coordinate assignment: between boxes in adjacent layers; between two
dummy nodes; between a box and a dummy node; from a source to a box that also reads other boxes; and
between the entry and the exit of a scope, so that chains of scopes are aligned."""

COMPACTION_PASSES = 3
"""The maximum number of passes over all bodies and groups."""

MAX_PUSHES = 4
"""How many times a moving group may absorb the neighbors that block it."""

GROUP_DISTANCE = 80.0
"""Bodies whose segments are aligned within this distance move as one group."""

BEND_COST = 20.0
"""One bend costs as much as this additional length of an edge."""

MAX_BEND_EDGES = 6
"""With more edges than this, bends cost nothing; only lengths count."""

MAX_WIDENING = 0.25
"""A scope may grow by this share of its initial width, so that edges are straight."""

MIN_MOVE = 0.01
"""The minimum distance of a move."""


def to_json() -> dict[str, float]:
    """All constants by name, for the page."""
    plain = {name: value for name, value in globals().items() if isinstance(value, (int, float))}
    boxes, mixed, lines = SEPARATION[True, True], SEPARATION[True, False], SEPARATION[False, False]
    return {**plain, "BOX_SEPARATION": boxes, "MIXED_SEPARATION": mixed, "LINE_SEPARATION": lines}

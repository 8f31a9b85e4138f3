"""Nested layout: each distinct scope is laid out once, then scopes are placed inside each other.

`plan` lays out every distinct scope on its own, with its children closed. `place` puts scopes
inside each other for any choice of open ones. An open box is larger, so its neighbors move aside,
and then close to the boxes that they are connected to. The order in a layer never changes.

Inside a scope, boxes are in layers, below the boxes that they read from. Edges run straight through
layers, beside the boxes, and horizontally only between layers. So no edge crosses a box.
"""

from __future__ import annotations

from torchrecorder.layout.layered.items import Item, Link
from torchrecorder.layout.layered.place import Picture, PlacedBox, place
from torchrecorder.layout.layered.plan import Plan, plan

__all__ = ["PlacedBox", "Item", "Link", "Picture", "Plan", "place", "plan"]

"""Nested layout: each distinct scope is laid out once, then scopes are placed inside each other.

`plan` lays out every distinct scope on its own, with its children closed. `place` puts scopes
inside each other for any choice of open ones: an open box is larger, so its neighbours move aside,
then close to the boxes they are connected to. The order in a row never changes.

Inside a scope, boxes are in rows (layers), below the boxes they read from. Lines run straight
through rows, beside the boxes, and sideways only between rows, so that no line crosses a box.
"""

from __future__ import annotations

from torchrecorder.layout.layered.items import Item, Link
from torchrecorder.layout.layered.place import Picture, PlacedBox, place
from torchrecorder.layout.layered.plan import Plan, plan

__all__ = ["PlacedBox", "Item", "Link", "Picture", "Plan", "place", "plan"]

"""Nested layout: each distinct scope laid out once, scopes put inside each other.

`plan` lays out every distinct scope on its own, with its children closed. `place` puts scopes
inside each other for any choice of open ones: opening a box makes it larger, and neighbours move
aside, then close to what they are connected to. Siblings of a row keep their order, whatever is
opened and closed.

Inside a scope, boxes are in rows, below the boxes they read from. Lines run straight through rows,
beside the boxes, and sideways only between rows, so that no line crosses a box.
"""

from __future__ import annotations

from torchrecorder.layout.layered.items import Item, Link
from torchrecorder.layout.layered.place import Drawn, Picture, place
from torchrecorder.layout.layered.plan import Plan, plan

__all__ = ["Drawn", "Item", "Link", "Picture", "Plan", "place", "plan"]

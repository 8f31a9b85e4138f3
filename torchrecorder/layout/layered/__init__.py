"""Nested layout: each distinct scope laid out once, scopes put inside each other.

`plan` lays out every distinct scope on its own, with all that is in it closed. `place` puts
scopes inside each other for any choice of open ones: opening a box makes it larger, and what
is in its way moves aside, and comes to rest near what it is joined to. Siblings of a row
keep their order, whatever is opened and closed, in any order.

Inside a scope boxes stand in rows, each below what it reads. Lines run straight through
rows, beside the boxes, and sideways only between rows, so that none can cross a box.
"""

from __future__ import annotations

from torchrecorder.layout.layered.items import Item, Link
from torchrecorder.layout.layered.place import Drawn, Picture, place
from torchrecorder.layout.layered.plan import Plan, plan

__all__ = ["Drawn", "Item", "Link", "Picture", "Plan", "place", "plan"]

"""Loops: the folds of a page that pass a value from one round of a loop to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchrecorder.style.loops import runs_again
from torchrecorder.views.tree import Tree
from torchrecorder.views.view import Box


def loops(tree: Tree, folds: Mapping[str, Box]) -> list[int]:
    """The places of folds whose siblings are the same modules or lines and feed each other.

    Args:
        tree: The places.
        folds: For the id of each fold the box that it is when closed.
    """
    found: dict[int, None] = {}
    for fold, head in _between_siblings(tree) if folds else ():
        box = folds[tree.places[fold].id]
        if fold not in found and runs_again(tree.view.recording, box, head):
            found[fold] = None
    return sorted(found)


def _between_siblings(tree: Tree) -> Iterator[tuple[int, str]]:
    """Each arrow from one sibling of a fold to another: the place of the fold, and its head."""
    places, ends = tree.places, tree.ends
    for number in tree.leaving:
        tail, head = tree.lines[number]
        around = places[tail].parent
        while around >= 0 and not around < head < ends[around]:
            around = places[around].parent
        if around >= 0 and places[around].fold:
            yield around, places[head].id

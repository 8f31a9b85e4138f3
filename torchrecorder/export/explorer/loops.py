"""Loops: the folds of a page that pass a value from one round of a loop to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchrecorder.style.loops import module_around, runs_again
from torchrecorder.views.tree import Tree
from torchrecorder.views.view import Arrow, Box


def loops(tree: Tree, folds: Mapping[str, Box]) -> dict[int, tuple[Arrow, ...]]:
    """The arrows between siblings that are the same modules or lines, by the place of the fold.

    Args:
        tree: The places.
        folds: For the id of each fold the box that it is when closed.
    """
    found: dict[int, list[Arrow]] = {}
    known: dict[tuple[int, str, bool], bool] = {}
    recording = tree.view.recording
    for fold, arrow in _between_siblings(tree) if folds else ():
        box, module = folds[tree.places[fold].id], module_around(recording, arrow.head)
        key = fold, module.id if module is not None else "", arrow.head in recording.ops
        if key not in known:
            known[key] = runs_again(recording, box, arrow.head)
        if known[key]:
            found.setdefault(fold, []).append(arrow)
    return {fold: tuple(arrows) for fold, arrows in sorted(found.items())}


def _between_siblings(tree: Tree) -> Iterator[tuple[int, Arrow]]:
    """Each arrow from one sibling of a fold to another, with the place of the fold."""
    places, ends = tree.places, tree.ends
    for number in tree.leaving:
        tail, head = tree.lines[number]
        around = places[tail].parent
        while around >= 0 and not around < head < ends[around]:
            around = places[around].parent
        if around >= 0 and places[around].fold:
            yield around, tree.view.arrows[number]

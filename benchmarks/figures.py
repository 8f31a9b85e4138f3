"""How the figures of real models turn out: their form, their text, and their lines.

Everything is measured on the SVG files. For each model, and over all of them:

- height / width of the default figure, and of that which is made to fit a page and a notebook;
- whether its text has at least 5 pt on a page of A4, and in a cell of 900 by 600 pixels;
- crossings: places where a line that runs level crosses one that runs upright and carries
  another tensor;
- order: operations for which the order of arguments matters and whose arrows arrive in another
  one, how many of these have no small names at the heads, and how many there are;
- boxes, and the share of lines of text that are shapes; how many of these repeat the shape of
  all that the box reads.

Run: ``python -m benchmarks.figures [--keep FOLDER] [--fit PLACE] [MODEL ...]``. Recordings and
figures are kept in the folder, and recordings that are there are used again.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torchrecorder
from benchmarks import check_names
from torchrecorder.drawing import chosen_view
from torchrecorder.export.graphviz import Svg
from torchrecorder.export.nested import smallest
from torchrecorder.options import drawing
from torchrecorder.recording import Recording
from torchrecorder.style.draw import draw
from torchrecorder.style.figure import Figure
from torchrecorder.style.paper import Paper, place
from torchrecorder.views.bundles import bundles
from torchrecorder.views.view import View

READABLE = 5.0
"""Points that text must have."""

ORDERED = frozenset(
    "sub rsub div true_divide floor_divide pow remainder fmod matmul mm bmm mv addmm baddbmm cat "
    "concat stack hstack vstack where lerp scaled_dot_product_attention gather einsum lt gt "
    "multi_head_attention_forward cross_entropy".split()
)
"""Functions whose result depends on the order of their arguments."""

_SIZE = re.compile(r'<svg width="([\d.]+)(mm|pt)" height="([\d.]+)(?:mm|pt)"')
_EDGE = re.compile(r'<g id="edge(\d+)" class="edge.*?<path[^>]* d="([^"]*)"', re.DOTALL)
_TIP = re.compile(r'<g id="edge(\d+)" class="edge.*?<polygon[^>]* points="([^"]*)"', re.DOTALL)
_WHOLE = re.compile(r'<g id="edge(\d+)"(.*?)(?=<g id="(?:edge|node|clust)|\Z)', re.DOTALL)
_TEXT = re.compile(r"<text [^>]*>([^<]*)</text>")
_SHAPE = re.compile(r"(→ )?(\d+ of )?(\[\d+\]|scalar|\d+(×\d+)+)[^a-z]*( [a-z]+\d*)?(, …)?")
_POINT = re.compile(r"(-?[\d.]+),(-?[\d.]+)")

Point = tuple[float, float]


class Measured(NamedTuple):
    """What was found out about one figure."""

    boxes: int
    width: float
    height: float
    page: float
    cell: float
    crossings: int
    ordered: int
    disordered: int
    unnamed: int
    texts: int
    shapes: int
    repeated: int

    @property
    def ratio(self) -> float:
        """Height by width."""
        return self.height / self.width


def measure(recording: Recording, fit: str | None, path: Path) -> Measured:
    """Draw *recording* to *path* and measure the figure; the place that it fits may be given."""
    options = {"fit": fit, "min_fontsize": 0} if fit else {}
    chosen = drawing(Svg(), **options)
    view = chosen_view(recording, chosen)
    figure = draw(view, chosen.style)
    svg = Svg().export(view, chosen.style).decode()
    path.write_text(svg)
    width, height, shown = _size(svg)
    texts = [text for text in _TEXT.findall(svg) if text.strip()]
    found = [text for text in texts if _SHAPE.fullmatch(text.strip())]
    text = smallest(figure) * shown
    return Measured(
        len(figure.shapes), width, height,
        *(text * _scale(name, width, height) for name in ("page", "cell")),
        _crossings(svg, figure),
        *_order(svg, view),
        len(texts), len(found), _repeated(figure),
    )


def _size(svg: str) -> tuple[float, float, float]:
    """Width and height in points, and by how much everything was made smaller."""
    said = _SIZE.search(svg)
    box = re.search(r'viewBox="\S+ \S+ (\S+) ', svg)
    assert said is not None and box is not None
    unit = 72 / 25.4 if said[2] == "mm" else 1.0
    width, height = float(said[1]) * unit, float(said[3]) * unit
    return width, height, width / float(box[1])


def _scale(name: str, width: float, height: float) -> float:
    room = place(name)
    assert room is not None
    return Paper(*room).scale(width, height)


def _crossings(svg: str, figure: Figure) -> int:
    """How often a level piece of one line crosses an upright piece of another."""
    level: list[tuple[float, float, float, object]] = []
    upright: list[tuple[float, float, float, object]] = []
    for number, way in _EDGE.findall(svg):
        if int(number) > len(figure.lines):
            continue  # the line back in a loop
        line = figure.lines[int(number) - 1]
        points = [(float(x), float(y)) for x, y in _POINT.findall(way)]
        for (ax, ay), (bx, by) in zip(points, points[1:]):
            if abs(ay - by) < 0.05 < abs(ax - bx):
                level.append((ay, min(ax, bx), max(ax, bx), (line.tail, line.value)))
            elif abs(ax - bx) < 0.05 < abs(ay - by):
                upright.append((ax, min(ay, by), max(ay, by), (line.tail, line.value)))
    upright.sort(key=lambda piece: piece[0])
    return sum(
        low < x < high and top < y < bottom and one != other
        for y, low, high, one in level
        for x, top, bottom, other in upright
    )


def _order(svg: str, view: View) -> tuple[int, int, int]:
    """How many operations have an order of arguments, how many have arrows in another one, and
    how many of these have arrows, all but one, without a name.
    """
    named = {number for number, piece in _WHOLE.findall(svg) if "<text" in piece}
    tips = {int(number) - 1: _tip(points) for number, points in _TIP.findall(svg)}
    arriving: dict[str, list[tuple[int, float, bool]]] = {}
    for number, bundle in enumerate(bundles(view)):
        arrow = bundle.first
        op = view.recording.ops.get(arrow.head)  # type: ignore[call-overload]
        if op is not None and op.name in ORDERED and number in tips:
            slots = [slot.name for slot in op.inputs]
            if arrow.slot in slots:
                place = (slots.index(arrow.slot), tips[number][0], str(number + 1) in named)
                arriving.setdefault(arrow.head, []).append(place)
    several = [sorted(found) for found in arriving.values() if len(found) > 1]
    wrong = [each for each in several if [x for _, x, _ in each] != sorted(x for _, x, _ in each)]
    unnamed = [each for each in wrong if sum(name for *_, name in each) < len(each) - 1]
    return len(several), len(wrong), len(unnamed)


def _tip(points: str) -> Point:
    """The head of an arrow: the corner that is lowest on the paper."""
    corners = [(float(x), float(y)) for x, y in _POINT.findall(points)]
    return max(corners, key=lambda corner: corner[1])


def _repeated(figure: Figure) -> int:
    """How many boxes say of what they give out only what all that they read has, too."""
    gives = {line.tail: line.label for line in figure.lines if line.label}
    for shape in figure.shapes:
        if shape.kind == "input" and len(shape.label) > 1:
            gives[shape.id] = shape.label[-1].text
    reads: dict[str, set[str]] = {}
    for line in figure.lines:
        reads.setdefault(line.head, set()).add(gives.get(line.tail, ""))
    return sum(reads.get(tail) == {label} for tail, label in gives.items())


def _recordings(names: Sequence[str], folder: Path) -> Iterator[tuple[str, Recording]]:
    """Each model's run: the one in the folder, or a new one, which is kept there."""
    from benchmarks import figure_models
    from tests import real_models

    check_names(names, dict.fromkeys((*figure_models.names(), *real_models.available())))
    for name in names or figure_models.names():
        path = folder / f"{name}.json"
        if not path.exists():
            figure_models.recorded(name).save(path)
        yield name, torchrecorder.load(path)


def _line(name: str, found: Measured) -> str:
    size = f"{found.width:5.0f}×{found.height:<5.0f} {found.ratio:5.2f}"
    fits = f"{found.page:5.1f} {found.cell:5.1f}"
    order = f"{found.unnamed:3} of {found.disordered:3} of {found.ordered:<3}"
    shapes = f"{found.shapes:4} of {found.texts:<4} {found.repeated:4}"
    return f"{name:17} {found.boxes:5} {size} {fits} {found.crossings:6} {order} {shapes}"


def _summary(found: Sequence[Measured]) -> Iterator[str]:
    many, shapes = len(found), sum(each.shapes for each in found)
    ratios = [each.ratio for each in found]
    texts, repeated = sum(each.texts for each in found), sum(each.repeated for each in found)
    yield f"median height / width {statistics.median(ratios):.2f}"
    yield f"above 3: {sum(ratio > 3 for ratio in ratios)} of {many}"
    for name in ("page", "cell"):
        fitting = sum(getattr(each, name) >= READABLE - 0.01 for each in found)
        yield f"at {READABLE:g} pt in a {name}: {fitting} of {many}"
    wrong, ordered = sum(each.disordered for each in found), sum(each.ordered for each in found)
    unnamed = sum(item.unnamed for item in found)
    crossings = sum(item.crossings for item in found)
    yield f"out of order: {wrong} of {ordered}, {unnamed} without names; crossings {crossings}"
    yield f"boxes: median {statistics.median(each.boxes for each in found):g}"
    yield f"shapes: {shapes / texts:.0%} of the lines of text, {repeated / shapes:.0%} repeated"


def main() -> None:
    """Measure the figures of the models that are named, or of all."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--fit", metavar="PLACE", help="only the figures that fit this place")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        for fit in [given.fit] if given.fit else (None, "page", "cell"):
            print(f"\n{f'fit={fit!r}' if fit else 'default'}: boxes, points, height/width, "
                  "text in pt on a page and in a cell, crossings, out of order and without names, "
                  "shapes, repeated")
            found = []
            for name, recording in _recordings(given.models, folder):
                path = folder / f"{name}{f'-{fit}' if fit else ''}.svg"
                found.append(measure(recording, fit, path))
                print(_line(name, found[-1]), flush=True)
            print("\n".join(_summary(found)))


if __name__ == "__main__":
    main()

"""Figures on paper of an exact size."""

from __future__ import annotations

import re
import struct
import warnings
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DecodedStreamObject, NameObject, RectangleObject

from tests.figures import network
from tests.views.test_fold import stack
from tests.views.test_group import convnet
from torchrecorder.errors import DoesNotFit, InvalidArgument, LargerThanAPage
from torchrecorder.export import by_suffix, paper_pdf
from torchrecorder.export.dot import dot_text
from torchrecorder.export.graphviz import Svg
from torchrecorder.export.svg import on_page
from torchrecorder.graph.saved_files import save
from torchrecorder.integrations.cli import main
from torchrecorder.options import drawing
from torchrecorder.style.draw import draw
from torchrecorder.style.paper import Fit, Paper, points
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import make_view

MM = 72 / 25.4


def drawn(suffix: str, **options: Any) -> bytes:
    """A figure of a small network in this format."""
    chosen = drawing(by_suffix(suffix), **{"depth": 2, **options})
    assert chosen.exporter is not None
    contents = chosen.exporter.export(make_view(network(), chosen.view), chosen.style)
    assert isinstance(contents, bytes)
    return contents


def page_of(pdf: bytes) -> tuple[float, ...]:
    """The size of the page that a reader finds."""
    (page,) = PdfReader(BytesIO(pdf)).pages
    return float(page.mediabox.width), float(page.mediabox.height)


def size_of(svg: bytes) -> tuple[float, ...]:
    """Width and height of an SVG, in millimeters."""
    found = re.search(rb'<svg width="([\d.]+)mm" height="([\d.]+)mm"', svg)
    assert found is not None
    return float(found[1]), float(found[2])


@pytest.mark.parametrize("length, width", [
    ("85mm", 85), ("8.5cm", 85), ("3.5 in", 88.9), ("241pt", 241 / MM), (" 180MM", 180),
])
def test_a_length(length: str, width: float) -> None:
    """Millimeters, centimeters, inches and points are known."""
    found = points("width", length)
    assert found == pytest.approx(width * MM)


@pytest.mark.parametrize("length", [85, "85", "85pc", "", "-3mm", "0mm", "mm", "1e9mm", b"85mm"])
def test_no_length(length: Any) -> None:
    """What has no unit, or is nothing or less, is told before anything runs."""
    with pytest.raises(InvalidArgument, match="width must be a length with its unit"):
        Style(width=length)


@pytest.mark.parametrize("least", [-1, True, "6", float("nan")])
def test_no_font_size(least: Any) -> None:
    """A smallest size of text is a number."""
    with pytest.raises(InvalidArgument, match="min_fontsize must be"):
        Style(min_fontsize=least)


def test_fitting() -> None:
    """Made smaller in both directions alike, never larger, in the middle of the page."""
    assert Paper(width=50).fit(100, 40, 10) == Fit(0.5, 50, 20, 0, 0)
    assert Paper(width=200).fit(100, 40, 10) == Fit(1, 200, 40, 50, 0)
    assert Paper(width=200, height=20).fit(100, 40, 10) == Fit(0.5, 200, 20, 75, 0)
    assert Paper(height=80).fit(100, 40, 10) == Fit(1, 100, 80, 0, 20)
    assert not Paper(min_fontsize=5) and Paper(height=3)


def test_text_that_would_be_too_small() -> None:
    """The error says what size it would have, and what would do."""
    paper = Paper(width=85 * MM, min_fontsize=6)
    assert paper.fit(100 * MM, 40 * MM, 7.06).scale == pytest.approx(0.85)
    with pytest.raises(DoesNotFit) as error:
        paper.fit(170 * MM, 40 * MM, 8)
    said = str(error.value)
    assert said.startswith("on paper 85 mm wide the smallest text would be 4.0 pt, and")
    assert "170 mm wide and 40 mm high at full size, and needs a width of at least 128 mm." in said
    assert Paper(width=128 * MM, min_fontsize=6).fit(170 * MM, 40 * MM, 8).scale > 0.74


def test_text_that_is_too_small_from_the_start() -> None:
    """Larger paper does not help there."""
    with pytest.raises(DoesNotFit, match="4 pt before anything is made to fit.*larger fontsize"):
        Paper(width=500, min_fontsize=5).fit(100, 40, 4)


@pytest.mark.parametrize("layout", ["nested", "dot"])
def test_pdf_pages(layout: str) -> None:
    """A PDF page is as wide as asked, to a thousandth of a point."""
    pdf = drawn(".pdf", width="85mm", height="140mm", layout=layout)
    assert page_of(pdf) == pytest.approx((85 * MM, 140 * MM), abs=1e-3)
    plain = drawn(".pdf", layout=layout)
    assert page_of(drawn(".pdf", width="200mm", layout=layout))[1] == page_of(plain)[1]


@pytest.mark.parametrize("background", ["transparent", "#336699"])
def test_a_pdf_page_shows_the_whole_figure(background: str) -> None:
    """What draws the figure is made smaller as a whole, on paper of the color asked for."""
    plain = drawn(".pdf", background=background)
    paper = drawn(".pdf", background=background, width="30mm", min_fontsize=2)
    start = re.match(rb"q (?:([\d. ]+) rg 0 0 [\d. ]+ re f)? ([\d.]+) 0 0 ", drawing_of(paper))
    assert start is not None
    assert start[1] == (None if background == "transparent" else b"0.2000 0.4000 0.6000")
    assert float(start[2]) == pytest.approx(30 * MM / page_of(plain)[0], abs=1e-4)
    assert drawing_of(paper).partition(b" cm\n")[2] == drawing_of(plain) + b"\nQ\n"


def drawing_of(pdf: bytes) -> bytes:
    """The instructions that draw the only page."""
    contents = PdfReader(BytesIO(pdf)).pages[0].get_contents()
    assert contents is not None
    return contents.get_data()


def packed() -> bytes:
    """A page of 60.5 by 40 points as Cairo 1.18 writes it: most objects in a compressed stream."""
    inside = {
        3: b"<< /Type /Catalog /Pages 4 0 R >>",
        4: b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
        5: b"<< /Type /Page /Parent 4 0 R /MediaBox [0 0 60.5 40] /Contents 1 0 R"
        b" /Group << /Type /Group /S /Transparency /CS /DeviceRGB >> /Resources << >> >>",
        6: b"<< /Producer (cairo 1.18.0) /CreationDate (D:20260101000000Z) >>",
    }
    bodies, heads = b"", []
    for number, body in inside.items():
        heads.append(b"%d %d" % (number, len(bodies)))
        bodies += body + b" "
    head = b" ".join(heads) + b" "
    objects = {
        1: _stream(b"", b"1 0 0 rg 0 0 60.5 40 re f"),
        2: _stream(b"/Type /ObjStm /N 4 /First %d" % len(head), head + bodies),
    }
    pdf, at = b"%PDF-1.7\n", {}
    for number, body in objects.items():
        at[number] = len(pdf)
        pdf += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = [(0, 0, 0), (1, at[1], 0), (1, at[2], 0), *((2, 2, index) for index in range(4))]
    table = b"".join(struct.pack(">BHB", *row) for row in (*rows, (1, len(pdf), 0)))
    kinds = b"/Type /XRef /Size 8 /W [1 2 1] /Root 3 0 R /Info 6 0 R"
    end = b"7 0 obj\n%s\nendobj\nstartxref\n%d\n%%%%EOF\n" % (_stream(kinds, table), len(pdf))
    return pdf + end


def in_parts() -> bytes:
    """The same page as Quartz may write it: from the lower left elsewhere, drawn in two parts."""
    writer = PdfWriter(clone_from=PdfReader(BytesIO(packed())))
    (page,) = writer.pages
    parts = [_first(writer, b"1 0 0 rg"), _first(writer, b"0 0 60.5 40 re f")]
    page[NameObject("/Contents")] = ArrayObject(parts)
    page.cropbox = page.mediabox = RectangleObject((-10, 5, 50.5, 45))
    file = BytesIO()
    writer.write(file)
    return file.getvalue()


def _first(writer: PdfWriter, text: bytes) -> Any:
    stream = DecodedStreamObject()
    stream.set_data(text)
    return writer._add_object(stream)


def _stream(head: bytes, data: bytes) -> bytes:
    packed = zlib.compress(data)
    entries = head + b" /Filter /FlateDecode /Length %d" % len(packed)
    return b"<< %s >>\nstream\n%s\nendstream" % (entries, packed)


def test_svg_of_any_scale() -> None:
    """The page in millimeters; what it shows in points of the figure."""
    svg = b'<svg width="40pt" height="20pt"\n viewBox="0.00 0.00 40.00 20.00">\n</svg>'
    placed = on_page(svg, Fit(0.5, 72.0, 36.0, 26.0, 13.0), "#ff0000").decode()
    assert 'width="25.4mm" height="12.7mm"' in placed
    assert 'viewBox="-52.000 -26.000 144.000 72.000"' in placed
    assert 'x="-52.000" y="-26.000" width="144.000" height="72.000" fill="#ff0000"' in placed


@pytest.mark.parametrize("made", [packed, in_parts])
def test_pdf_of_other_programs(made: Callable[[], bytes]) -> None:
    """Graphviz writes with Cairo of any version, or with Quartz: all of it is understood."""
    pdf = made()
    assert paper_pdf.size_of(pdf) == (60.5, 40)
    placed = paper_pdf.on_page(pdf, Fit(0.5, 100.125, 50.25, 10, 20), "#ff0000")
    assert page_of(placed) == (100.125, 50.25)
    assert PdfReader(BytesIO(placed)).pages[0].cropbox.width == pytest.approx(100.125)
    left, top = (10, 20) if made is packed else (15, 17.5)
    start = f"q 1.0000 0.0000 0.0000 rg 0 0 100.1250 50.2500 re f 0.500000 0 0 0.500000 {left:.4f} "
    told = drawing_of(placed)
    assert told.startswith(f"{start}{top:.4f} cm\n1 0 0 rg".encode())
    assert told.rstrip().endswith(b"re f\nQ")
    for same in (placed, paper_pdf.undated(pdf)):
        assert PdfReader(BytesIO(same)).metadata is None and b"2026" not in same
    assert paper_pdf.undated(pdf) == paper_pdf.undated(pdf)


def test_pdf_without_margins_and_dates() -> None:
    """A page is no larger than its figure, and equal figures are equal files."""
    pdf = drawn(".pdf")
    svg = re.search(rb'<svg width="([\d.]+)pt" height="([\d.]+)pt"', drawn(".svg"))
    assert svg is not None
    assert page_of(pdf) == pytest.approx([float(each) for each in svg.groups()], abs=1.5)
    assert b"CreationDate" not in pdf and b"%%EOF" in pdf


def test_fonts_are_in_the_pdf() -> None:
    """LaTeX and printers need no font of their own."""
    pdf = drawn(".pdf", width="85mm")
    fonts = re.findall(rb"/Type /FontDescriptor.*?>>", pdf, re.DOTALL)
    assert fonts and all(b"/FontFile" in font for font in fonts)


@pytest.mark.parametrize("layout", ["nested", "dot"])
def test_svg_pages(layout: str) -> None:
    """An SVG has its size in millimeters, and shows the whole figure in the middle."""
    svg = drawn(".svg", width="200mm", height="140mm", layout=layout)
    assert size_of(svg) == (200, 140)
    box = re.search(rb'viewBox="([-\d. ]+)"', svg)
    assert box is not None
    left, top, width, height = map(float, box[1].split())
    assert width / height == pytest.approx(200 / 140, rel=1e-4) and left < 0
    natural = re.search(rb'viewBox="0.00 0.00 ([\d. ]+)"', drawn(".svg", layout=layout))
    assert natural is not None
    across, down = map(float, natural[1].split())
    assert (left + width / 2, top + height / 2) == pytest.approx((across / 2, down / 2), abs=0.01)


@pytest.mark.parametrize("layout", ["nested", "dot"])
@pytest.mark.parametrize("width, dpi, pixels", [("85mm", 300, 1004), ("3in", 144, 432)])
def test_png_pages(layout: str, width: str, dpi: float, pixels: int) -> None:
    """A bitmap has the pixels for its size, and says how many go to the inch."""
    png = drawn(".png", width=width, dpi=dpi, layout=layout)
    assert struct.unpack(">I", png[16:20])[0] == pixels
    at = png.index(b"pHYs")
    assert struct.unpack(">II", png[at + 4 : at + 12]) == (round(dpi / 0.0254),) * 2


def test_small_text_in_figures() -> None:
    """Shapes are small print; without any of it the titles count."""
    narrow = {"width": "20mm", "min_fontsize": 4.4}
    for suffix in (".svg", ".pdf", ".png"):
        with pytest.raises(DoesNotFit, match="on paper 20 mm wide"):
            drawn(suffix, **narrow)
    assert size_of(drawn(".svg", **{**narrow, "min_fontsize": 0}))[0] == 20
    with pytest.raises(DoesNotFit, match="6.4 pt before anything is made to fit"):
        drawn(".svg", width="300mm", fontsize=8, min_fontsize=7)


def test_larger_text_in_a_smaller_figure() -> None:
    """What is shown decides whether it fits: a closed model does where its layers do not."""
    chosen = {"width": "30mm", "height": "35mm"}
    with pytest.raises(DoesNotFit, match="mm high the smallest"):
        drawn(".svg", **chosen)
    assert size_of(drawn(".svg", **chosen, depth=0)) == (30, 35)


def test_a_page_is_filled_in_columns() -> None:
    """With both sides given, a chain that would be tiny in one column is read in several."""
    options = {"width": "180mm", "height": "260mm", "fold": False, "depth": 2}
    chosen = drawing(by_suffix(".svg"), min_fontsize=4.9, **options)
    view = make_view(stack(24), chosen.view)
    assert chosen.exporter is not None
    chosen.exporter.export(view, chosen.style)
    with pytest.raises(DoesNotFit) as caught:
        Svg(layout="dot").export(view, chosen.style)
    said = re.search(r"the smallest text would be ([\d.]+) pt", str(caught.value))
    assert said is not None and float(said[1]) < 4.9 / 2  # how small, the machine's fonts decide


def test_room_for_graphviz() -> None:
    """A graph to work on tells Graphviz the most room it may take."""
    view = make_view(convnet())
    text = dot_text(draw(view, Style(width="254mm", height="1in")))
    assert 'size="10.0000,1.0000"' in text
    assert ' size="' not in dot_text(draw(view))


def test_the_legend_of_a_column() -> None:
    """It stands where the page stays small: below, in columns, if the width counts."""
    def sides(**options: Any) -> tuple[float, float]:
        found = re.search(rb'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', drawn(".svg", **options))
        assert found is not None
        return float(found[1]), float(found[2])

    plain, tall = sides(), sides(legend=True)
    assert tall[0] == plain[0] and tall[1] > plain[1] + 15
    plain, beside = sides(direction="LR"), sides(direction="LR", legend=True)
    assert beside[0] > plain[0] + 50 and abs(beside[1] - plain[1]) < 15
    wide, below = sides(width="93mm"), sides(width="93mm", legend=True)
    assert below[0] == wide[0] and below[1] > wide[1] + 40
    svg = drawn(".svg", width="93mm", legend=True)
    places = re.findall(rb'y="([-\d.]+)" [^>]*>(?:input|output|module|weights)\b[^<]*<', svg)
    assert len(places) > len(set(places)) > 1


@pytest.mark.parametrize(
    ("sides", "size", "said"),
    [
        ({"width": 100.0}, (100.0, 900.0), "317 mm, higher than .* A4 .* Set height='240mm'"),
        ({"height": 100.0}, (900.0, 100.0), "wider than .* A4 .* Set width='240mm'"),
        ({"width": 100.0}, (100.0, 800.0), None),
        ({"width": 100.0, "height": 900.0}, (100.0, 900.0), None),
        ({}, (100.0, 900.0), None),
    ],
)
def test_a_side_that_no_page_has(sides: Any, size: tuple[float, float], said: str | None) -> None:
    """Who gives one side alone is warned of the other; who gives both has chosen."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Paper(**sides).fit(*size, 8.0)
    told = [str(each.message) for each in caught if each.category is LargerThanAPage]
    assert bool(told) is (said is not None)
    assert said is None or re.search(said, told[0])


def test_the_command_line_writes_it_as_a_sentence(capsys: Any, tmp_path: Any) -> None:
    """Without a line of code."""
    run = tmp_path / "run.json"
    save(stack(40), run)
    out = str(tmp_path / "long.svg")
    main(["render", str(run), "-o", out, "--width", "60mm", "--depth", "3", "--no-fold"])
    assert "torchrecorder: warning: the figure is 60 mm by" in capsys.readouterr().err

"""Charts as files: the same picture in each format."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchrecorder.errors import UnknownFormat
from torchrecorder.export.area_chart import AreaChart, Phase
from torchrecorder.export.chart_files import write_chart, write_page
from torchrecorder.export.line_chart import LineChart

CHART = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="40" font-size="8" fill="#112233">'
    '<rect x="0" y="0" width="60" height="40" fill="#ffffff"/>'
    '<rect x="30" y="0" width="30" height="20" fill="#ff0000"/>'
    '<text x="2" y="30">Loss</text></svg>\n'
)


def test_charts_have_the_format_of_their_suffix(tmp_path: Path) -> None:
    """The file itself, a page around it, a picture with two dots to the point."""
    assert write_chart(CHART, tmp_path / "a.svg").read_text() == CHART
    page = write_chart(CHART, tmp_path / "a.html").read_text()
    assert CHART in page and "<title>Loss</title>" in page and page.startswith("<!DOCTYPE html>")
    pdf = write_chart(CHART, tmp_path / "a.PDF").read_bytes()
    assert pdf.startswith(b"%PDF") and b"CreationDate" not in pdf
    assert pdf == write_chart(CHART, tmp_path / "b.pdf").read_bytes()
    png = write_chart(CHART, tmp_path / "a.png").read_bytes()
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == pytest.approx((120, 80), abs=4)
    with pytest.raises(UnknownFormat, match=r"\.svg, \.pdf, \.png or \.html, not as 'a\.gif'"):
        write_chart(CHART, tmp_path / "a.gif")


def test_a_chart_keeps_its_place_and_colors(tmp_path: Path) -> None:
    """Looked up in the picture: red above on the right, white below and left."""
    image = pytest.importorskip("PIL.Image")
    picture = image.open(write_chart(CHART, tmp_path / "a.png")).convert("RGB")
    wide, high = picture.size
    assert picture.getpixel((wide * 3 // 4, high // 4)) == (255, 0, 0)
    for across, along in ((1, 1), (3, 3)):
        spot = (wide * across // 4, high * along // 4)
        assert picture.getpixel(spot) == (255, 255, 255)


SHAPES = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="100" height="60" font-size="10" fill="#00ff00">'
    '<rect x="0" y="0" width="100" height="60" fill="#ffffff"/>'
    '<line x1="0" y1="5" x2="50" y2="5" stroke="#ff0000" stroke-width="4"/>'
    '<polyline points="60,5 90,5 90,20" fill="none" stroke="#0000ff" stroke-width="4"/>'
    '<path d="M0,15 L40,15" fill="none" stroke="#00ffff" stroke-width="4"/>'
    '<polygon points="0,25 20,25 20,45 0,45" fill="#ff00ff"/>'
    '<polygon points="25,25 45,25 45,45 25,45"/>'
    '<circle cx="75" cy="40" r="6" fill="#ffff00"/>'
    '{}</svg>'
)
COLORS = {
    (25, 5): "ff0000", (55, 5): "ffffff", (75, 5): "0000ff", (90, 15): "0000ff",
    (20, 15): "00ffff", (45, 15): "ffffff", (10, 35): "ff00ff", (35, 35): "00ff00",
    (22, 35): "ffffff", (75, 40): "ffff00", (75, 45): "ffff00", (80, 45): "ffffff",
    (83, 40): "ffffff",
}


def test_all_that_a_chart_is_made_of_is_painted(tmp_path: Path) -> None:
    """Lines, areas and dots where they are and in their colors; what has none, in the usual."""
    image = pytest.importorskip("PIL.Image")
    picture = image.open(write_chart(SHAPES.format(""), tmp_path / "a.png")).convert("RGB")
    scale = picture.size[0] / 100
    found = {
        (x, y): "{:02x}{:02x}{:02x}".format(*picture.getpixel((int(x * scale), int(y * scale))))
        for x, y in COLORS
    }
    assert found == COLORS


@pytest.mark.parametrize(
    ("anchor", "low", "high"), [("start", 48, 95), ("middle", 25, 75), ("end", 5, 52)]
)
def test_texts_of_a_chart_stand_at_their_anchor(
    tmp_path: Path, anchor: str, low: int, high: int
) -> None:
    """Right of it, around it or left of it; above their line."""
    image = pytest.importorskip("PIL.Image")
    text = f'<text x="50" y="58" fill="#000000" text-anchor="{anchor}">mmmm</text>'
    picture = image.open(write_chart(SHAPES.format(text), tmp_path / "a.png")).convert("L")
    scale = picture.size[0] / 100
    across = [
        x / scale for x in range(picture.size[0])
        if any(picture.getpixel((x, int(y * scale))) < 60 for y in range(52, 58))
    ]
    assert low < across[0] < across[-1] < high and across[-1] - across[0] > 15
    if anchor == "middle":
        assert across[0] + across[-1] == pytest.approx(100, abs=3)
    assert picture.getpixel((int(50 * scale), int(59.5 * scale))) > 200


def test_a_page_of_charts(tmp_path: Path) -> None:
    """Notes before charts, as text; only as a page."""
    page = write_page("T & U", [CHART, CHART], ["a < b"], tmp_path / "p.html").read_text()
    assert page.count(CHART) == 2 and "<title>T &amp; U</title>" in page
    assert page.index("<p>a &lt; b</p>") < page.index(CHART)
    assert "body{margin" in page
    assert "svg{display:block;max-width:100%;height:auto" in page  # as wide as a narrow window
    with pytest.raises(UnknownFormat, match=r"a page is written as \.html, not as 'p\.svg'"):
        write_page("T", [], [], tmp_path / "p.svg")


@pytest.mark.parametrize("suffix", ["svg", "png", "html"])
def test_names_that_xml_does_not_allow(tmp_path: Path, suffix: str) -> None:
    """Control characters and half a surrogate pair are replaced, in charts and notes."""
    name = "a\x01 \udc80"
    line = LineChart(name, "step", {name: [(0, 1.0)]}, False, str).svg()
    area = AreaChart(name, "time", [[1.0]], {name: "#123456"}, [Phase(0, name)], 0, name, str).svg()
    for chart in (line, area):
        assert write_chart(chart, tmp_path / f"a.{suffix}").stat().st_size > 100
    page = write_page("T", [line, area], [name], tmp_path / "p.html").read_text("utf-8")
    assert "<p>a\ufffd \ufffd</p>" in page and "\x01" not in page


def test_charts_are_written_as_figures_are(tmp_path: Path) -> None:
    """With the same messages, and the same bytes on every system."""
    for write in (lambda path: write_chart(CHART, path), lambda path: write_page("", [], [], path)):
        with pytest.raises(FileNotFoundError, match="cannot write: there is no folder"):
            write(tmp_path / "nowhere" / "a.html")
    page = write_page("Training", [CHART], [], tmp_path / "a.html").read_bytes()
    assert b"\r" not in page and page.endswith(b"</html>\n")

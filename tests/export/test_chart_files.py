"""Charts as files: the same picture in each format."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchrecorder.errors import UnknownFormat
from torchrecorder.export.chart_files import write_chart, write_page

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


def test_a_chart_keeps_its_place_and_colours(tmp_path: Path) -> None:
    """Looked up in the picture: red above on the right, white below and left."""
    image = pytest.importorskip("PIL.Image")
    picture = image.open(write_chart(CHART, tmp_path / "a.png")).convert("RGB")
    wide, high = picture.size
    assert picture.getpixel((wide * 3 // 4, high // 4)) == (255, 0, 0)
    for across, along in ((1, 1), (3, 3)):
        spot = (wide * across // 4, high * along // 4)
        assert picture.getpixel(spot) == (255, 255, 255)


def test_a_page_of_charts(tmp_path: Path) -> None:
    """Notes before charts, as text; only as a page."""
    page = write_page("T & U", [CHART, CHART], ["a < b"], tmp_path / "p.html").read_text()
    assert page.count(CHART) == 2 and "<title>T &amp; U</title>" in page
    assert page.index("<p>a &lt; b</p>") < page.index(CHART)
    with pytest.raises(UnknownFormat, match=r"a page is written as \.html, not as 'p\.svg'"):
        write_page("T", [], [], tmp_path / "p.svg")

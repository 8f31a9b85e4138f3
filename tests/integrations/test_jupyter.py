"""What a recording shows in a notebook."""

import base64
import html
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from IPython.core.formatters import DisplayFormatter
from IPython.utils.capture import capture_output

import torchrecorder
from torchrecorder import display
from torchrecorder.capture.hooks.source import cell_name
from torchrecorder.errors import InvalidArgument, LayoutFailed
from torchrecorder.export.graphviz import Svg


@pytest.fixture
def recording():
    """A small run."""
    return torchrecorder.record(torch.nn.Linear(4, 2), input_shapes=(1, 4))


def test_ipython_finds_the_figure(recording):
    """IPython's own formatter gets an SVG and a line of text."""
    data, _ = DisplayFormatter().format(recording)
    assert data["image/svg+xml"].startswith("<?xml")
    assert data["text/plain"] == "<Recording of Linear: 1 scope, 1 op, 4 values>"


def test_only_what_is_asked_for(recording):
    """A front end may include or exclude forms."""
    assert list(recording._repr_mimebundle_(include={"text/plain"})) == ["text/plain"]
    assert "image/svg+xml" not in recording._repr_mimebundle_(exclude={"image/svg+xml"})


def test_the_page_stands_in_a_frame_over_the_figure(recording):
    """The frame may run scripts and save files; where it is stripped, the figure is seen."""
    data = recording._repr_mimebundle_()
    frame = re.search(r"""<iframe [^>]*sandbox="([^"]*)" srcdoc='([^']*)'>""", data["text/html"])
    assert frame[1] == "allow-scripts allow-downloads"
    assert html.unescape(frame[2]).startswith("<!doctype html>")
    behind = re.search(r"base64,([^\"]*)", data["text/html"])[1]
    assert base64.b64decode(behind).decode() == data["image/svg+xml"]


def test_a_page_inline_takes_the_options_of_a_drawing(recording, monkeypatch, tmp_path):
    """It stands in a frame below the cell, and no browser is opened."""
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append((data, raw)))
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail("a browser was opened"))
    path = recording.show(inline=True, direction="LR", color_by="parameters")
    [(data, raw)] = shown
    page = html.unescape(re.search(r"srcdoc='([^']*)'", data["text/html"])[1])
    assert raw and page == path.read_text(encoding="utf-8")
    assert '"direction":"LR"' in page and '"color_by":"parameters"' in page
    with pytest.raises(InvalidArgument, match="does not end in .html"):
        recording.show(tmp_path / "a.svg", inline=True)
    monkeypatch.undo()
    with pytest.raises(InvalidArgument, match="without it, a browser shows the page"):
        recording.show(inline=True)
    monkeypatch.setattr("torchrecorder.drawing.find_spec", lambda name: None)
    with pytest.raises(InvalidArgument, match="IPython is not installed"):
        recording.show(inline=True)


def test_the_page_is_left_out_where_it_would_be_large(recording, monkeypatch):
    """A notebook keeps what it shows: there is the figure alone then."""
    monkeypatch.setattr(display, "_LARGEST", 1000)
    assert "text/html" not in recording._repr_mimebundle_()
    monkeypatch.undo()
    monkeypatch.setattr(display, "_OPS", len(recording.ops))
    assert "text/html" in recording._repr_mimebundle_()
    monkeypatch.setattr(display, "_OPS", len(recording.ops) - 1)
    assert list(recording._repr_mimebundle_()) == ["text/plain", "image/svg+xml", "application/pdf"]


def test_a_large_figure_does_not_stand_behind_the_page(recording, monkeypatch):
    """It would be there twice."""
    monkeypatch.setattr(display, "_BEHIND", 10)
    data = recording._repr_mimebundle_()
    assert "base64" not in data["text/html"]
    assert "image/svg+xml" in data and "application/pdf" not in data


def test_the_frame_is_as_high_as_its_picture_needs():
    """Within bounds: a panel must fit in, and a notebook is scrolled."""
    heights = []
    for count in (1, 4, 40):
        kinds = [torch.nn.ReLU, torch.nn.Tanh, torch.nn.Sigmoid, torch.nn.ELU]
        model = torch.nn.Sequential(*(kinds[n * n % 7 % 4]() for n in range(count)))
        html = torchrecorder.record(model, input_shapes=(1, 4))._repr_mimebundle_()["text/html"]
        heights.append(int(re.search(r"height:(\d+)px", html)[1]))
    assert heights[0] == 360 < heights[1] < heights[2] == 600


def test_nothing_ends_the_html_in_markdown(recording):
    """Converters to Markdown copy it; an empty line in it would end it."""
    assert "\n\n" not in recording._repr_mimebundle_()["text/html"]


def test_converters_to_pdf_find_one(recording):
    """They would need Inkscape to make one of the SVG."""
    data = recording._repr_mimebundle_()
    assert base64.b64decode(data["application/pdf"]).startswith(b"%PDF")


def test_figure_that_takes_too_long_is_closed(monkeypatch):
    """If the layout fails, the next simpler figure is shown, and that is said."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.ReLU()))
    recording = torchrecorder.record(model, input_shapes=(1, 4))
    tried = _only_below(monkeypatch, boxes=4)
    with pytest.warns(UserWarning, match="drawn with fewer levels"):
        data = recording._repr_mimebundle_()
    assert data["image/svg+xml"].count('class="node"') == 3
    assert tried == sorted(set(tried), reverse=True)


def test_no_figure_is_better_than_waiting(recording, monkeypatch):
    """Where even the simplest figure fails, there is the page, over a line of text."""
    _only_below(monkeypatch, boxes=0)
    data = recording._repr_mimebundle_()
    assert list(data) == ["text/plain", "text/html"]
    said = "<p>&lt;Recording of Linear: 1 scope, 1 op, 4 values&gt;</p></div><iframe"
    assert said in data["text/html"]


def test_a_figure_may_take_some_seconds(recording, monkeypatch):
    """It is waited for."""
    export = Svg.export

    def slow(self, view, style):
        if self.timeout < 3.0:
            raise LayoutFailed("too slow")
        return export(self, view, style)

    monkeypatch.setattr(Svg, "export", slow)
    assert "image/svg+xml" in recording._repr_mimebundle_()


def test_a_huge_recording_is_shown_at_once(monkeypatch):
    """What is hopeless is not tried: a long loop is one box."""
    monkeypatch.setattr(display, "_BOXES", 50)
    tried = _only_below(monkeypatch, boxes=50)
    recording = torchrecorder.record(_long, input_shapes=(1,))
    with pytest.warns(UserWarning, match="drawn with fewer levels"):
        data = recording._repr_mimebundle_()
    assert "image/svg+xml" in data and tried == [3]


def _long(x):
    """Ops in no order in which they could be folded."""
    steps = (torch.sin, torch.cos, torch.tanh)
    for number in range(100):
        x = steps[(number * 2654435761 >> 9) % 3](x) * x
    return x


def _only_below(monkeypatch, boxes):
    """Layouts fail from so many boxes on; gives the sizes that are tried."""
    tried, export = [], Svg.export

    def limited(self, view, style):
        tried.append(len(view.boxes))
        if len(view.boxes) >= boxes:
            raise LayoutFailed("too slow")
        return export(self, view, style)

    monkeypatch.setattr(Svg, "export", limited)
    return tried


@pytest.fixture
def shell(monkeypatch):
    """An IPython that runs cells, and is gone afterwards."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.delenv("VIRTUAL_ENV", raising=False)  # it warns of one that is not its own
    monkeypatch.delattr("builtins._", raising=False)  # that of doctest hides its own
    yield InteractiveShell.instance(config=Config(HistoryManager={"hist_file": ":memory:"}))
    InteractiveShell.clear_instance()


CELL = """
import torch, torchrecorder
class Twice(torch.nn.Module):
    def forward(self, x):
        return x.relu() * 2
recording = torchrecorder.record(Twice(), torch.ones(3))
"""


def _lines(recording):
    return [f"{op.source.file}:{op.source.line}" for op in recording.ops.values()]


def test_source_lines_name_the_cell(shell):
    """As its prompt does, not the file that IPython says it is."""
    shell.run_cell("1 + 1", store_history=True)
    shell.run_cell(CELL, store_history=True)
    assert _lines(shell.user_ns["recording"]) == ["In [2]:4", "In [2]:4"]


def test_source_lines_of_a_kernel(shell, monkeypatch):
    """A kernel calls cells by files that are not there; unknown ones are just cells."""
    monkeypatch.setattr(
        shell.compile, "get_code_name", lambda raw, cell, number: "/tmp/ipykernel_7/99.py"
    )
    shell.run_cell(CELL, store_history=True)
    assert _lines(shell.user_ns["recording"]) == ["In [1]:4", "In [1]:4"]
    assert cell_name("/tmp/ipykernel_7/98.py") == "<cell>"
    assert cell_name("/home/me/ipykernel_launcher/net.py") == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("<ipython-input-3-0123abcd>", "In [3]"),
        ("/tmp/ipython-input-12-4567.py", "<cell>"),
        ("/tmp/ipykernel_1/2726997199.py", "<cell>"),
        ("net.py", ""),
        ("<stdin>", ""),
    ],
)
def test_names_of_cells_without_ipython(monkeypatch, name, said):
    """What the name itself tells."""
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert cell_name(name) == said


def test_a_page_inline_as_the_last_line(recording, tmp_path, shell):
    """The cell shows the page, and not the path that is returned, which later cells show."""
    shell.push({"recording": recording, "folder": tmp_path})

    def run(cell: str) -> Any:
        with capture_output() as captured:
            assert shell.run_cell(cell, store_history=True).success
        return captured

    first = run("recording.show(folder / 'a.html', inline=True)")
    assert ["text/html" in output.data for output in first.outputs] == [True]
    assert "a.html" not in first.stdout
    path = shell.user_ns["_"]
    assert isinstance(path, Path) and path == (tmp_path / "a.html").resolve() and path.exists()
    assert pickle.loads(pickle.dumps(path)) == path
    for cell in ("_", "_.parent", "_ / 'b'"):
        assert tmp_path.name in run(cell).stdout

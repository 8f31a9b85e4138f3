"""Graphviz in its child process: pictures, positions, limits, and what goes wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from torchrecorder.errors import LayoutFailed
from torchrecorder.layout import engine, fonts
from torchrecorder.layout.child import AREA, SIDE
from torchrecorder.layout.engine import Job

PAIR = "digraph { a -> b }"


def dense(count: int) -> str:
    """A graph in which every box feeds every later one: Graphviz' worst case."""
    edges = (f"n{i} -> n{j};" for i in range(count) for j in range(i + 1, count))
    return "digraph {" + "".join(edges) + "}"


def test_svg_shows_both_nodes():
    """A node without a label shows its name, as in the dot program."""
    svg = engine.run(PAIR).decode()
    assert svg.count('class="node"') == 2
    assert ">a</text>" in svg and ">b</text>" in svg


@pytest.mark.parametrize(
    ("format", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG"), ("gif", b"GIF")]
)
def test_formats(format, start):
    """Each format begins as its kind of file does."""
    assert engine.run(PAIR, format).startswith(start)


def test_same_text_gives_the_same_bytes():
    """Nothing in a picture comes from the run that made it."""
    assert engine.run(PAIR) == engine.run(PAIR)


def test_many_jobs_share_one_child(monkeypatch):
    """A batch starts one process."""
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: started.append(1) or popen(*a, **k))
    pictures = engine.run_many([Job(PAIR), Job("digraph { c }", "plain"), Job(PAIR, "json0")])
    assert len(started) == 1
    assert pictures[1].startswith(b"graph 1") and pictures[2].startswith(b"{")


def test_no_jobs_need_no_child(monkeypatch):
    """Nothing to do starts nothing."""
    monkeypatch.setattr(subprocess, "Popen", None)
    assert engine.run_many([]) == []


def test_child_is_light():
    """The child imports neither torch nor numpy nor networkx, nor pygraphviz' Python side."""
    script = Path(engine.__file__).with_name("child.py")
    code = (
        f"import sys, runpy; sys.argv = ['child', {engine.require()!r}, '30'];"
        "sys.stdin = open('/dev/null')\n"
        "import os; os._exit = lambda code: print(*sys.modules)\n"
        f"runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    loaded = subprocess.run(command, capture_output=True, check=True).stderr.decode().split()
    assert "_graphviz" in loaded
    assert not {"torch", "numpy", "networkx", "pygraphviz", "torchrecorder", "json"} & {*loaded}


def test_the_child_ends_with_the_first_job_that_fails():
    """The parent decides whether the others are tried again, perhaps in another way."""
    jobs = [Job(PAIR, "plain"), Job("digraph {", "plain"), Job(PAIR, "plain")]
    script = Path(engine.__file__).with_name("child.py")
    command = [sys.executable, "-I", "-S", script, engine.require(), "30"]
    request = b"".join(engine._request(jobs, {}))
    ended = subprocess.run(command, input=request, capture_output=True, check=True)
    fields = list(engine._fields(ended.stdout))
    assert fields[::2] == [b"done", b"failed"] and fields[1].startswith(b"graph 1")
    assert ended.stderr.count(b"\f") == 2  # one before the messages of each job


def test_a_bitmap_is_as_large_as_it_is_made():
    """A graph that Graphviz makes smaller to fit its size is not too large."""
    text = 'digraph { graph [size="5,5"] a [width=900 height=1 fixedsize=true label=""] }'
    width = int.from_bytes(engine.run(text, "png")[16:20], "big")
    assert width == pytest.approx(5 * 96, abs=20)
    with pytest.raises(LayoutFailed, match="the PNG would have .* pixels"):
        engine.run(text.replace('size="5,5"', ""), "png")


def test_unknown_format_names_the_known_ones():
    """Graphviz' own words reach the user."""
    with pytest.raises(LayoutFailed, match=r"swg.* not recognized.*svg") as caught:
        engine.run(PAIR, "swg")
    assert caught.value.final


def test_broken_text():
    """A syntax error is said at once, without cheaper tries."""
    with pytest.raises(LayoutFailed, match="syntax error in line 2"):
        engine.run("digraph {\n a -> ; }")


def test_unknown_program():
    """So is a layout program that does not exist."""
    with pytest.raises(LayoutFailed, match="nonsense.* not recognized"):
        engine.run(PAIR, program="nonsense")


def test_time_limit(monkeypatch, tmp_path):
    """A layout that does not end is ended, and the error says what to ask for."""
    script = tmp_path / "child.py"
    script.write_text("while True: pass")
    monkeypatch.setattr(engine, "_CHILD", script)
    with pytest.raises(LayoutFailed, match=r"limit: 1\.5 s.*smaller depth.*nested"):
        engine.run(PAIR, timeout=1.5)


FRAIL = """
import os, signal, subprocess, sys
start = b"3\\ndot3\\nsvg"
jobs = sys.stdin.buffer.read().split(start)[1:]
hard = [number for number, job in enumerate(jobs) if b"hard" in job and MARK not in job]
work = b"".join(start + job for job in jobs[: hard[0] if hard else None])
subprocess.run([sys.executable, "-I", "-S", CHILD, *sys.argv[1:]], input=work)
if hard:
    os.kill(os.getpid(), signal.SIGSEGV)
"""
"""A child that crashes at hard jobs, unless a certain setting makes them easy."""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
@pytest.mark.parametrize("effort", [1, 2])
def test_cheaper_settings_rescue_a_hard_graph(monkeypatch, tmp_path, effort):
    """What beautiful settings cannot finish, cheaper ones can; the others keep theirs."""
    mark = f"nslimit={engine.EFFORTS[effort]['nslimit']}\n".encode()
    script = tmp_path / "child.py"
    script.write_text(f"MARK, CHILD = {mark!r}, {str(engine._CHILD)!r}\n{FRAIL}")
    monkeypatch.setattr(engine, "_CHILD", script)
    easy, hard = Job(PAIR), Job("digraph { hard -> b }")
    pictures = engine.run_many([easy, easy, hard, easy])
    assert pictures[0] == pictures[1] == pictures[3] == engine.run(PAIR)
    assert b">hard</text>" in pictures[2]


def test_the_cheapest_settings_draw_every_edge_of_a_dense_graph():
    """They save time at the expense of beauty alone; how long it takes is up to the machine."""
    svg = engine.run(dense(60), attributes=engine.EFFORTS[-1], timeout=600)
    assert svg.count(b'class="edge"') == 60 * 59 // 2


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_crash_is_an_error(monkeypatch, tmp_path):
    """A child that dies takes nothing with it."""
    script = tmp_path / "child.py"
    script.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(engine, "_CHILD", script)
    with pytest.raises(LayoutFailed, match=r"crashed \(signal 11\).*smaller depth"):
        engine.run(PAIR)


class _OnWindows(subprocess.Popen):
    """A child that Windows ends for an access violation, unless a certain setting is made."""

    mark = b"nslimit=1\n"

    def communicate(self, input=None, timeout=None):
        """The answer, and an exit code as Windows has it: above 0."""
        answer, said = super().communicate(input, timeout)
        if self.mark in input:
            return answer, said
        self.returncode = 0xC0000005
        return b"", said


def test_a_crash_on_windows_is_tried_again_with_cheaper_settings(monkeypatch):
    """Exit codes of crashed processes are above 0 there."""
    monkeypatch.setattr(subprocess, "Popen", _OnWindows)
    assert b">a</text>" in engine.run(PAIR)
    monkeypatch.setattr(_OnWindows, "mark", b"no such setting")
    with pytest.raises(LayoutFailed, match=r"crashed \(exit code 0xc0000005\).*smaller depth"):
        engine.run(PAIR)


def test_abort_on_windows(monkeypatch):
    """It ends with code 3 there, which is an ordinary one elsewhere."""
    assert engine._crash(3) is engine._crash(1) is engine._crash(0) is None
    monkeypatch.setattr(sys, "platform", "win32")
    assert engine._crash(3) and engine._crash(1) is None


def test_a_child_without_signals_ends_by_itself(tmp_path):
    """Where there is no alarm, a thread ends a child whose parent is gone, also inside C code."""
    code = (
        "import _signal, runpy; del _signal.alarm\n"
        f"child = runpy.run_path({str(engine._CHILD)!r})\n"
        "child['_end_after'](1)\n"
        "sum(range(10 ** 12))"  # hours inside C code that lets no other Python code run
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 1


def test_paths_with_spaces_and_letters_of_any_language(monkeypatch, tmp_path):
    """Python and pygraphviz may be installed anywhere."""
    place = tmp_path / "Пакеты und Ähnliches 图"
    place.mkdir()
    for name in ("pygraphviz", "pygraphviz.libs"):
        (place / name).symlink_to(Path(engine.require()).with_name(name))
    script = place / "child.py"
    script.write_bytes(engine._CHILD.read_bytes())
    monkeypatch.setattr(engine, "_CHILD", script)
    monkeypatch.setattr(engine, "require", lambda: str(place / "pygraphviz"))
    assert b">a</text>" in engine.run(PAIR)


def test_child_that_cannot_work(monkeypatch, tmp_path):
    """A broken installation is named, not called a matter of size."""
    monkeypatch.setattr(engine, "require", lambda: str(tmp_path))
    with pytest.raises(LayoutFailed, match="No module named '_graphviz'") as caught:
        engine.run(PAIR)
    assert caught.value.final


def test_no_child_can_be_started(monkeypatch):
    """Where no process can be started, that is said."""
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(LayoutFailed, match="no child process.*No such file") as caught:
        engine.run(PAIR)
    assert caught.value.final


@pytest.mark.parametrize("executable", ["", None])
def test_inside_a_program_that_embeds_python(monkeypatch, tmp_path, executable):
    """It may not know of an interpreter; then the one on the path does."""
    (tmp_path / "python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", executable)
    assert b">a</text>" in engine.run(PAIR)


def test_without_pygraphviz(no_graphviz):
    """Without the wheel the error says what to install, and what works without it."""
    with pytest.raises(LayoutFailed, match="pip install 'pygraphviz>=2.0'.*Without it, .svg"):
        engine.run(PAIR)


def test_bitmap_too_large_is_reported_before_it_is_drawn():
    """Cairo would scale it down without a word."""
    chain = "digraph {" + "->".join(f"n{i}" for i in range(700)) + "}"
    with pytest.raises(LayoutFailed, match=r"× \d{5} pixels.*32767 per side.*\.svg or \.pdf"):
        engine.run(chain, "png")
    assert engine.run(chain, "png", attributes={"dpi": "40"}).startswith(b"\x89PNG")


def test_the_size_that_is_too_large_is_that_of_the_picture():
    """With the room around everything: as many pixels as there would be at this resolution."""
    node = "digraph { n [shape=box, fixedsize=true, width=2, height=1] }"
    picture = engine.run(node, "png", attributes={"dpi": "100"})
    size = [int.from_bytes(picture[at : at + 4], "big") for at in (16, 20)]
    with pytest.raises(LayoutFailed) as refused:
        engine.run(node, "png", attributes={"dpi": "100000"})
    said = [int(side) for side in re.search(r"(\d+) × (\d+) pixels", str(refused.value)).groups()]
    assert [round(side / 1000) for side in said] == pytest.approx(size, abs=2)


@pytest.mark.parametrize("page", ["21600,100,1", "18000,18000,1,0,0"])
def test_a_page_too_large_for_a_bitmap_is_reported(page):
    """The size of a page is that of its bitmap, however small the graph on it is."""
    attributes = {"viewport": page, "dpi": "144"}
    with pytest.raises(LayoutFailed, match=r"would have (43200 × 200|36000 × 36000) pixels"):
        engine.run(PAIR, "png", attributes=attributes)


@pytest.mark.parametrize("page", ["100,50,0.01", "7200", "wide"])
def test_a_bitmap_of_a_large_graph_on_a_small_page(page):
    """Only the size of the page counts; a text that Graphviz cannot read is no size of a page."""
    node = "digraph { n [shape=box, fixedsize=true, width=300, height=3] }"
    attributes = {"viewport": page, "dpi": "144" if "," in page else "96"}
    picture = engine.run(node, "png", attributes=attributes)
    assert picture.startswith(b"\x89PNG")


def test_long_chain():
    """Depth alone is no trouble: Graphviz does not recurse over it."""
    chain = "digraph {" + "".join(f"n{i}->n{i + 1};" for i in range(19_999)) + "}"
    assert engine.run(chain, "plain").count(b"node") == 20_000


def test_chatter_stays_away(capfd):
    """What Fontconfig and Graphviz print does not reach the user."""
    engine.run('digraph { a [fontname="no such font", shape=nosuchshape] }')
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Fontconfig is used on Linux")
def test_machine_without_fonts(monkeypatch, tmp_path):
    """Where no font is installed, text still has a width and PDF still has letters."""
    told = fonts.configuration(fonts._folder())
    bare = told.replace("/etc/fonts/fonts.conf", "/nowhere").replace("<dir>/usr", "<dir>/nowhere")
    configuration = tmp_path / "fonts.conf"
    configuration.write_text(bare)
    monkeypatch.setenv("FONTCONFIG_FILE", str(configuration))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    label = 'digraph {{ n [shape=plain, fontname="Helvetica,Arial,sans-serif", label="{}"] }}'
    laid_out = (engine.run(label.format(text), "plain") for text in ("iiii", "WWWW"))
    narrow, wide = (float(each.partition(b"node n ")[2].split()[2]) for each in laid_out)
    assert wide > 2 * narrow > 0
    assert b"Manrope" in engine.run(label.format("x"), "pdf")


def test_fonts_set_by_hand_stay(monkeypatch):
    """Whoever configured Fontconfig keeps that."""
    monkeypatch.setenv("FONTCONFIG_FILE", "/mine")
    with fonts.environment() as variables:
        assert variables["FONTCONFIG_FILE"] == "/mine"
    monkeypatch.delenv("FONTCONFIG_FILE")
    with fonts.environment() as variables:
        assert os.path.exists(variables["FONTCONFIG_FILE"])


@pytest.mark.parametrize("size", [(40_000, 40_000), (100, 80_000), (30_000, 20_000)])
def test_how_much_smaller_a_bitmap_has_to_be(size):
    """At the share of the dpi that is advised it is within the limits, and hardly smaller."""
    said = str(engine._too_large(*size))
    share = int(re.search(r"at most (\d+)%", said)[1]) / 100
    for percent, fits in ((share - 0.01, True), (share + 0.01, False)):
        wide, high = (side * percent for side in size)
        assert (max(wide, high) <= SIDE and wide * high <= AREA) == fits

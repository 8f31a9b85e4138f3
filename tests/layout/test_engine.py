"""Graphviz in its child process: pictures, positions, limits, and what goes wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from torchrecorder.errors import LayoutFailed
from torchrecorder.layout import engine, fonts
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
        f"import sys, runpy; sys.argv = ['child', {engine._folder()!r}, '30'];"
        "sys.stdin = open('/dev/null')\n"
        "import os; os._exit = lambda code: print(*sys.modules)\n"
        f"runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    command = [sys.executable, "-I", "-S", "-c", code]
    loaded = subprocess.run(command, capture_output=True, check=True).stderr.decode().split()
    assert "_graphviz" in loaded
    assert not {"torch", "numpy", "networkx", "pygraphviz", "torchrecorder", "json"} & {*loaded}


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


def test_time_limit():
    """A layout that does not end costs the limit, and the error says what to ask for."""
    started = time.monotonic()
    with pytest.raises(LayoutFailed, match=r"limit: 1\.5 s.*smaller depth.*nested"):
        engine.run(dense(150), timeout=1.5)
    assert time.monotonic() - started < 8


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


def test_dense_graph_within_its_time():
    """A graph that takes Graphviz minutes is drawn in seconds, every edge of it."""
    svg = engine.run(dense(60), attributes=engine.EFFORTS[-1])
    assert svg.count(b'class="edge"') == 60 * 59 // 2


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_crash_is_an_error(monkeypatch, tmp_path):
    """A child that dies takes nothing with it."""
    script = tmp_path / "child.py"
    script.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(engine, "_CHILD", script)
    with pytest.raises(LayoutFailed, match=r"crashed \(signal 11\).*smaller depth"):
        engine.run(PAIR)


def test_child_that_cannot_work(monkeypatch, tmp_path):
    """A broken installation is named, not called a matter of size."""
    monkeypatch.setattr(engine, "_folder", lambda: str(tmp_path))
    with pytest.raises(LayoutFailed, match="No module named '_graphviz'") as caught:
        engine.run(PAIR)
    assert caught.value.final


def test_no_child_can_be_started(monkeypatch):
    """Where no process can be started, that is said."""
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(LayoutFailed, match="no child process.*No such file"):
        engine.run(PAIR)


def test_without_pygraphviz(monkeypatch):
    """Without the wheel the error says what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(LayoutFailed, match="pip install 'pygraphviz>=2.0'"):
        engine.run(PAIR)


def test_bitmap_too_large_is_told_before_it_is_drawn():
    """Cairo would scale it down without a word."""
    chain = "digraph {" + "->".join(f"n{i}" for i in range(700)) + "}"
    with pytest.raises(LayoutFailed, match=r"× \d{5} pixels.*32767 a side.*\.svg or \.pdf"):
        engine.run(chain, "png")
    assert engine.run(chain, "png", attributes={"dpi": "40"}).startswith(b"\x89PNG")


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

"""torchrecorder doctor: check what works on this machine."""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from torchrecorder import __version__
from torchrecorder.export import paper_pdf
from torchrecorder.export.graphviz import Svg
from torchrecorder.graph.recording import RecordedRun
from torchrecorder.integrations.commands.command import Command
from torchrecorder.layout import engine, fonts
from torchrecorder.style.paper import Paper
from torchrecorder.style.style import Style
from torchrecorder.views.pipeline import make_view

_NEEDED = ("torch", "networkx", "graphviz", "pypdf", "msgspec", "shtab")
_WHEELS = {
    "linux": ("x86_64", "aarch64"),
    "darwin": ("x86_64", "arm64"),
    "win32": ("AMD64", "x86_64"),
}
"""Machines for which there are wheels of pygraphviz."""

_USEFUL = {
    "IPython": "for figures in notebooks",
    "sphinx": "for figures in documentation",
    "mkdocs": "the same; with pymdown-extensions and docutils, pip install 'torchrecorder[mkdocs]'",
    "pytest": "for snapshots of architectures",
}
_LETTERS = 'digraph {{ n [shape=plain, fontname="Helvetica,Arial,sans-serif", label="{}"] }}'


class DoctorCommand(Command):
    """Check this machine: what is installed, and whether figures can be drawn.

    Only a model of one layer is recorded. The exit code is 1 if something fails that should work
    on this machine.
    """

    name = "doctor"

    def run(self, options: argparse.Namespace) -> int:
        well = True
        print(f"      torchrecorder {__version__}, Python {platform.python_version()}")
        for name, check in _checks():
            good, text = _outcome(check)
            well = well and good
            print(f"{'ok' if good else 'FAILS':<5} {name}: {text}", flush=True)
        if not engine.available() and not _has_wheel():
            print(f"      pygraphviz: {engine.WHEELS}{engine.WITHOUT}")
        for name, use in _USEFUL.items():
            print(f"      {name}: {_version(name) or f'not installed ({use})'}")
        if well:
            _print_internals()
        return 0 if well else 1


def _print_internals() -> None:
    """Print which internals of PyTorch exist, and what is missing without the others."""
    from torchrecorder.capture.internals.table import INTERNALS

    print("      Internals of PyTorch, and what recordings have because of each:")
    for internal in INTERNALS:
        present = internal.present
        last = f", {internal.until} no longer" if internal.until else ""
        has = f"PyTorch {internal.since} has it{last}"
        lost = "" if present else f" ({has}). Without: {internal.without}"
        print(f"{'yes' if present else 'no':<5} {internal.name}: {internal.gives}{lost}")


def _checks() -> Iterator[tuple[str, Callable[[], str]]]:
    for name in _NEEDED:
        yield name, partial(_imported, name)
    if engine.available() or _has_wheel():
        yield "pygraphviz", _embedded
    if engine.available():
        for format in ("svg", "pdf", "png"):
            yield f"Graphviz, {format}", partial(_drawn, format)
        yield "PDF of exact size", _sized
        yield "fonts", _measured
    yield "recording", _recorded
    yield "figure", _figure


def _outcome(check: Callable[[], str]) -> tuple[bool, str]:
    """Return whether *check* succeeded, and its result; any exception counts as a failure."""
    try:
        return True, check()
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"


def _embedded() -> str:
    """The version of pygraphviz."""
    engine.require()
    return _imported("pygraphviz")


def _has_wheel() -> bool:
    """Whether pip finds a built pygraphviz for this machine; on Linux, only with glibc."""
    fitting = platform.machine() in _WHEELS.get(sys.platform, ())
    return fitting and (sys.platform != "linux" or platform.libc_ver()[0] == "glibc")


def _imported(name: str) -> str:
    importlib.import_module(name)
    return _version(name) or "of unknown version"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _drawn(format: str) -> str:
    started = time.perf_counter()
    picture = engine.run("digraph { a -> b }", format)
    return f"{len(picture)} bytes in {time.perf_counter() - started:.2f} s"


def _sized() -> str:
    """Check that a PDF of Graphviz can be given an exact size."""
    pdf = engine.run("digraph { graph [margin=0]; a -> b }", "pdf")
    fit = Paper(width=100.5).fit(*paper_pdf.size_of(pdf), 8.0)
    width, height = paper_pdf.size_of(paper_pdf.on_page(pdf, fit, "#ffffff"))
    return f"{width:g} by {height:g} points"


def _measured() -> str:
    """Check that fonts are found: otherwise all letters have the same width."""
    laid_out = (engine.run(_LETTERS.format(text), "plain") for text in ("iiii", "WWWW"))
    narrow, wide = (float(item.partition(b"node n ")[2].split()[2]) for item in laid_out)
    if wide < 2 * narrow:
        raise LookupError(f"none found; install some, or pip install {fonts.PACKAGE}")
    return "letters have their own widths"


def _recorded() -> str:
    return ", ".join(op.name for op in _recording().ops.values())


def _figure() -> str:
    """Check that a default figure can be drawn."""
    return f"{len(Svg().export(make_view(_recording()), Style()))} bytes"


def _recording() -> RecordedRun:
    import torch

    import torchrecorder

    return torchrecorder.record(torch.nn.Linear(4, 2), input_shapes=(1, 4))

"""The command ``doctor``: what works on this machine, and what to install where it does not."""

from __future__ import annotations

import platform
import sys

import pytest

from tests.integrations.test_cli import run
from torchrecorder.layout import engine


def test_doctor(capsys, monkeypatch):
    """All is well here; where Graphviz does not work, that is said and the code is 1."""
    code, out, _ = run(capsys, "doctor")
    assert code == 0 and "ok    recording: linear" in out and "FAILS" not in out
    monkeypatch.setattr(engine, "require", lambda: "/nowhere")
    code, out, _ = run(capsys, "doctor")
    assert code == 1 and "FAILS Graphviz, svg: LayoutFailed" in out


@pytest.mark.parametrize(
    ("system", "machine", "libc", "code"),
    [
        ("win32", "ARM64", "", 0), ("win32", "AMD64", "", 1), ("darwin", "arm64", "", 1),
        ("linux", "riscv64", "glibc", 0), ("linux", "x86_64", "", 0),
        ("linux", "x86_64", "glibc", 1),
    ],
)
def test_doctor_without_graphviz(capsys, monkeypatch, no_graphviz, system, machine, libc, code):
    """An error where a wheel holds it; elsewhere it is said what works without, and that works."""
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "libc_ver", lambda: (libc, ""))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    found, out, _ = run(capsys, "doctor")
    assert found == code and ("FAILS pygraphviz" in out) == bool(code)
    assert "ok    figure: " in out and "pip install 'pygraphviz>=2.0'" in out


def test_doctor_without_libraries_of_the_system(capsys, broken_graphviz):
    """What to install is said; figures are drawn all the same."""
    code, out, _ = run(capsys, "doctor")
    assert code == 1 and "FAILS Graphviz, svg: LayoutFailed" in out
    assert "apt-get install libglib2.0-0" in out and "ok    figure: " in out

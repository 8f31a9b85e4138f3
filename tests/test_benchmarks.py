"""What the benchmarks say of names that they do not know."""

from __future__ import annotations

import runpy
import sys

import pytest


@pytest.mark.parametrize(
    ("program", "name", "meant"),
    [("figures", "renset18", "resnet18"), ("compiled", "renset18", "resnet18"),
     ("large", "blokcs", "blocks")],
)
def test_an_unknown_name_ends_a_benchmark(
    program: str, name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is measured; the message says what was probably meant."""
    monkeypatch.setattr(sys, "argv", [program, name])
    monkeypatch.setattr("os.nice", lambda by: by)
    with pytest.raises(SystemExit, match=f"unknown name '{name}'; did you mean '{meant}'"):
        runpy.run_module(f"benchmarks.{program}", run_name="__main__")

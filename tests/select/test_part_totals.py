"""Totals and tables of a part of a run: what is outside does not count, and is not in them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from torchrecorder import Recording, record
from torchrecorder.select.focus import Focus


def recorded() -> Recording:
    """Two blocks, of which the second has a layer that is never called, and a last layer."""
    blocks = [nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)) for _ in range(2)]
    model = nn.Sequential(*blocks, nn.Linear(4, 2))
    model[1].unused = nn.Linear(2, 2, bias=False)
    model[1].forward = lambda x: model[1][1](model[1][0](x))
    return record(model, torch.rand(3, 4), backward=True, flops=True, stats=True)


NUMBERS = (
    "parameters", "buffer_bytes", "gradient_bytes", "output_bytes", "flops", "backward_flops",
    "saved_bytes", "not_finite", "parameter_gradient_norm",
)


@pytest.mark.parametrize("name", NUMBERS)
def test_the_total_of_a_module_is_its_number_in_the_whole_run(name: str) -> None:
    """In the figures and tables of this module alone."""
    recording = recorded()
    rows = {row["name"]: row[name] for row in recording.table([name])}
    for path in ("0", "1", "1.1", "2"):
        total = Focus(path)(recording).annotations[name].total()
        assert total == pytest.approx(rows[path] or 0), path


def test_a_table_of_a_part_has_its_modules_only(tmp_path: Path) -> None:
    """None that was called elsewhere has the note that it was not."""
    recording = recorded()
    text = recording.render(tmp_path / "part.txt", focus="1").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert [line.split()[1] for line in lines if line[:1] in "├└"] == ["0", "1", "unused"]
    assert [line.split()[1] for line in lines if "never called" in line] == ["unused"]
    assert "Total params 32" in [" ".join(line.split()) for line in lines]
    text = recording.render(tmp_path / "part.txt", since="2").read_text(encoding="utf-8")
    assert "never called" not in text and "Total params 10" in " ".join(text.split())

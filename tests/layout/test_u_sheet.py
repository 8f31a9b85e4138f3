"""U shapes on a sheet: whether a U is kept, or cut into columns, or has fewer modules open."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import torchrecorder
from tests.layout.test_columns import sheet
from tests.layout.test_u_shape import UNet, u_net
from torchrecorder.drawing import view
from torchrecorder.layout.layered import place, plan


@pytest.mark.parametrize(
    "share, enough, kept", [(0.75, 0.7, True), (0.75, 0.8, False), (0.5, 0.4, False)]
)
def test_a_readable_u_is_kept(share: float, enough: float, kept: bool) -> None:
    """Even if columns are larger, but not if they are much larger."""
    net = u_net([(60, 40)] * 4, [False] * 4)
    planned = plan(net.items, net.links)
    whole = place(planned, side_by_side=True)
    on = sheet(3000, whole.height * share, enough)
    picture = place(planned, sheet=on, side_by_side=True)
    assert whole.shaped and (picture == whole) == kept
    assert (picture.shaped, picture.cut) == (kept, not kept)
    assert kept or on.scale(picture.width, picture.height) > share


def test_fewer_modules_are_open_in_a_u(tmp_path: Path) -> None:
    """If it must be cut into columns otherwise."""
    recording = torchrecorder.record(UNet().eval(), torch.ones(1, 1, 32, 32))
    columns, closed, chosen = (
        recording.render(tmp_path / f"{number}.svg", fit="page", **options).read_bytes()
        for number, options in enumerate(({"depth": 2}, {"depth": 1}, {"max_boxes": 60}))
    )
    assert chosen == closed != columns
    assert view(recording, max_boxes=60).boxes == view(recording, depth=2).boxes

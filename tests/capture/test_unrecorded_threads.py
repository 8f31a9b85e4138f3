"""What threads compute that are not recorded, and this one reads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

import torchrecorder
from tests.zoo.case import leaf, net

pytestmark = pytest.mark.usefixtures("strict")


@pytest.mark.parametrize("tracked", [True, False])
def test_a_module_that_another_thread_called_made_its_result(tracked: bool) -> None:
    """One op with the name of its class, which reads its inputs and weights."""
    def called(module, x):
        with torch.set_grad_enabled(tracked):  # which each thread sets for itself
            return module(x)

    def forward(self, x):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(called, self.fc, x).result().relu()

    recording = torchrecorder.record(net(forward, fc=nn.Linear(3, 3)), torch.ones(2, 3))
    made, read = [op for op in recording.ops.values() if op.name in ("Linear", "relu")]
    assert [slot.name for slot in made.inputs] == ["0", "weight", "bias"]
    assert made.inputs[0].value == recording.inputs[0].value
    assert made.outputs == (read.inputs[0].value,)


def test_a_thread_from_before_the_run_may_end_in_it() -> None:
    """What it has computed has its operations, as if it had gone on."""
    def forward(self, x):
        y = x * 2
        made = self.pool.submit(lambda: y.sin().cos()).result()
        if self.ends:
            self.pool.shutdown()
        return y.tanh() + made

    found = []
    for ends in (True, False):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(int).result()
            recording = torchrecorder.record(net(forward, pool=pool, ends=ends), leaf(3))
        found.append([(op.name, op.kind.value) for op in recording.ops.values()])
    assert found[0] == found[1]
    assert [name for name, kind in found[0] if kind == "hidden"] == ["sin", "cos"]

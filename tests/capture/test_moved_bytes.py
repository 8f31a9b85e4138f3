"""Bytes that real operations read and write: views, parts, and what is only overwritten."""

import pytest
import torch

import torchrecorder as tr
from torchrecorder.annotations.intensity import moved_bytes

ROW, TENSOR, INDEX = 4 * 8, 4 * 32, 8  # bytes of a row, of a tensor of 4 rows, of an index


@pytest.mark.parametrize(
    ("code", "moved"),
    [
        ("x.view(-1), x.T, x.expand(2, 4, 8), x.split(2), x.detach(), x[1], x.contiguous()", 0),
        ("torch.empty_like(x)", 0),
        ("x.T.reshape(-1)", 2 * TENSOR),
        ("x * x", 2 * TENSOR),
        ("(lambda part: part * part)(x[:2])", 4 * ROW),
        ("x @ x.T", TENSOR + 4 * 4 * 4),
        ("torch.cat(x.chunk(2))", 2 * TENSOR),
        ("x[:2] + x[2:]", TENSOR + 2 * ROW),
        ("x[:1].expand(4, 8) + 1", ROW + TENSOR),
        ("x.add_(1)", 2 * TENSOR),
        ("x[0].add_(1), x + 1", 2 * ROW + 2 * TENSOR),
        ("x.copy_(y)", 2 * TENSOR),
        ("torch.add(x, 1, out=y)", 2 * TENSOR),
        ("torch.zeros_like(x)", TENSOR),
        ("x.sum().item()", TENSOR + 4 + 4),
        ("rows[i]", ROW + INDEX + ROW),
        ("torch.nn.functional.embedding(i, rows)", ROW + INDEX + ROW),
        ("rows.index_select(0, i)", ROW + INDEX + ROW),
        ("rows.gather(0, i.view(1, 1))", 4 + INDEX + 4),
        ("rows.__setitem__(i, x[:1])", ROW + INDEX + ROW),
        ("rows.index_copy_(0, i, x[:1])", ROW + INDEX + ROW),
        ("rows.index_put_((i,), x[:1])", ROW + INDEX + ROW),
        ("rows.scatter_(0, i.expand(1, 8), x[:1])", ROW + INDEX + ROW),
        ("rows[:4].__setitem__(slice(4), 0)", TENSOR),
    ],
)
def test_bytes_that_are_moved(code: str, moved: int) -> None:
    """What is read, and what is written."""
    x, y, rows, i = torch.ones(4, 8), torch.ones(4, 8), torch.ones(100, 8), torch.tensor([3])

    def run(x, y, rows, i):
        return eval(code)

    assert sum(moved_bytes(tr.record(run, (x, y, rows, i))).values()) == moved


def test_intensity_of_a_linear_layer() -> None:
    """Input, weight and bias are read, the output is written; a measured run, on fake tensors."""
    recording = tr.record(torch.nn.Linear(64, 256), input_shapes=(32, 64), fake=True, flops=True)
    moved = 4 * (32 * 64 + 256 * 64 + 256 + 32 * 256)
    assert recording.annotations["intensity"].total() == 2 * 32 * 64 * 256 / moved

"""Kernels of Triton, for the tests on a GPU."""

import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": size}) for size in (64, 128)], key=["n"])
@triton.jit
def multiply(a, b, out, n, BLOCK: tl.constexpr):
    """The product of two vectors."""
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < n
    tl.store(out + place, tl.load(a + place, mask) * tl.load(b + place, mask), mask)


def grid(n):
    """As many programs as *n* elements need."""
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)

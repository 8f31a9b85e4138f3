"""Kernels in the form of Triton's, and a stand-in for Triton that runs them on CPU tensors."""

from __future__ import annotations

import types
from typing import Any

tl: Any = types.ModuleType("triton.language")


class KernelInterface:
    """The class of all kernels, with the ``__getitem__`` that Triton's has."""

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)


class Kernel(KernelInterface):
    """A function of pointers, for each program of a grid."""

    def __init__(self, fn):
        self.fn = fn
        self.arg_names = list(fn.__code__.co_varnames[: fn.__code__.co_argcount])

    def run(self, *args, grid, warmup, **kwargs):
        pointers = [each.detach().numpy() if hasattr(each, "data_ptr") else each for each in args]
        for program in range(grid[0]):
            self.fn(*[_Pointer(each, program) for each in pointers], **kwargs)

    def __call__(self, *args):
        self.fn(*args)


class Tuned(KernelInterface):
    """Tries a kernel before it is launched, as Triton's autotuner does."""

    def __init__(self, fn):
        self.fn, self.arg_names = fn, fn.arg_names

    def run(self, *args, **kwargs):
        for each in args:
            each.clone()
        self.fn.run(*args, **kwargs)
        self.fn.run(*args, **kwargs)


class _Pointer:
    def __init__(self, array, place):
        self.array, self.place = array, place

    def __add__(self, step):
        return _Pointer(self.array, self.place + step)


def _store(pointer, value):
    pointer.array[pointer.place] = value


tl.load = lambda pointer: pointer.array[pointer.place]
tl.store = _store


@Kernel
def multiply(a, b, out):
    """Write the product of two vectors."""
    tl.store(out, tl.load(a) * tl.load(b))


@Kernel
def negate(x):
    """Write over a vector."""
    tl.store(x, -tl.load(x))


@Kernel
def look(x):
    """Write nothing."""
    tl.load(x)


@Kernel
def fail(x, out):
    """Write, and raise an error."""
    tl.store(out, tl.load(x).missing)

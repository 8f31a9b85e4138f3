"""What a kernel writes is found in its source: pointers are followed to parameters."""

from __future__ import annotations

import types

import pytest

from tests.capture.kernels import Kernel, Tuned, tl
from torchrecorder.capture.hooks.kernel_launches import function_of, stored_parameters

load, store = tl.load, tl.store


def plain(x, out, n):
    tl.store(out + n, tl.load(x + n))


def through_variables(x, out, stride):
    ends = base, _ = out + stride, x
    base += 1
    if (last := base) is not None:
        tl.store(last, tl.load(ends[1]))


def at_loaded_places(x, places, out):
    place = tl.load(places)
    tl.store(out + place, tl.load(x))


def parts_of_a_result(x, out):
    place: int
    first, place = split(out, tl.load(x))
    tl.store(first, place)


def split(pointer, step):
    return pointer + step, step


def chosen(x, out):
    (tl.store if x else tl.atomic_add)(x, 1)
    tl.store(out, 1)


def imported(x, out):
    store(out, load(x))


def named_like_a_kernel(inner, x, out):
    inner(x, out)
    inner.store([0], 1)


def into_a_list(x, out):
    parts = [x, out]
    parts[0] = out
    tl.store(parts, 1)


def by_name(x, out):
    tl.store(value=tl.load(x), pointer=out)


def atomic(x, total, lock):
    while tl.atomic_cas(lock, 0, 1):
        pass
    tl.atomic_add(total, tl.load(x))


def in_loops(x, first, second, n):
    here = there = first
    for _ in range(n):
        tl.store(there, tl.load(x))
        there = here
        here = second


def over_pointers(x, first, second):
    for out in (first, second):
        tl.store(out, tl.load(x))


def by_descriptors(x, out, n):
    read, write = tl.make_tensor_descriptor(x, [n]), tl.make_tensor_descriptor(out, [n])
    write.store([0], read.load([0]))


def returning_nothing(x, out):
    """A docstring, and no store."""
    tl.load(x + out)


@Kernel
def inner(value, target):
    tl.store(target, value)


def by_another(x, out):
    inner(tl.load(x), out)
    inner(target=x, value=1)


kernels = types.SimpleNamespace(inner=inner)


def by_an_attribute(x, out):
    kernels.inner(tl.load(x), out)


@Kernel
def recursive(x, out):
    tl.store(out, 1)
    recursive(out, x)


CASES = [  # numbers among the parameters, such as strides, are no tensors: they do not matter
    (plain, ("n", "out")),
    (through_variables, ("out", "stride")),
    (at_loaded_places, ("out",)),
    (parts_of_a_result, ("out",)),
    (chosen, ("out",)),
    (imported, ("out",)),
    (named_like_a_kernel, ("inner",)),
    (into_a_list, ("out", "x")),
    (by_name, ("out",)),
    (atomic, ("lock", "total")),
    (in_loops, ("first", "second")),
    (over_pointers, ("first", "second")),
    (by_descriptors, ("n", "out")),
    (returning_nothing, ()),
    (by_another, ("out", "x")),
    (by_an_attribute, ("out",)),
    (function_of(recursive), ("out",)),
]


@pytest.mark.parametrize("kernel, written", CASES, ids=lambda item: getattr(item, "__name__", ""))
def test_what_is_stored_to(kernel, written):
    assert stored_parameters(kernel) == written


def test_kernels_in_closures():
    another = inner

    def kernel(x, out):
        another(tl.load(x), out)

    assert stored_parameters(kernel) == ("out",)


def test_without_source():
    """Nothing is known of a kernel whose source is gone."""
    names: dict[str, object] = {}
    exec("def kernel(x): tl.store(x, 1)", names)
    assert stored_parameters(names["kernel"]) == ()


def test_the_function_behind_what_tunes_it():
    assert function_of(Tuned(Kernel(plain))) is plain

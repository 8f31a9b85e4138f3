"""Warnings that operations raise keep their place, so that filters and reports find them."""

from __future__ import annotations

import sys
import warnings

import pytest
import torch
from torch.nn import functional as F

import torchrecorder


def from_cpp(x):
    """A warning that PyTorch raises in C++."""
    return x.reshape(1, 2, 3).T


def from_python(x):
    """A warning that a function of PyTorch written in Python raises for its caller."""
    return F.softmax(x, _stacklevel=3)


def caught(function, *, record):
    """The warnings of a call: text, file, line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        x = torch.ones(2, 3)
        torch.set_warn_always(True)
        try:
            torchrecorder.record(function, x) if record else function(x)
        finally:
            torch.set_warn_always(False)
    return [(str(one.message), one.filename, one.lineno) for one in found]


@pytest.mark.parametrize("function", [from_cpp, from_python])
def test_warnings_come_from_the_line_of_the_plain_run(function):
    """File and line are those without the recorder."""
    plain = caught(function, record=False)
    assert len(plain) == 1
    assert caught(function, record=True) == plain


def test_filters_by_module_still_work():
    """A filter for the user's module hits."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
        torchrecorder.record(from_python, torch.ones(2, 3))


def test_a_traceback_shows_the_users_line_without_marks_in_it():
    """While the run goes on, the small function that calls has the user's line and no columns."""
    found = []

    def fails(x):
        with pytest.raises(RuntimeError) as raised:
            x @ torch.ones(5, 5)
        found.append(raised)
        return x

    torchrecorder.record(fails, torch.ones(2, 3))
    last = found[0].traceback[-1]
    assert last.path.name == "test_warnings.py" and "torch.ones(5, 5)" in str(last.statement)
    code, line = last.frame.code.raw, last.lineno + 1
    if sys.version_info >= (3, 11):
        assert {*code.co_positions()} == {(line, line, None, None)}

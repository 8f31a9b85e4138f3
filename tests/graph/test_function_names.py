"""What a function that was called is called."""

from __future__ import annotations

import pytest

from torchrecorder.events import FunctionCall, FunctionId


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("scale", "scale"), ("RoIHeads.scale", "scale"), ("a.b.scale", "scale"),
        ("Collater.__call__", "Collater"), ("outer.Collater.__call__", "Collater"),
        ("Batch.__init__", "Batch"), ("__call__", "__call__"), ("__init__", "__init__"),
    ],
)
def test_a_class_stands_for_what_makes_or_calls_it(name: str, called: str) -> None:
    """Where its name is known."""
    call = FunctionCall(FunctionId("f0"), None, None, name, "a.py", 1, None, (), ())
    assert call.called == called

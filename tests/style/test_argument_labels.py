"""Short texts of arguments and settings: decimals, and the span of those that differ."""

from __future__ import annotations

import pytest

from torchrecorder.style import labels
from torchrecorder.style.hyperparameters import arguments, hyperparameters


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("1.7320508075688772", "× 1.732"),
        ("-0.00012345678", "× -0.0001235"),
        ("1.23456e-07", "× 1.235e-07"),
        ("28.0", "× 28.0"),
        ("25088", "× 25088"),
        ("0.125", "× 0.125"),
        ("0.99999", "× 0.99999"),
        ("2.0000001192092896", "× 2"),
        ("-1000000000.0", "× -1e9"),
        ("123456789.0", "× 123456789.0"),
    ],
)
def test_decimals_have_four_digits(given: str, said: str) -> None:
    """Of an operation; a whole number is a size and stays."""
    assert arguments("mul", (("other", given),)) == (said,)


def test_decimals_of_modules_have_four_digits() -> None:
    """What a schedule has computed is no text that anybody reads."""
    assert hyperparameters("Dropout", "p=0.30000000000000004, inplace=False") == ("p 0.3",)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (["-3", "-2", "-1"], "-3 … -1"),
        (["(:, -1)", "(:, 0)", "(:, 1)"], "(:, -1 … 1)"),
        (["n-1", "n-2"], "n-1 … 2"),
        (["'nearest'", "'area'"], "nearest …"),
        (["1", "(1, 2)"], "1 …"),
    ],
)
def test_the_span_of_arguments_that_differ(given: list[str], text: str) -> None:
    """Numbers have their signs; other differences are not hidden."""
    assert labels.span(given) == text

"""The command line: comparing two models."""

from __future__ import annotations

import json

import pytest

from tests.integrations.test_cli import folder, run

__all__ = ["folder"]  # a fixture that all tests here use

NET = ("cli_nets:Net", "--shape", "2,4")


def test_two_targets(capsys: pytest.CaptureFixture[str]) -> None:
    """Changes are listed, a line each, and exit code 0 says that it worked."""
    code, out, _ = run(capsys, "compare", "cli_nets:Net", *NET, "--then", "classes=5")
    assert code == 0
    assert "head" in out.splitlines()[2] and "classes" not in out


def test_nothing_changed(capsys: pytest.CaptureFixture[str]) -> None:
    """The same model twice has no difference."""
    code, out, _ = run(capsys, "compare", "cli_nets:Net", *NET, "--exit-code")
    assert (code, out) == (0, "Net: no difference\n")


def test_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """On request, differences are told by the exit code."""
    arguments = ("compare", "cli_nets:Net", *NET, "--then", "classes=5", "--exit-code")
    assert run(capsys, *arguments)[0] == 1


def test_trouble_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """A model that raises ends with another code than one that differs."""
    wrong = ("compare", "cli_nets:Net", "cli_nets:Net", "--shape", "2,3")
    assert run(capsys, *wrong)[0] == 1
    assert run(capsys, *wrong, "--exit-code")[0] == 2


def test_leaving_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    """A factory that ends the program has the code of an error, not that of a difference."""
    assert run(capsys, "compare", *NET, "--exit-code", "cli_nets:leaves")[0] == 2


def test_settings_for_both(capsys: pytest.CaptureFixture[str]) -> None:
    """What is set holds for both, unless the second is set otherwise."""
    both = ("compare", "cli_nets:Net", *NET, "--set", "classes=5")
    assert "no difference" in run(capsys, *both)[1]
    assert "no difference" not in run(capsys, *both, "--then", "bias=False")[1]


def test_saved_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    """A saved recording is compared with the model as it is now."""
    run(capsys, "render", *NET, "-o", "run.json.gz")
    assert "no difference" in run(capsys, "compare", "run.json.gz", *NET)[1]
    assert "no difference" in run(capsys, "compare", "run.json.gz", "run.json.gz")[1]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """All changes, for programs."""
    out = run(capsys, "compare", "cli_nets:Net", *NET, "--then", "classes=5", "--json")[1]
    assert "resized" in {change["kind"] for change in json.loads(out)["changes"]}


def test_limit(capsys: pytest.CaptureFixture[str]) -> None:
    """So many lines, or all of them."""
    wide = ("compare", "cli_nets:Net", *NET, "--then", "classes=5", "--limit")
    assert len(run(capsys, *wide, "1")[1].splitlines()) == 4
    assert "more" not in run(capsys, *wide, "0")[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("compare cli_nets:Net", "the following arguments are required: after"),
        ("compare cli_nets:Net missing.json --shape 2,4", "there is no file"),
        ("compare cli_nets:Net cli_nets:Nett --shape 2,4", "has no 'Nett'"),
        ("compare cli_nets:Net cli_nets:Net --shape 2,4 --then 2", "NAME=VALUE"),
        ("compare cli_nets:Net cli_nets:Net --shape 2,4 --times 0.5", "factor above 1"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: str, said: str) -> None:
    """Each mistake ends in one sentence and exit code 2."""
    try:
        code, _, err = run(capsys, *arguments.split())
    except SystemExit as exit:
        code, err = exit.code, capsys.readouterr().err
    assert code == 2 and said in err and "Traceback" not in err


def test_numbers_are_measured_and_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """A factor goes after an equals sign; what differs is a difference."""
    asked = ("--number", "gradient_norm=1.01,flops", "--number", "zeros", "--exit-code")
    code, out, _ = run(capsys, "compare", "cli_nets:Net", *NET, "--then", "classes=5", *asked)
    assert code == 1
    assert "the whole run" in out and "flops: " in out and "gradient_norm: " in out
    code, _, error = run(capsys, "compare", "cli_nets:Net", *NET, "--number", "flop")
    assert code == 2 and "did you mean 'flops'" in error
    code, _, error = run(capsys, "compare", "cli_nets:Net", *NET, "--number", "flops=less")
    assert code == 2 and "--number flops=less: the factor must be at least 1" in error


def test_a_wrong_factor_is_refused_before_the_models_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They may take long."""
    code, _, error = run(capsys, "compare", "nothing:here", "nothing:here", "--times", "0.5")
    assert (code, error) == (2, "torchrecorder: error: --times must be a factor above 1, not 0.5\n")

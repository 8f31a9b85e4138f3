"""Shell completion: the scripts are taken by their shells, and complete what there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from torchrecorder.integrations.cli import main, parser
from torchrecorder.integrations.commands import COMMANDS
from torchrecorder.integrations.completion import SHELLS, commands_of, script

NAMES = {each.name for each in COMMANDS}

CASES = [
    ("torchrecorder ", NAMES),
    ("torchrecorder comp", {"compare", "completion"}),
    ("torchrecorder render --dir", {"--direction"}),
    ("torchrecorder render --direction ", {"TB", "LR", "BT", "RL"}),
    ("torchrecorder render x --theme da", {"dark"}),
    ("torchrecorder top x --by fl", {"flops"}),
    ("torchrecorder top x --of m", {"module"}),
    ("torchrecorder completion ", {"bash", "zsh", "fish"}),
    ("torchrecorder run -o ", {"a file.json", "net.py"}),
    ("torchrecorder summary n", {"net.py"}),
]

ASK_BASH = """
source ./completion.bash
COMP_WORDS=($LINE) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
case "$LINE" in *" ") COMP_WORDS+=(""); COMP_CWORD=$((COMP_CWORD + 1)) ;; esac
_torchrecorder
[ ${#COMPREPLY[@]} -eq 0 ] && COMPREPLY=(FILES)
printf '%s\\n' "${COMPREPLY[@]}"
"""


def ask(shell: str, code: str, folder: Path, **more: str) -> set[str]:
    """What a shell answers, line by line; skips where it is not installed."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (folder / f"completion.{shell}").write_text(script(shell, parser()))
    for name in ("a file.json", "net.py"):
        (folder / name).touch()
    done = subprocess.run(
        [shutil.which(shell) or shell, "-c", code],
        capture_output=True, text=True, check=True, cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin", **more},
    )  # fmt: skip
    assert done.stderr == ""
    return set(done.stdout.splitlines())


@pytest.mark.parametrize(("line", "found"), CASES)
def test_bash(tmp_path: Path, line: str, found: set[str]) -> None:
    """Files are left to bash itself."""
    files = found & {"net.py"}
    said = ask("bash", ASK_BASH, tmp_path, LINE=line)
    assert said == {"FILES"} if files else found <= said <= {*found, "--help", "--version"}


@pytest.mark.parametrize(("line", "found"), CASES)
def test_fish(tmp_path: Path, line: str, found: set[str]) -> None:
    """Fish says what it would offer."""
    code = "source completion.fish; complete -C $LINE"
    told = {each.split("\t")[0] for each in ask("fish", code, tmp_path, LINE=line)}
    said = {each.replace("\\", "") for each in told}
    assert found <= said and said - found <= {"completion.fish"}


def test_zsh(tmp_path: Path) -> None:
    """Zsh can read it, and defines the completion."""
    code = (
        "autoload -Uz compinit; compinit -u -D; source ./completion.zsh;"
        "print -r -- $_comps[torchrecorder]"
    )
    assert ask("zsh", code, tmp_path) == {"_torchrecorder"}


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_know_every_flag(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    """Of every command, and print nothing else."""
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert text == script(shell, parser())
    for command in commands_of(parser()):
        assert command.name in text
        for flag in command.flags:
            spelled = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            assert (spelled if shell == "fish" else flag) in text


def test_help_with_quotes_and_brackets() -> None:
    """What is said of an option cannot end its text early."""
    import argparse

    top = argparse.ArgumentParser()
    below = top.add_subparsers().add_parser("do", help="it's [all] there: 'x'")
    below.add_argument("--flag", help="it's [said]: \\ 'so'", metavar="A")
    for shell in SHELLS:
        if shutil.which(shell):
            text = script(shell, top)
            done = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")

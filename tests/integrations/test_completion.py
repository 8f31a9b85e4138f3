"""Shell completion: the scripts are taken by their shells, and complete what there is."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from torchrecorder.integrations.cli import main, parser
from torchrecorder.integrations.commands import COMMANDS
from torchrecorder.integrations.commands.completion import SHELLS, script
from torchrecorder.options import OPTIONS

NAMES = {command.name for command in COMMANDS}

CASES = [
    ("torchrecorder ", NAMES),
    ("torchrecorder comp", {"compare", "completion"}),
    ("torchrecorder render --dir", {"--direction"}),
    ("torchrecorder render x --color-", {"--color-by", "--color-range"}),
    ("torchrecorder render --direction ", {"TB", "LR", "BT", "RL"}),
    ("torchrecorder render x --theme da", {"dark"}),
    ("torchrecorder render x --color-by fl", {"flops"}),
    ("torchrecorder html x --view back", {"backward"}),
    ("torchrecorder top x --by fl", {"flops"}),
    ("torchrecorder summary x --column fl", {"flops"}),
    ("torchrecorder top x --of m", {"module"}),
    ("torchrecorder open x --format pd", {"pdf"}),
    ("torchrecorder completion ", set(SHELLS)),
    ("torchrecorder run -o ", {"a file.json", "net.py"}),
    ("torchrecorder summary n", {"net.py"}),
]

ASK_BASH = """
source ./completion.bash
COMP_WORDS=($LINE) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
case "$LINE" in *" ") COMP_WORDS+=(""); COMP_CWORD=$((COMP_CWORD + 1)) ;; esac
$(complete -p torchrecorder | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
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
    )
    assert done.stderr == ""
    return set(done.stdout.splitlines())


@pytest.mark.parametrize(("line", "found"), CASES)
def test_bash(tmp_path: Path, line: str, found: set[str]) -> None:
    """What bash offers at the end of a line."""
    offered = {word.strip() for word in ask("bash", ASK_BASH, tmp_path, LINE=line)}
    assert found <= offered and offered - found <= {"completion.bash", "--help", "--version", "-h"}


@pytest.mark.parametrize(("line", "found"), CASES)
def test_fish(tmp_path: Path, line: str, found: set[str]) -> None:
    """Fish says what it would offer."""
    code = "source completion.fish; complete -C $LINE"
    offered = {each.split("\t")[0] for each in ask("fish", code, tmp_path, LINE=line)}
    assert found <= {each.replace("\\", "") for each in offered}


def test_zsh(tmp_path: Path) -> None:
    """Zsh can read it, and defines the completion."""
    code = (
        "autoload -Uz compinit; compinit -u -D; eval \"$(<./completion.zsh)\";"
        "print -r -- $_comps[torchrecorder]"
    )
    assert "torchrecorder" in "".join(ask("zsh", code, tmp_path))


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_have_every_option_of_a_drawing(
    capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    """The command prints the script and nothing else, and the script has all flags."""
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert text == script(shell, parser())
    assert all(name in text for name in NAMES)
    for option in OPTIONS.values():
        if option.check.read is not None:
            assert option.spelled in text

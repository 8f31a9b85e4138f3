"""Completion: scripts that make bash, zsh and fish complete our command line.

They are made from the parser, so that they know what it knows, and hold everything
themselves: pressing a key runs no Python.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "torchrecorder"


@dataclass(frozen=True)
class Option:
    """One option, or a positional argument if it has no flags.

    Attributes:
        flags: What is typed, ``("-o", "--output")``.
        said: Its help.
        takes: Whether a value follows.
        choices: Values that can be completed.
        files: Whether the value is a file.
        again: Whether it may be given more than once.
    """

    flags: tuple[str, ...]
    said: str
    takes: bool
    choices: tuple[str, ...] = ()
    files: bool = False
    again: bool = False


@dataclass(frozen=True)
class Known:
    """One subcommand with its options."""

    name: str
    said: str
    options: tuple[Option, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        """All flags of all options."""
        return tuple(flag for option in self.options for flag in option.flags)


def commands_of(parser: argparse.ArgumentParser) -> tuple[Known, ...]:
    """The subcommands of *parser*."""
    groups = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    group = next(groups)
    said = {each.dest: each.help or "" for each in group._choices_actions}
    return tuple(
        Known(name, said[name], tuple(map(_option, below._actions)))
        for name, below in group.choices.items()
    )


def _option(action: argparse.Action) -> Option:
    choices = tuple(map(str, action.choices or _values().get(action.dest, ())))
    files = action.type is Path or (not action.option_strings and not choices)
    return Option(
        tuple(action.option_strings),
        action.help or "",
        action.nargs != 0,
        choices,
        files,
        isinstance(action, argparse._AppendAction),
    )


def _values() -> Mapping[str, tuple[str, ...]]:
    """Values of options that take others too, by the name of the option."""
    from torchrecorder.annotations import ANNOTATIONS
    from torchrecorder.export.formats import known
    from torchrecorder.style.themes import THEMES

    numbers = tuple(each.name for each in ANNOTATIONS)
    return {
        "theme": tuple(THEMES),
        "by": numbers,
        "number": numbers,
        "column": ("input", "output", *numbers),
        "format": tuple(suffix.lstrip(".") for suffix in known()),
        "device": ("cpu", "cuda", "meta"),
    }


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """What the shell is to run once, to complete from then on."""
    return "\n".join((*SHELLS[shell](commands_of(parser)), ""))


# bash -------------------------------------------------------------------------------


def _bash(commands: tuple[Known, ...]) -> Iterator[str]:
    """Where no word is offered, bash completes the names of files."""
    names = " ".join(each.name for each in commands)
    yield f"_{PROGRAM}() {{"
    yield '    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" word words'
    yield "    COMPREPLY=()"
    yield '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield '        [ "$word" = -- ] && return'
    yield "    done"
    yield '    if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'        words="{names} --help --version"'
    yield "    else"
    yield '        case "${COMP_WORDS[1]} $prev" in'
    for command in commands:
        yield from _bash_values(command)
    yield "        *) case ${COMP_WORDS[1]} in"
    for command in commands:
        yield from _bash_words(command)
    yield "        esac ;;"
    yield "        esac"
    yield "    fi"
    yield '    [ -n "$words" ] && COMPREPLY=($(compgen -W "$words" -- "$cur"))'
    yield "}"
    yield f"complete -o bashdefault -o default -F _{PROGRAM} {PROGRAM}"


def _bash_values(command: Known) -> Iterator[str]:
    for option in command.options:
        if option.takes and option.flags:
            pattern = "|".join(f'"{command.name} {flag}"' for flag in option.flags)
            given = f'words="{" ".join(option.choices)}"' if option.choices else "return"
            yield f"        {pattern}) {given} ;;"


def _bash_words(command: Known) -> Iterator[str]:
    plain = [each for option in command.options if not option.flags for each in option.choices]
    otherwise = f'words="{" ".join(plain)}"' if plain else "return"
    flags = " ".join(command.flags)
    words = f'case $cur in -*) words="{flags}" ;; *) {otherwise} ;; esac'
    yield f"            {command.name}) {words} ;;"


# zsh --------------------------------------------------------------------------------


def _zsh(commands: tuple[Known, ...]) -> Iterator[str]:
    yield f"#compdef {PROGRAM}"
    yield f"_{PROGRAM}() {{"
    yield "    local -a commands"
    yield "    commands=("
    for command in commands:
        yield f"        {_quoted(command.name + ':' + command.said)}"
    yield "    )"
    yield "    if (( CURRENT == 2 )); then"
    yield "        _describe -t commands command commands"
    yield "        return"
    yield "    fi"
    yield "    shift words; (( CURRENT-- ))"
    yield "    case $words[1] in"
    for command in commands:
        yield f"        {command.name}) _arguments -S \\"
        for option in command.options:
            yield f"            {_zsh_spec(option)} \\"
        yield "            '*:file:_files' ;;"
    yield "    esac"
    yield "}"
    yield f'if [ "$funcstack[1]" = _{PROGRAM} ]; then _{PROGRAM} "$@"'
    yield f"else compdef _{PROGRAM} {PROGRAM}; fi"


def _zsh_spec(option: Option) -> str:
    """One specification for ``_arguments``."""
    said = option.said.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
    values = f"({' '.join(option.choices)})" if option.choices else "_files" * option.files
    if not option.flags:
        return _quoted(f":{said.replace(':', ' ')}:{values or '_files'}")
    value = f":value:{values}" if option.takes else ""
    if len(option.flags) == 1 or option.again:
        several = "*" if option.again else ""
        return " ".join(_quoted(f"{several}{flag}[{said}]{value}") for flag in option.flags)
    alone = _quoted(f"({' '.join(option.flags)})")
    return f"{alone}{{{','.join(option.flags)}}}{_quoted(f'[{said}]{value}')}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# fish -------------------------------------------------------------------------------


def _fish(commands: tuple[Known, ...]) -> Iterator[str]:
    yield f"complete -c {PROGRAM} -e"
    yield f"complete -c {PROGRAM} -f -n __fish_use_subcommand -l help -l version"
    for command in commands:
        said = _fish_quoted(command.said)
        yield f"complete -c {PROGRAM} -f -n __fish_use_subcommand -a {command.name} -d {said}"
    for command in commands:
        for option in command.options:
            yield from _fish_option(command, option)


def _fish_option(command: Known, option: Option) -> Iterator[str]:
    flags = [
        f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags
    ]
    where = f"-n '__fish_seen_subcommand_from {command.name}'"
    values = f"-a {_fish_quoted(' '.join(option.choices))}" if option.choices else ""
    kind = "" if not option.takes else "-r -F" if option.files else "-x"
    if not flags:
        kind = "-f" if option.choices else "-F"
    parts = (where, *flags, kind, values, "-d", _fish_quoted(option.said))
    yield f"complete -c {PROGRAM} " + " ".join(part for part in parts if part)


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


SHELLS: Mapping[str, Callable[[tuple[Known, ...]], Iterator[str]]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
"""What makes the lines of the script, by the name of the shell."""

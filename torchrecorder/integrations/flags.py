"""Flags: options as command line arguments, and in messages of the command line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from torchrecorder.errors import InvalidArgument
from torchrecorder.option_table import Option


class Flag(argparse.Action):
    """Parses the value of an `Option`; *offered* are values for shell completion."""

    def __init__(self, option_strings: Sequence[str], dest: str, option: Option) -> None:
        self.option = option
        self.offered = option.check.known
        switch = option.check.switch
        super().__init__(
            option_strings,
            dest,
            nargs=None if not switch else "?" if self.offered else 0,
            default=argparse.SUPPRESS,
            metavar=_placeholder(option),
            help=(option.brief + _default(option)).replace("%", "%%"),
        )

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        try:
            value = self.option.read(values or None)
        except InvalidArgument as error:
            raise argparse.ArgumentError(self, str(error)) from None
        if self.option.check.several and self.dest in namespace:
            value = self.option.joined([getattr(namespace, self.dest), value])
        setattr(namespace, self.dest, value)


def add_flags(parser: argparse._ActionsContainer, options: Iterable[Option]) -> None:
    """Declare the flags of the *options* that can be given as text, and to turn them off."""
    for option in options:
        switch, on = option.check.switch, [option.flag, f"--{option.spelled}"]
        only_off = option.default is True and not option.check.known
        if option.check.read is not None and not only_off:
            parser.add_argument(*filter(None, on), dest=option.name, action=Flag, option=option)
        if switch and option.default is not False:
            flag, brief = option.negated
            parser.add_argument(
                flag, dest=option.name, action="store_false", default=argparse.SUPPRESS, help=brief
            )


def given_options(namespace: argparse.Namespace, options: Collection[str]) -> dict[str, Any]:
    """The values of those *options* that are in a command."""
    return {name: value for name, value in vars(namespace).items() if name in options}


def _default(option: Option) -> str:
    """The default in a help text, for options that are not switches; empty if it is no text."""
    value = getattr(option.default, "name", option.default)  # that of a theme
    if isinstance(value, bool) or not isinstance(value, (int, float, str)) or value == "":
        return ""
    return f" (default: {value:g})" if isinstance(value, (int, float)) else f" (default: {value})"


def _placeholder(option: Option) -> str:
    known = option.check.known
    return option.placeholder or (f"{{{','.join(known)}}}" if known else option.name.upper())


# Messages ---------------------------------------------------------------------------


def in_shell(message: str, options: Mapping[str, Option]) -> str:
    """*message* with names of options replaced by flags."""
    names = "|".join(sorted(options, key=len, reverse=True))
    message = re.sub(r"record\(\.\.\., (.*?)\)", r"recording with \1", message)
    message = re.sub(rf"^({names})(?= must |: )", lambda found: f"--{found[1]}", message)
    message = re.sub(
        rf"(?<![\w.-])({names})=(True|False|'[^']*'|\"[^\"]*\"|\.\.\.|(?!\w))",
        lambda found: _typed(options[found[1]], found[2]),
        message,
    )
    long = "|".join(name for name in options if "_" in name)
    message = re.sub(rf"(?<![\w.'\"-])({long})(?![\w'\"])", r"--\1", message)
    message = re.sub(r"(?<![\w-])--(\w+)", lambda found: "--" + found[1].replace("_", "-"), message)
    return re.sub(r" or None(?=, not )", "", message)


def _typed(option: Option, value: str) -> str:
    if value == "False":
        return option.negated[0]
    text = value.strip("'\"")
    return f"--{option.spelled}" + f" {text}" * (text not in ("", "True", "..."))

"""Option: the declaration of a keyword option: its help, its check, and how to parse it from text.

The fields of a class with options are declared by `option`. This declaration is the only source
of the check, the flag on the command line, the option of the Sphinx and MkDocs directives, and
the entry in the reference.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from typing import Any, TypeVar

from torchrecorder.checks import Check, check, described
from torchrecorder.errors import InvalidArgument

Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True)
class Option:
    """One keyword option."""

    name: str  # its name in Python
    help: str  # its effect; only the first sentence is shown if there is little space
    check: Check  # the condition for valid values
    default: Any  # its value if it is not given
    flag: str = ""  # a short flag of the command line, ``"-d"``
    # the flag that turns it off and its help, if it is not ``--no-`` and the name
    off: tuple[str, str] | None = None
    placeholder: str = ""  # the placeholder of its value in usage messages, ``"LENGTH"``

    @property
    def brief(self) -> str:
        """The first sentence of the help, without markup."""
        sentence = re.split(r"\.\s|\.$", self.help, maxsplit=1)[0]
        return re.sub(r"[`*]", "", sentence[:1].lower() + sentence[1:])

    @property
    def spelled(self) -> str:
        """Its name with hyphens, as shells and directives spell it."""
        return self.name.replace("_", "-")

    @property
    def negated(self) -> tuple[str, str]:
        """The flag that turns it off, and its help."""
        return self.off or (f"--no-{self.spelled}", f"do not {self.brief}")

    def read(self, text: str | None) -> Any:
        """Parse the value from *text*; None means an option without a value.

        Raises:
            InvalidArgument: The text is no valid value; the message begins with "it must be".
        """
        rule = self.check
        if text is None or not text.strip():
            if rule.switch:
                return True
            raise InvalidArgument("it needs a value")
        value = rule.read(text.strip()) if rule.read is not None else text
        if value is None or not rule.holds(value):
            expected = rule.expected.replace("True, False", "yes, no")
            expected = expected.replace("True or False", "yes or no")
            spoken = replace(rule, expected=expected, optional=False)
            raise InvalidArgument(f"it must be {described(spoken, value)}")
        return value

    def joined(self, values: Iterable[Any]) -> Any:
        """The value of an option that was given several times, or on several lines."""
        *earlier, last = values
        if not self.check.several or not earlier:
            return last
        if isinstance(last, Mapping):
            return {name: value for one in (*earlier, last) for name, value in one.items()}
        return tuple(value for one in (*earlier, last) for value in one)


def option(
    help: str,
    check: Check,
    *,
    default: Any = MISSING,
    factory: Any = MISSING,
    flag: str = "",
    off: tuple[str, str] | None = None,
    placeholder: str = "",
) -> Any:
    """A dataclass field that is an option; see `Option`."""
    given = {"help": help, "check": check, "flag": flag, "off": off, "placeholder": placeholder}
    return field(default=default, default_factory=factory, metadata={"option": given})


@cache
def options_of(kind: type) -> Mapping[str, Option]:
    """The options that are declared in a dataclass, by name."""
    return {
        one.name: Option(
            name=one.name,
            default=one.default if one.default_factory is MISSING else one.default_factory(),
            **one.metadata["option"],
        )
        for one in fields(kind)
        if "option" in one.metadata
    }


class Checked:
    """Base of dataclasses with options: they are checked when an instance is created.

    Raises:
        InvalidArgument: One has a wrong value; the message says what is possible.
    """

    def __post_init__(self) -> None:
        options = options_of(type(self))  # type: ignore[arg-type]  # a class is hashable
        check(self, {name: one.check for name, one in options.items()})


def documented(kind: Kind) -> Kind:
    """Add the options of a dataclass to its docstring."""
    listed = "\n".join(f"    {one.name}: {one.help}" for one in options_of(kind).values())
    kind.__doc__ = f"{kind.__doc__}\n\nAttributes:\n{listed}\n"
    return kind


def no_effect(names: Collection[str]) -> str:
    """That options have no effect, as text.

    Example:
        >>> no_effect(["--a"]), no_effect(["--a", "--b"])
        ('--a has no effect', '--a, --b have no effect')
    """
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect"

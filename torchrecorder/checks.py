"""Checks: what options and names may be, and what to say where one is something else.

A class with options has a table of them, one line for each, and checks itself when it is
made: so whoever hands a wrong value on, from Python or a shell or a page of documentation,
reads the same sentence.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import inspect
import math
import os
import re
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar

from torchrecorder.errors import ArgumentMismatch, InvalidArgument, NothingFound, Notice

Given = ParamSpec("Given")
Gives = TypeVar("Gives")

_OURS = (__name__.partition(".")[0] + ".", "contextlib")
"""What the names of modules between a caller and a warning of ours begin with."""


class Check(NamedTuple):
    """What a value must be: said in words, whether one is, and texts of which one may be meant."""

    said: str
    holds: Callable[[Any], bool]
    known: tuple[str, ...] = ()

    def or_none(self) -> Check:
        """The same, or nothing."""
        said = f"{self.said} or None"
        return Check(said, lambda value: value is None or self.holds(value), self.known)


def check(given: object, checks: Mapping[str, Check]) -> None:
    """Refuse *given* if one of its attributes is not what it must be.

    Raises:
        InvalidArgument: It says the name, what is possible, and what was given.
    """
    for name, wanted in checks.items():
        check_one(name, getattr(given, name), wanted)


def check_one(name: str, value: object, wanted: Check) -> None:
    """Refuse *value* if it is not what an argument called *name* must be.

    Raises:
        InvalidArgument: It says the name, what is possible, and what was given.
    """
    if not wanted.holds(value):
        meant = guess(value, wanted.known) if isinstance(value, str) else ""
        raise InvalidArgument(f"{name} must be {wanted.said}, not {shown(value)}{meant}")


def shown(value: object) -> str:
    """*value* as a message can hold it."""
    brief = reprlib.Repr()
    brief.maxstring = brief.maxother = 80
    return " ".join(brief.repr(value).split())


def one_of(*known: str | bool) -> Check:
    """One of a few texts, or True and False among them."""
    *others, last = map(repr, known)
    said = f"{', '.join(others)} or {last}" if others else last
    return Check(said, lambda value: any(type(value) is type(each) and value == each
                                         for each in known))


def whole_number(least: int) -> Check:
    """A whole number that is not less."""
    return Check(
        f"a whole number from {least} on",
        lambda value: isinstance(value, Integral) and _is_number(value) and int(value) >= least,
    )


def _is_number(value: object) -> bool:
    """A flag is none, although Python counts with it."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return value == value and value not in (math.inf, -math.inf)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(each, str) for each in value)


def _are_texts(value: object) -> bool:
    listed = isinstance(value, (Sequence, frozenset, set)) and not isinstance(value, bytes)
    return listed and all(isinstance(each, str) for each in value)  # type: ignore[attr-defined]


MOST = 1e6
"""No size of letters or seconds of patience can be meant to be more."""

FLAG = one_of(True, False)
TEXT = Check("a text", lambda value: isinstance(value, str))
WORD = Check("a text that is not empty", lambda value: TEXT.holds(value) and value.strip())
TEXTS = Check("a text or a list of texts", _are_texts)
ABOVE_0 = Check("a number above 0", lambda value: _is_number(value) and 0 < value <= MOST)
FROM_0 = Check("a number from 0 on", lambda value: _is_number(value) and value >= 0)
RANGE = Check(
    "two numbers, the smaller one first",
    lambda value: isinstance(value, Sequence) and len(value) == 2
    and all(map(_is_number, value)) and value[0] <= value[1],
)
MAPPING = Check("a mapping from names", _is_mapping)
CALLABLE = Check("something to call", callable)


LIST = Check(
    "a list of names, such as ['flops']", lambda value: isinstance(value, (list, tuple))
)
PATH = Check(
    "a path",
    lambda value: isinstance(value, (str, os.PathLike))
    and isinstance(os.fspath(value), str)
    and "\0" not in os.fspath(value),
)


def path_of(value: object, name: str = "path") -> Path:
    """*value* as a path.

    Raises:
        InvalidArgument: It is none.
    """
    check_one(name, value, PATH)
    return Path(value)  # type: ignore[arg-type]


def guess(name: object, known: Iterable[str]) -> str:
    """``"; did you mean 'depth'?"`` where something is called nearly so, else nothing."""
    meant = closest(name, known)
    return f"; did you mean {meant!r}?" if meant is not None else ""


def closest(name: object, known: Iterable[str]) -> str | None:
    """What of the *known* is called nearly so.

    A word of a longer name is that name: ``"mean"`` is ``"activation_mean"``.
    """
    names, asked = {each.casefold(): each for each in known}, str(name).casefold()
    close = difflib.get_close_matches(asked, names, 1)
    close = close or [each for each in names if asked in re.split(r"[_.\W]+", each)]
    return names[close[0]] if close else None


def warn_unmatched(option: str, patterns: Iterable[str], known: Iterable[str]) -> None:
    """Warn of each of *patterns* in *option* that none of the *known* names is like."""
    names = list(dict.fromkeys(filter(None, known)))
    for pattern in patterns:
        if pattern in names:
            continue
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            warn(f"{option}: nothing here is called {pattern!r}{guess(pattern, names)}")


def warn(said: str, kind: type[Notice] = NothingFound) -> None:
    """Warn of what was asked for and is not there, at the line outside that asked."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(said, kind, stacklevel=level)


def takes(**checks: Check) -> Callable[[Callable[Given, Gives]], Callable[Given, Gives]]:
    """A decorator that checks the arguments of these names, and gives advice as `advised` does.

    Defaults are not checked.
    """

    def decorated(function: Callable[Given, Gives]) -> Callable[Given, Gives]:
        names, told = tuple(inspect.signature(function).parameters), advised(function)

        @functools.wraps(function)
        def call(*args: Given.args, **kwargs: Given.kwargs) -> Gives:
            given = {**dict(zip(names, args)), **kwargs}
            for name, wanted in checks.items():
                if name in given:
                    check_one(name, given[name], wanted)
            return told(*args, **kwargs)

        return call

    return decorated


def advised(function: Callable[Given, Gives]) -> Callable[Given, Gives]:
    """*function*, with advice where it is called with a name that it does not know.

    Python below 3.13 does not say what was meant.
    """
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Gives:
        for name in kwargs:
            if name not in known:
                called = function.__qualname__.removesuffix(".__init__")
                close = guess(name, known)
                if "kwargs" in known and not close:
                    close = f"; an argument of the model goes into kwargs={{{name!r}: ...}}."
                raise ArgumentMismatch(
                    f"{called}() has no argument {name!r}{close or '.'} "
                    f"It takes {', '.join(known)}"
                )
        return function(*args, **kwargs)

    return call

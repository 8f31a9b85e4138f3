"""Checks of option values: a description, a test, and how to parse the value from text.

A class with options declares a check for each of them (`torchrecorder.option_table`) and runs
the checks when it is created. The error message is the same in Python, a shell and a document.
"""

from __future__ import annotations

import ast
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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from torchrecorder.errors import ArgumentMismatch, InvalidArgument, NothingFound, Notice

Params = ParamSpec("Params")
Result = TypeVar("Result")

_INTERNAL = (__name__.partition(".")[0] + ".", "contextlib")
"""Prefixes of the modules between a warning of torchrecorder and the caller it is attributed to."""


@dataclass(frozen=True)
class Check:
    """A condition on a value."""

    expected: str  # a description, to follow "must be"
    holds: Callable[[Any], Any]  # whether a value is valid
    known: tuple[str, ...] = ()  # valid values as text, for suggestions and completion
    # parses a value from text; None if text cannot express one
    read: Callable[[str], Any] | None = None
    optional: bool = False  # None is valid too
    switch: bool = False  # True and False are valid values: a flag turns the option on or off
    several: bool = False  # the option can be given several times; the values are joined

    def __repr__(self) -> str:
        return f"<Check: must be {self.expected}{' or None' * self.optional}>"

    def or_none(self) -> Check:
        """The same check, with None as another valid value."""
        return replace(
            self, optional=True, holds=lambda value: value is None or self.holds(value)
        )


def check(owner: object, checks: Mapping[str, Check]) -> None:
    """Check the attributes of *owner* that *checks* names.

    Raises:
        InvalidArgument: One has a wrong value; the message says what is possible.
    """
    for name, rule in checks.items():
        check_one(name, getattr(owner, name), rule)


def check_one(name: str, value: object, rule: Check) -> None:
    """Check the *value* of an argument called *name*.

    Raises:
        InvalidArgument: The value is wrong; the message says what is possible.
    """
    if not rule.holds(value):
        raise InvalidArgument(f"{name} must be {described(rule, value)}")


def described(rule: Check, value: object) -> str:
    """The expectation of *rule*, and *value*; with a suggestion if a valid value is similar."""
    expected = rule.expected + " or None" * rule.optional
    close = guess(value, rule.known) if isinstance(value, str) else ""
    return f"{expected}, not {shown(value)}{close}"


def shown(value: object) -> str:
    """*value* as short text for a message."""
    brief = reprlib.Repr()
    brief.maxstring = brief.maxother = 80
    return " ".join(brief.repr(value).split())


# Texts to values --------------------------------------------------------------------


def literal(text: str) -> Any:
    """*text* parsed as a Python literal; the text itself if it is not one."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def switched(text: str) -> bool | str:
    """True or False for a *text* such as ``yes`` or ``off``; the text itself if it is neither."""
    on = ("yes", "true", "on", "1"), ("no", "false", "off", "0")
    return next((value for value, texts in zip((True, False), on) if text.lower() in texts), text)


def words(text: str) -> tuple[str, ...]:
    """Split names at commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def pair(text: str) -> dict[str, str]:
    """``name=text``, with spaces around either.

    Raises:
        InvalidArgument: There is no name, no equals sign or no text.
    """
    name, _, value = (part.strip() for part in text.partition("="))
    if not name or not value:
        raise InvalidArgument(f"cannot read {text!r}: write NAME=TEXT")
    return {name: value}


def setting(text: str) -> dict[str, Any]:
    """``name=literal``, where the name is that of an argument.

    Raises:
        InvalidArgument: There is no such name, or no equals sign.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not name.isidentifier():
        raise InvalidArgument(f"cannot read {text!r}: write NAME=VALUE")
    return {name: literal(value)}


# Kinds of values --------------------------------------------------------------------


def one_of(*known: str | bool) -> Check:
    """One of a few texts; True and False may be among them."""
    *others, last = map(repr, known)
    texts = tuple(value for value in known if isinstance(value, str))
    return Check(
        f"{', '.join(others)} or {last}" if others else last,
        lambda value: any(type(value) is type(one) and value == one for one in known),
        texts,
        switched if True in known else str,
        switch=True in known,
    )


def whole_number(least: int) -> Check:
    """A whole number that is not smaller than *least*."""
    return Check(
        f"a whole number of at least {least}",
        lambda value: isinstance(value, Integral) and _is_number(value) and int(value) >= least,
        read=literal,
    )


def number_or(rule: Check, *texts: str) -> Check:
    """A check for a value that passes *rule*, or is one of *texts*."""
    return replace(
        rule,
        expected=f"{rule.expected} or {' or '.join(map(repr, texts))}",
        holds=lambda value: value in texts if isinstance(value, str) else rule.holds(value),
        known=texts,
    )


def _is_number(value: object) -> bool:
    """Whether *value* is a finite number; True and False are not."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return value == value and value not in (math.inf, -math.inf)


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _are_texts(value: object) -> bool:
    listed = isinstance(value, (Sequence, frozenset, set)) and not isinstance(value, bytes)
    return listed and all(isinstance(item, str) for item in value)  # type: ignore[attr-defined]


UPPER_BOUND = 1e6
"""Upper bound of font sizes, in points, of resolutions and of time limits, in seconds."""


def above_0(number: str = "a number") -> Check:
    """A *number* such as ``"a number of seconds"``: more than 0, up to the upper bound."""
    return Check(
        f"{number} above 0, at most {UPPER_BOUND:,.0f}",
        lambda value: _is_number(value) and 0 < value <= UPPER_BOUND,  # type: ignore[operator]
        read=literal,
    )


FLAG = one_of(True, False)
TEXT = Check("a string", lambda value: isinstance(value, str), read=str)
WORD = Check(
    "a string that is not empty",
    lambda value: TEXT.holds(value) and value.strip(),
    read=str,
)
PATTERN = replace(TEXT, expected="one path or one pattern for several, such as 'encoder.*',")
PLACE = replace(TEXT, expected="one path or one name of a tensor, such as 'encoder.0',")
TEXTS = Check("a string or a list of strings", _are_texts, read=words, several=True)
ABOVE_0 = above_0()
FROM_0 = Check(
    "a number of at least 0", lambda value: _is_number(value) and value >= 0, read=literal
)
RANGE = Check(
    "two numbers, the smaller one first",
    lambda value: isinstance(value, Sequence) and len(value) == 2
    and all(map(_is_number, value)) and value[0] <= value[1],
    read=literal,
)
MAPPING = Check("a mapping from names", _is_mapping)
CALLABLE = Check("a callable", callable)
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
        InvalidArgument: It cannot be one.
    """
    check_one(name, value, PATH)
    return Path(value)  # type: ignore[arg-type]


# Suggestions and warnings -----------------------------------------------------------


def guess(name: object, known: Iterable[str]) -> str:
    """``"; did you mean 'depth'?"`` where a known name is close, else an empty text."""
    meant = closest(name, known)
    return f"; did you mean {meant!r}?" if meant is not None else ""


def closest(name: object, known: Iterable[str]) -> str | None:
    """The known name with the most similar spelling, or with *name* as one of its words.

    For example ``"activation_mean"`` for ``"mean"``.
    """
    names, wanted = {one.casefold(): one for one in known}, str(name).casefold()
    close = difflib.get_close_matches(wanted, names, 1)
    close = close or [one for one in names if wanted in re.split(r"[_.\W]+", one)]
    return names[close[0]] if close else None


_MOST_WARNINGS = 10
"""Maximum number of unmatched patterns with a warning of their own, as each is compared with all
names."""


def warn_unmatched(option: str, patterns: Collection[str], known: Iterable[str]) -> None:
    """Warn about each pattern in *option* that matches none of the *known* names; of many, the last
    in one warning."""
    names = dict.fromkeys(filter(None, known)) if patterns else {}
    lost = [each for each in patterns if each not in names and not _any_fits(each, names)]
    listed = ", ".join(map(repr, [*names][:6])) + " ..." * (len(names) > 6)
    for pattern in lost[:_MOST_WARNINGS]:
        some = guess(pattern, names) or f". It has {listed}" * bool(names)
        warn(f"{option}: no name matches {pattern!r}{some}")
    if others := lost[_MOST_WARNINGS:]:
        warn(f"{option}: no name matches {plural(len(others), 'other pattern')}: {shown(others)}")


def _any_fits(pattern: str, names: Iterable[str]) -> bool:
    """Whether a *pattern* with wildcards matches one of the *names*."""
    if not any(letter in pattern for letter in "*?["):
        return False
    return any(map(re.compile(fnmatch.translate(pattern)).match, names))


def warn(message: str, kind: type[Notice] = NothingFound) -> None:
    """Issue a warning that points to the user's line, outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_INTERNAL):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, kind, stacklevel=level)


# Decorators -------------------------------------------------------------------------


def takes(**checks: Check) -> Callable[[Callable[Params, Result]], Callable[Params, Result]]:
    """A decorator that checks arguments by name.

    It also suggests similar names, as `suggests_names` does. Defaults are not checked.
    """

    def decorated(function: Callable[Params, Result]) -> Callable[Params, Result]:
        names, advising = tuple(inspect.signature(function).parameters), suggests_names(function)

        @functools.wraps(function)
        def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            given = {**dict(zip(names, args)), **kwargs}
            for name, rule in checks.items():
                if name in given:
                    check_one(name, given[name], rule)
            return advising(*args, **kwargs)

        return call

    return decorated


def plural(number: int, noun: str) -> str:
    """*number* and the *noun*, in the plural unless it is one.

    Example:
        >>> plural(1, "call"), plural(2, "call")
        ('1 call', '2 calls')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def suggests_names(
    function: Callable[Params, Result], advice: str = ""
) -> Callable[Params, Result]:
    """A decorator that suggests a similar name when *function* gets an unknown keyword argument.

    Python itself does so from version 3.13 on. Where no name is similar, *advice* says where
    others belong.
    """
    called = function.__qualname__.removesuffix(".__init__")
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
        __tracebackhide__ = True
        check_names(called, kwargs, known, advice)
        return function(*args, **kwargs)

    return call


def check_names(
    called: str, given: Iterable[str], known: Sequence[str], advice: str = ""
) -> None:
    """Raise an error if a name *given* to the function that is *called* is not a *known* one."""
    for name in given:
        if name not in known:
            close = guess(name, known) or advice
            if "kwargs" in known and not close:
                close = (
                    f"; an argument of the model goes into kwargs={{{name!r}: ...}}, an option of "
                    f"a figure into its render()."
                )
            raise ArgumentMismatch(
                f"{called}() has no argument {name!r}{close or '.'} It takes {', '.join(known)}"
            )


def inputs_together(function: Callable[Params, Result]) -> Callable[Params, Result]:
    """A decorator for functions of ``model, args, kwargs`` that says how to give several inputs."""
    advice = f"pass several inputs as a tuple: {function.__name__}(model, (x, y))"
    return limits_places(advice)(function)


def limits_places(
    advice: str,
) -> Callable[[Callable[Params, Result]], Callable[Params, Result]]:
    """A decorator that refuses too many arguments without names; *advice* says how to give them."""

    def decorated(function: Callable[Params, Result]) -> Callable[Params, Result]:
        called = function.__qualname__.removesuffix(".__init__")
        parameters = inspect.signature(function).parameters.values()
        places = [item.name for item in parameters if item.kind is item.POSITIONAL_OR_KEYWORD]
        known = [name for name in places if name != "self"]

        @functools.wraps(function)
        def call(*args: Params.args, **kwargs: Params.kwargs) -> Result:
            __tracebackhide__ = True
            if len(args) > len(places):
                number = len(args) - len(places) + len(known)
                raise ArgumentMismatch(
                    f"{called}() takes {', '.join(known)}, not {number} arguments without names; "
                    f"{advice}"
                )
            return function(*args, **kwargs)

        return call

    return decorated

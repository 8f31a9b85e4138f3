"""Shrink: a failing program made as small as it can be and still fail the same way."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from tests.generated.program import Step

Failure = tuple[str, str, str]
"""The check that failed, what was raised, and how its message begins, without numbers."""

Check = Callable[[Any], None]
"""Raises an error if something does not hold for a program."""


def failure_of(program: Any, check: Check) -> tuple[Failure, str] | None:
    """How *program* fails, and the message; None if all holds."""
    try:
        check(program)
    except Exception as error:
        text = str(error)
        lines = text.splitlines() or [""]
        first = lines[1] if "is not inert" in lines[0] and len(lines) > 1 else lines[0]
        frames = traceback.extract_tb(error.__traceback__)
        steps = [each.name for each in frames if each.filename.endswith("checks.py")]
        steps = [each for each in steps if not each.endswith("check")]
        words = re.sub(r"\d+", "N", first)[:40]
        return (steps[0] if steps else "", type(error).__name__, words), text
    return None


def shrink(program: Any, check: Check, *, seconds: float = 120) -> Any:
    """The smallest program found within the time that fails as *program* does."""
    found, ends = failure_of(program, check), time.monotonic() + seconds
    smaller: Any = program
    while found is not None and smaller is not None:
        program = smaller
        smaller = next(
            (each for each in _smaller(program) if _fails(each, check, found[0], ends)), None
        )
    return program


def _fails(program: Any, check: Check, failure: Failure, ends: float) -> bool:
    if time.monotonic() > ends:
        return False
    found = failure_of(program, check)
    return found is not None and found[0] == failure


def _smaller(program: Any) -> Iterator[Any]:
    for steps in _fewer(program.steps):
        yield replace(program, steps=steps)
    plain = type(program)()
    for name in (field.name for field in fields(program)[1:]):
        if getattr(program, name) != getattr(plain, name):
            yield replace(program, **{name: getattr(plain, name)})


def _fewer(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    for place, step in enumerate(steps):
        before, after = steps[:place], steps[place + 1 :]
        yield before + after
        if step.body:
            yield before + step.body + after
            for body in _fewer(step.body):
                if body:
                    yield (*before, replace(step, body=body), *after)
        for name in ("one", "other"):
            for number in range(getattr(step, name)):
                yield (*before, replace(step, **{name: number}), *after)

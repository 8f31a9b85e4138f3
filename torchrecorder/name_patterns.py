"""Name patterns: many names and patterns with wildcards, tried on many names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate


class NamePatterns:
    """Names, and patterns with ``*``, ``?`` and ``[...]``. Names take the same time however many
    there are."""

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = dict.fromkeys(patterns)
        wild = [each for each in patterns if any(letter in each for letter in "*?[")]
        self._names = patterns.keys() - wild
        self._given = patterns.keys()
        self._wild = {each: re.compile(translate(each)).match for each in wild}
        self._any_wild = re.compile("|".join(map(translate, wild))) if wild else None
        self._found: dict[str, list[str]] = {}

    def __contains__(self, name: str) -> bool:
        """Whether *name* was given: a pattern is no more than its text here."""
        return name in self._given

    def fit(self, name: str) -> bool:
        """Whether *name* is one of the names, or matches one of the patterns."""
        return name in self._names or (
            self._any_wild is not None and self._any_wild.match(name) is not None
        )

    def fitting(self, name: str) -> list[str]:
        """*name*, if it is one of the names, and all patterns that it matches."""
        if name not in self._found:
            exact = [name] if name in self._names else []
            tried = self._wild.items() if self.fit(name) else ()
            self._found[name] = [*exact, *(pattern for pattern, match in tried if match(name))]
        return self._found[name]

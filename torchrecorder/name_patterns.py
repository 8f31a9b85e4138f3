"""Name patterns: many names and patterns with wildcards, tried on many names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase, translate


class NamePatterns:
    """Names, and patterns with ``*``, ``?`` and ``[...]``. Names take the same time however many
    there are."""

    def __init__(self, patterns: Iterable[str]) -> None:
        patterns = dict.fromkeys(patterns)
        self._wild = [each for each in patterns if any(letter in each for letter in "*?[")]
        self._names = patterns.keys() - self._wild
        self._given = patterns.keys()
        self._any_wild = re.compile("|".join(map(translate, self._wild))) if self._wild else None

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
        if not self.fit(name):
            return []
        matched = [pattern for pattern in self._wild if fnmatchcase(name, pattern)]
        return [name, *matched] if name in self._names else matched

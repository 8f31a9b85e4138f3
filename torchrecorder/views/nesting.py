"""The nesting of scopes or clusters, without recursion."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping


class Nesting:
    """A forest, given by the parent of each member.

    Parents must come before their children, as they do in run order.

    Args:
        parents: The parent of each member; None at the top.
        flat: Members that are as deep as their parents.
    """

    def __init__(
        self, parents: Mapping[str, str | None], flat: Collection[str] = frozenset()
    ) -> None:
        self.parents = parents
        self.depth: dict[str | None, int] = {None: -1}
        for member, parent in parents.items():
            self.depth[member] = self.depth[parent] + (member not in flat)

    def around(self, member: str | None) -> Iterator[str]:
        """*member* and everything around it, innermost first."""
        while member is not None:
            yield member
            member = self.parents[member]

    def common(self, members: Iterable[str | None]) -> str | None:
        """The innermost member that has all *members* inside it; None for the top."""
        distinct = list(dict.fromkeys(members))
        found = distinct[0] if distinct else None
        for item in distinct[1:]:
            found = self._meet(found, item)
        return found

    def _meet(self, first: str | None, second: str | None) -> str | None:
        while first != second:
            if first is not None and self.depth[first] >= self.depth[second]:
                first = self.parents[first]
            elif second is not None:
                second = self.parents[second]
        return first

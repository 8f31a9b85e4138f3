"""Tables of a joined run: lanes, communication by module, problems."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from torchrecorder.annotations.amounts import of_bytes, of_seconds
from torchrecorder.export.table.alignment import Column, table
from torchrecorder.ranks.join import Collective
from torchrecorder.ranks.lanes import Lane

MODEL = "(the model)"
"""Communication of the root module, or outside of the model."""


def summary(
    title: str,
    lanes: Sequence[Lane],
    collectives: Sequence[Collective],
    problems: Sequence[str],
    n: int,
) -> str:
    """All tables as text, with at most *n* modules."""
    parts = [title, _table(_lanes(lanes), right=(1, 2, 3))]
    if collectives:
        parts.append(_table(_modules(collectives, n), right=(3, 4, 5)))
    if problems:
        parts.append("Problems\n" + "\n".join(f"  {problem}" for problem in problems))
    return "\n\n".join(parts)


def _table(rows: Iterator[Sequence[str]], right: Collection[int]) -> str:
    """A table; the first of *rows* is its header, and empty columns are omitted."""
    titles, *lines = rows
    columns = [
        Column(title, [line[number] for line in lines], number in right)
        for number, title in enumerate(titles)
        if any(line[number] for line in lines)
    ]
    return "\n".join(table(columns))


def _lanes(lanes: Sequence[Lane]) -> Iterator[Sequence[str]]:
    yield "Lane", "Ranks", "Params size", "Sent", "Slowest", "Differs in"
    for lane in lanes:
        slowest = "" if lane.seconds is None else f"{of_seconds(lane.seconds)}, rank {lane.slowest}"
        yield (
            lane.name, str(len(lane.ranks)), _span(lane.parameter_bytes), _span(lane.sent_bytes),
            slowest, ", ".join(lane.differs),
        )


def _span(ends: tuple[int, int]) -> str:
    low, high = map(of_bytes, ends)
    return low if low == high else f"{low} – {high}"


def _modules(collectives: Sequence[Collective], n: int) -> Iterator[Sequence[str]]:
    """Communication by module, most bytes first."""
    found: dict[tuple[str, str, str], list[Collective]] = {}
    for collective in collectives:
        when = "backward" if collective.backward else "forward"
        found.setdefault((collective.path or MODEL, collective.name, when), []).append(collective)
    yield "Module", "Sends", "When", "Times", "Bytes", "Waited", "For"
    order = sorted(found.items(), key=lambda item: -sum(entry.bytes for entry in item[1]))
    for (path, name, when), sent in order[:n]:
        longest = max(sent, key=lambda item: item.waited or 0.0)
        waited = longest.waited
        yield (
            path, name, when, str(len(sent)), of_bytes(sum(item.bytes for item in sent)),
            "" if waited is None else of_seconds(waited),
            "" if waited is None else f"rank {longest.last}",
        )

"""Comparison: the differences between two recordings, as text, data and figure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchrecorder.checks import path_of, takes, whole_number
from torchrecorder.comparison.box_captions import BoxCaptions
from torchrecorder.comparison.kinds import Change, ChangeKind
from torchrecorder.comparison.lines import lines
from torchrecorder.comparison.match import Matching
from torchrecorder.comparison.numbers import BRIEF, Total
from torchrecorder.comparison.overlay import joint_name, overlay, with_former
from torchrecorder.console import encodable
from torchrecorder.graph.codec import json_number
from torchrecorder.recording import Recording

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from torchrecorder.signatures import DrawingOptions


@dataclass(frozen=True)
class Comparison:
    """The differences between two recordings; false if there are none.

    Attributes:
        before: The first recording.
        after: The second recording.
        changes: The differences, in run order.
        matching: Corresponding parts.
        totals: Numbers of both runs as a whole that do not vary between runs, and requested
            numbers. On their own they do not count as a difference.
    """

    before: Recording
    after: Recording
    changes: tuple[Change, ...]
    matching: Matching
    totals: tuple[Total, ...] = ()

    @property
    def name(self) -> str:
        """The common name, or both names."""
        return joint_name(self.before, self.after)

    @property
    def changed_totals(self) -> tuple[str, ...]:
        """Changes of the numbers of the whole run, without those that follow from others."""
        return tuple(total.described for total in self._main_totals())

    def _main_totals(self) -> Iterator[Total]:
        listed = {change.text for change in self.changes}
        for total in self.totals:
            if total.text and (total.name in BRIEF or total.described in listed):
                yield total

    def __bool__(self) -> bool:
        return bool(self.changes)

    @takes(limit=whole_number(1).or_none())
    def text(self, limit: int | None = 60) -> str:
        """A line for each change; equal changes share a line.

        Args:
            limit: Maximum number of lines; None for all.
        """
        return encodable("\n".join(self._lines(limit)))

    def __repr__(self) -> str:
        """The text: what a console, a notebook and a failed assertion show."""
        return self.text()

    def json(self) -> dict[str, Any]:
        """The changes as plain JSON data."""
        return {
            "format": "torchrecorder comparison",
            "version": 1,
            "before": self.before.name,
            "after": self.after.name,
            "totals": {
                total.name: {"before": json_number(total.before), "after": json_number(total.after)}
                for total in self.totals
            },
            "changes": [{**asdict(one), "kind": one.kind.value} for one in self.changes],
        }

    def render(self, path: str | Path, **options: Unpack[DrawingOptions]) -> Path:
        """Draw both recordings in one figure, with added, removed and changed parts.

        Args:
            path: Where to write; the suffix names the format.
            **options: See `Recording.render`.

        Returns:
            The path.
        """
        from torchrecorder.drawing import chosen_view
        from torchrecorder.export import by_suffix
        from torchrecorder.export.json import Json
        from torchrecorder.files import write_file
        from torchrecorder.options import drawing
        from torchrecorder.style.diff_colors import DiffColors
        from torchrecorder.style.renaming import Renaming

        target = path_of(path)
        chosen = drawing(by_suffix(target.name), **options)
        assert chosen.exporter is not None
        if isinstance(chosen.exporter, Json):
            text = json.dumps(self.json(), indent=1) + "\n"
            write_file(target, chosen.exporter.contents(text))
            return target
        both = overlay(self.matching, self.changes)
        marks = {node: kind.value for node, kind in both.marks.items()
                 if node not in both.quiet}
        is_colored = marks or both.removed or both.added
        counted = () if is_colored else (self._counted(),)  # nothing else in the legend says it
        summary = (*counted, *(total.titled for total in self._main_totals()))
        cls = Renaming(chosen.style.rename).cls
        captions = BoxCaptions(both, self.matching, self.changes, cls)
        colors = DiffColors(marks, both.removed, both.added, both.notes, summary, captions.of)
        # The captions of differences must fit, too.
        view = chosen_view(both.recording, replace(chosen, style=colors.style(chosen.style)))
        if chosen.exporter.suffix != ".html":  # the page, where modules open, marks boxes instead
            view, changed = with_former(view, both.instead)
            removed = both.removed.union((both.instead[edge], edge[1]) for edge in changed)
            colors = replace(colors, removed=removed, added=both.added | changed)
        write_file(target, chosen.exporter.export(view, colors.style(chosen.style)))
        return target

    def _counted(self) -> str:
        """The number of differences of each kind."""
        counts = Counter(change.kind for change in self.changes)
        found = (f"{counts[kind]} {kind.value}" for kind in ChangeKind if counts[kind])
        return ", ".join(found) or "no difference"

    def _lines(self, limit: int | None) -> Iterator[str]:
        yield f"{self.name}: {self._counted()}"
        if not self.changes:
            return
        listed = {change.text for change in self.changes}
        if summed := [total for total in self.changed_totals if total not in listed]:
            yield f"  total     {', '.join(summed)}"
        found = list(lines(self.changes, self.after))
        first = found if limit is None else found[:limit]
        width = min(48, max(len(where) for _, where, _ in first))
        for kind, where, text in first:
            yield f"  {kind.value:<8}  {where:<{width}}  {text}".rstrip()
        if len(first) < len(found):
            left = len(found) - len(first)
            yield f"  … and {left} more line{'s' * (left != 1)}"

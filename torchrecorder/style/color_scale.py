"""Color scale: colors boxes by a number, and writes the number on them and the legend."""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace
from typing import Union

from torchrecorder.annotations import numbers_of
from torchrecorder.annotations.annotation import Annotation, Numbers
from torchrecorder.style.color import ink, mix, scale
from torchrecorder.style.figure import LegendEntry, Look, Text
from torchrecorder.style.themes import Theme
from torchrecorder.views.view import Box, View

SCALE_COLORS = 5
"""Maximum colors of the scale in the legend."""

MAX_COLORS = 10
"""Maximum colors in the legend for a discrete annotation."""


class ColorScale:
    """The colors of the boxes of one view for one annotation."""

    def __init__(
        self,
        view: View,
        annotation: Union[str, Annotation],
        ends: tuple[float, float] | None = None,
    ) -> None:
        self.view = view
        self.numbers = numbers_of(view.recording, annotation)
        self.annotation = self.numbers.annotation
        found = {box.id: self._each(box) for box in view.boxes.values()}
        self.found = {box: item for box, item in found.items() if item is not None}
        self.low, self.high = self._ends() if ends is None else ends
        self.logarithmic = self.annotation.logarithmic and self.low > 0

    def _each(self, box: Box) -> float | None:
        """The number of each box; the mean for folded siblings."""
        number, copies = self.numbers.of(box.members), self.view.copies(box)
        if number is None:
            return self.numbers.mean(box.members, copies)
        return number / copies if self.annotation.merge is sum else number

    def _ends(self) -> tuple[float, float]:
        shown = list(filter(math.isfinite, self.found.values()))
        if self.annotation.logarithmic:
            shown = [number for number in shown if number > 0]
        if not shown:
            return 0.0, 0.0
        counts = self.annotation.merge is sum and not self.annotation.logarithmic
        return (min(0.0, *shown) if counts else min(shown)), max(shown)

    def look(self, box: Box, look: Look, theme: Theme) -> Look:
        """*look* in the color for the number of the box; unfilled without a number."""
        number = self.found.get(box.id)
        if number is None:
            return theme.unfilled(look)
        known = math.isfinite(number)
        one = _swatch(self.share(number), theme) if known else theme.looks["failed"]
        return replace(look, fill=one.fill, stroke=one.stroke, text=one.text)

    def share(self, number: float) -> float:
        """The position of a number on the scale, from 0 to 1; of equal numbers 1, of zeros 0."""
        low, high = self.low, self.high
        if self.logarithmic:
            if number <= 0:
                return 0.0
            low, high, number = math.log(low), math.log(high), math.log(number)
        return (number - low) / (high - low) if high > low else float(self.high != 0)

    def lines(self, box: Box) -> tuple[Text, ...]:
        """The number of the box."""
        return (Text(box_line(self.numbers, self.view, box)),) if box.id in self.found else ()

    def legend(self, theme: Theme) -> tuple[LegendEntry, ...]:
        """The legend of the scale: its title, then colors from low to high."""
        if not self.found:
            several = self.numbers.by_node and self.annotation.merge is None
            why = "several numbers for each box" if several else "nothing recorded"
            text = f"{self.annotation.title}: {why}"
            return (LegendEntry(text, theme.text_only, "scale"),)
        entries = (self._names if self.annotation.discrete else self._steps)(theme)
        if not all(map(math.isfinite, self.found.values())):
            wrong = replace(theme.looks["failed"], outline="box")
            entries.append(LegendEntry("NaN or infinite", wrong))
        return tuple(entries)

    def _names(self, theme: Theme) -> list[LegendEntry]:
        """An entry for each number, or for some of them if there are many."""
        numbers = sorted(set(self.found.values()))
        chosen = numbers
        if len(numbers) > MAX_COLORS:
            chosen = [*numbers[: MAX_COLORS - 1], numbers[-1]]
        texts = [self.annotation.show(item) for item in chosen]
        if len(numbers) > MAX_COLORS:
            texts[-1] = f"… {texts[-1]}"
        return [
            LegendEntry(self.annotation.title, theme.text_only, "number"),
            *(
                LegendEntry(text, _swatch(self.share(number), theme), "number")
                for text, number in zip(texts, chosen)
            ),
        ]

    def _steps(self, theme: Theme) -> list[LegendEntry]:
        """Equal steps of the scale, as many as have different texts; a single one if all numbers
        are equal."""
        texts = {self.share(self.high): self._number(1.0)}
        for steps in range(1, SCALE_COLORS) if self.low < self.high else ():
            shares = [step / steps for step in range(steps + 1)]
            finer = {share: self._number(share) for share in shares}
            if steps == 1 or len(set(finer.values())) == len(finer):
                texts = finer
        return [
            LegendEntry(self._title(), theme.text_only, "scale"),
            *(LegendEntry(text, _swatch(share, theme), "scale") for share, text in texts.items()),
        ]

    def _number(self, share: float) -> str:
        """The number at a position of the scale."""
        if self.logarithmic:
            number = self.low * (self.high / self.low) ** share
        else:
            number = self.low + (self.high - self.low) * share
        return self.annotation.show(number)

    def _title(self) -> str:
        boxes = (self.view.boxes[item] for item in self.found)
        means = self.annotation.merge in (sum, None)
        several = means and any(self.view.copies(box) > 1 for box in boxes)
        return f"{self.annotation.title} (mean for ×N)" if several else self.annotation.title


def _swatch(share: float, theme: Theme) -> Look:
    fill = scale(theme.heat, share)
    return Look(fill, mix(fill, theme.ink, 0.45), ink(fill), "box")


class BoxNumbers:
    """Numbers on boxes, each with its title."""

    def __init__(self, view: View, annotations: tuple[Union[str, Annotation], ...]) -> None:
        self.view = view
        self.numbers = [numbers_of(view.recording, annotation) for annotation in annotations]

    def lines(self, box: Box, said: Container[Annotation] = ()) -> tuple[Text, ...]:
        """One line per number that the box has, without those *said* on it already."""
        numbers = (number for number in self.numbers if number.annotation not in said)
        found = (box_line(number, self.view, box) for number in numbers)
        return tuple(Text(text) for text in found if text)


def box_line(numbers: Numbers, view: View, box: Box) -> str:
    """The number of a box with its title; may be empty."""
    text, titled = numbers.text(box.members), numbers.annotation.titled
    if not text:
        mean = numbers.mean(box.members, view.copies(box))
        return titled(f"{numbers.annotation.show(mean)} on average") if mean is not None else ""
    summed = numbers.annotation.merge is sum and view.copies(box) > 1
    return titled(f"{text}{' in total' if summed else ''}")

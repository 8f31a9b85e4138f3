"""What recording a training step costs: ResNet-50, batch 1, forward and backward on CPU.

Plain steps and recorded ones take turns, so that what else the machine does weighs on
both; medians are compared. Exits with an error above the bound.

Run: ``python -m benchmarks.backward``
"""

from __future__ import annotations

import sys

import torchrecorder
from benchmarks.overhead import by_turns, full_size

BOUND = 1.3


def main() -> int:
    """Measure, print, and judge."""
    (_, model, inputs), *_ = full_size()
    model.train()

    def plain() -> None:
        model(**inputs).sum().backward()

    def recorded() -> None:
        with torchrecorder.Recorder(model):
            plain()

    before, after = by_turns(plain, recorded)
    print(f"plain {before * 1e3:.1f} ms, recorded {after * 1e3:.1f} ms: {after / before:.3f} times")
    return int(after > BOUND * before)


if __name__ == "__main__":
    sys.exit(main())

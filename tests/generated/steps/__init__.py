"""What the steps of a generated model do, by topic; ``STEPS`` has them all."""

from __future__ import annotations

from tests.generated.steps import blocks, hidden, inplace, modules, numbers, regions, views
from tests.generated.steps.kind import Kind

STEPS: dict[str, Kind] = {
    name: kind
    for topic in (views, inplace, numbers, modules, regions, hidden, blocks)
    for name, kind in topic.KINDS.items()
}
"""Every kind of step by name."""

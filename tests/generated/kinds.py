"""Kinds: of generated programs."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.generated import checks, compiled
from tests.generated.edits import checks as edits
from tests.generated.edits.program import EDITED
from tests.generated.program import PROGRAMS
from tests.generated.ranks import checks as ranks
from tests.generated.ranks.program import JOBS
from tests.generated.shrink import Check
from tests.generated.training import checks as training
from tests.generated.training.program import TRAININGS

KINDS: dict[str, tuple[st.SearchStrategy[Any], Check]] = {
    "models": (PROGRAMS, checks.check),
    "compiled": (PROGRAMS, compiled.check),
    "edits": (EDITED, edits.check),
    "training": (TRAININGS, training.check),
    "ranks": (JOBS, ranks.check),
}
"""Programs of each kind, and what is checked of them."""

"""AttributeNames: name the tensors that running modules hold, also inside lists and objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import Tensor
from torch.nn import Module

from torchrecorder.capture.tensors.argument_objects import NEAR, homes_of, places_in
from torchrecorder.events import Role

if TYPE_CHECKING:
    from torchrecorder.capture.module_registry import Catalog
    from torchrecorder.capture.tape import Tape

_MOST = 100_000
"""How many places inside attributes are looked at in a run; they may change between searches."""

_OF_PYTORCH = frozenset(vars(Module()))


class AttributeNames:
    """Finds the name and role of a tensor of unknown origin."""

    def __init__(self, tape: Tape, catalog: Catalog) -> None:
        self.tape = tape
        self.catalog = catalog
        self._left = _MOST

    def of(self, tensor: Tensor) -> tuple[Role, str] | None:
        """The name of *tensor*, if it is an attribute of a running module, in an argument or a
        variable of the outermost call, or inside an attribute of a running module."""
        running = list(self._running())
        for prefix, module in running:
            for role, held in homes_of(module):
                for name, item in held.items():
                    if item is tensor:
                        return role, f"{prefix}{name}"
        known = self.catalog.places.of(tensor)
        if known is not None:
            return known
        for prefix, module in running:
            inside = self._inside(module, tensor)
            if inside is not None:
                return Role.CONSTANT, prefix + inside
        return None

    def _running(self) -> Iterator[tuple[str, Module]]:
        """The modules that are running, innermost first, each with the prefix of its names."""
        for opened in reversed(self.tape.stack):
            module = self.catalog.module(opened.event.module)
            if module is not None:
                yield f"{opened.event.path}." if opened.event.path else "", module

    def _inside(self, module: Module, tensor: Tensor) -> str | None:
        """The place of *tensor* in a list, dict or object that *module* holds."""
        held = [item for item in vars(module).items() if item[0] not in _OF_PYTORCH]
        for name, found in places_in([(str(key), value) for key, value in held], NEAR):
            self._left -= 1
            if found is tensor:
                return name
            if self._left < 0:
                break
        return None

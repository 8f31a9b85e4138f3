"""option-list: the keyword options of a drawing, from the table that checks them."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx

from torchrecorder.option_table import Option
from torchrecorder.options import FORMAT, STYLE, VIEW

GROUPS = {"view": VIEW, "style": STYLE, "format": FORMAT}


class OptionList(Directive):
    """``.. option-list:: view`` lists the options of a view, ``style`` and ``format`` the rest."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A definition for each option: its name and default, what it does, what it may be."""
        listed = nodes.definition_list()
        for option in GROUPS[self.arguments[0]].values():
            term = nodes.term("", "", nodes.literal("", f"{option.name}={_default(option)}"))
            definition = nodes.definition()
            must = f"Must be {option.check.expected}{' or None' * option.check.optional}."
            lines = StringList([option.help, "", must], source=f"option {option.name}")
            self.state.nested_parse(lines, self.content_offset, definition)
            entry = nodes.definition_list_item("", term, definition)
            entry["ids"] = [nodes.make_id(f"option-{option.name}")]
            listed += entry
        return [listed]


def _default(option: Option) -> str:
    """The default as Python writes it; themes and rules by their names."""
    name = getattr(option.default, "name", None)
    if name is not None:
        return repr(name)
    return "RULES" if option.name == "rules" else repr(option.default)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("option-list", OptionList)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

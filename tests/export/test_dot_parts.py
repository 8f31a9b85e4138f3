"""DOT of single boxes, groups and lines: each fact of a figure has its attribute."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.export.test_dot import placed
from tests.export.test_geometry import LOOK, alone
from torchrecorder.export.dot import (
    dot_text, in_order, in_two, look_attributes, output_labels, pieces, plain_label,
)
from torchrecorder.layout import engine
from torchrecorder.style.figure import Figure, Group, LegendEntry, Line, Look, Shape, Text

BOX = replace(LOOK, outline="box")


def chain(*names: str, **facts: Any) -> Figure:
    """Boxes in run order, with a line from each to the next."""
    shapes = tuple(Shape(name, None, (Text(name, "title"),), BOX) for name in names)
    lines = tuple(Line(one, other, "", BOX) for one, other in zip(names, names[1:]))
    return Figure("f", shapes, (), lines, **facts)


def objects(figure: Figure) -> dict[str, Any]:
    """What Graphviz reads of each box and group."""
    return {each["name"]: each for each in placed(dot_text(figure))["objects"]}


def edges(figure: Figure) -> list[Any]:
    """What Graphviz reads of each line; nothing is placed, since a layout keeps no weights."""
    read = json.loads(engine.run(dot_text(figure), "json0", program="nop"))
    return read["edges"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(("look", "style"), [
    (LOOK, "filled,rounded"),
    (BOX, "filled"),
    (replace(LOOK, dash="dashed"), "filled,rounded,dashed"),
    (replace(BOX, dash="dotted"), "filled,dotted"),
    (replace(LOOK, outline="plain"), ""),
])
def test_the_style_of_a_box(look: Look, style: str) -> None:
    """What fills it, how its corners are, how its line is."""
    assert look_attributes(look)["style"] == style


def test_names_of_outlines_in_graphviz() -> None:
    """Two are not the name of the shape."""
    shapes = {outline: look_attributes(replace(LOOK, outline=outline))["shape"]
              for outline in ("rounded", "box", "plain", "octagon", "egg")}
    assert shapes == {
        "rounded": "box", "box": "box", "plain": "plain", "octagon": "octagon", "egg": "egg"
    }


def test_a_box_that_repeats_has_two_outlines() -> None:
    """From the second on."""
    found = [objects(alone("box", count))["a"].get("peripheries") for count in (1, 2, 3)]
    assert found == [None, "2", "2"]


def test_the_tooltip_of_a_box() -> None:
    """As it is written, backslashes too; a box without one has none."""
    figure = alone()
    told = replace(figure, shapes=(replace(figure.shapes[0], tooltip="a\\N\nb"),))
    assert objects(told)["a"]["tooltip"] == "a\\\\N\\nb"
    assert "tooltip" not in objects(figure)["a"]


def test_labels_of_ones_own_are_not_centered() -> None:
    """They are the label, and no class says that we may move them."""
    figure = alone()
    own = replace(figure.shapes[0], look=replace(BOX, attributes={"label": "mine"}))
    colored = replace(figure.shapes[0], look=replace(BOX, attributes={"fillcolor": "red"}))
    mine, red = (objects(replace(figure, shapes=(shape,)))["a"] for shape in (own, colored))
    assert mine["label"] == "mine" and "class" not in mine
    assert red["fillcolor"] == "red" and red["class"] == "centered" and red["color"] == "#000000"


def grouped(**look: Any) -> Figure:
    """A box in a group in a group."""
    groups = (
        Group("g", None, (Text("outer", "title"),), replace(BOX, **look), tooltip="told"),
        Group("h", "g", (Text("inner", "title"),), LOOK),
    )
    return Figure("f", (Shape("a", "h", (Text("a", "title"),), BOX),), groups, ())


def test_the_look_of_a_group() -> None:
    """Its paper is filled without another shape; its line is solid, dashed or rounded."""
    found = objects(grouped(fill="#eeeeee"))
    outer, inner = found["cluster_g"], found["cluster_h"]
    assert (outer["bgcolor"], outer["style"], inner["style"]) == ("#eeeeee", "solid", "rounded")
    assert "shape" not in outer and "fillcolor" not in outer
    assert objects(grouped(dash="dashed"))["cluster_g"]["style"] == "dashed"
    assert outer["tooltip"] == "told" and not inner.get("tooltip")
    assert outer["margin"] == "9"


def test_attributes_of_a_group_of_ones_own() -> None:
    """On top of ours."""
    outer = objects(grouped(attributes={"bgcolor": "yellow", "peripheries": "2"}))["cluster_g"]
    assert (outer["bgcolor"], outer["peripheries"], outer["color"]) == ("yellow", "2", "#000000")
    assert outer["tooltip"] == "told"


def test_lines_between_neighbors_are_kept_straight() -> None:
    """Not those that skip a box, or go back."""
    figure = chain("a", "b", "c")
    back = (*figure.lines, Line("a", "c", "", BOX), Line("c", "b", "", BOX))
    weights = [edge.get("weight") for edge in edges(replace(figure, lines=back))]
    assert weights == ["40", "40", None, None]


def test_lines_that_differ_from_the_first_say_so() -> None:
    """The look of the first is that of all; tooltips and names of arguments are told."""
    one, other = chain("a", "b", "c").lines
    dashed = replace(other, look=replace(BOX, dash="dashed", width=2.5), tooltip="t", mark="q")
    figure = replace(chain("a", "b", "c"), lines=(one, dashed))
    first, second = edges(figure)
    assert (second["style"], second["penwidth"]) == ("dashed", "2.5")
    assert (second["edgetooltip"], second["headlabel"]) == ("t", "q")
    assert not {"edgetooltip", "headlabel"} & first.keys()
    assert "tooltip" not in dot_text(chain("a", "b"))
    assert dot_text(figure).count("penwidth=\"1\", style=\"solid\"") == 1


def test_lines_of_a_result_are_named_in_the_box_they_leave() -> None:
    """In the order of the results, equal ones counted."""
    figure = chain("a", "b", "c", "d")
    labels = ("2", 1), ("1", 0), ("2", 1)
    lines = tuple(Line("a", head, label, BOX, result=result)
                  for head, (label, result) in zip("bcd", labels))
    assert output_labels(replace(figure, lines=lines))["a"].text == "→ 1, 2 tensors of 2"
    assert not output_labels(figure)
    assert plain_label((Text("a"), Text("b"))) == "a\nb"


def test_long_titles_of_groups_are_in_two_lines() -> None:
    """Name above class, where both do not fit in a hundred points; small text stays."""
    def lines(text: Text) -> list[str]:
        return [line.text for line in in_two((text,), alone())]

    long = "a_rather_long_name: ARatherLongClass"
    assert lines(Text("a: B", "title")) == ["a: B"]
    assert lines(Text(long, "title")) == ["a_rather_long_name:", "ARatherLongClass"]
    assert lines(Text(long)) == [long]
    assert lines(Text(long.replace(": ", "_"), "title")) == [long.replace(": ", "_")]
    assert [line.part for line in in_two((Text(long, "title"),), alone())] == ["title", "title"]


def test_spaces_between_the_lines_of_a_label() -> None:
    """Before and after small text, and where a title goes on; bold are only titles."""
    label = (Text("one", "title"), Text("two", "title"), Text("s"), Text("", "title"))
    found = [*pieces(label, replace(LOOK, bold=True), alone())]
    space = '<font point-size="9"> </font>'
    assert found[0] == "<b>one</b>" and found[1] == f"<b>two</b>{space}"
    assert found[2].startswith(f'{space}<font point-size="8" color="')
    assert found[2].endswith(f'">s</font>{space}') and found[3] == "<b> </b>"
    assert [*pieces(label[:1], LOOK, alone())] == ["one"]


def test_groups_come_before_their_first_box() -> None:
    """Outer ones first, each once; those without boxes are last."""
    figure = grouped()
    more = (*figure.groups, Group("empty", None, (), LOOK))
    shapes = (Shape("z", None, (), BOX), *figure.shapes, replace(figure.shapes[0], id="b"))
    found = [item.id for item in in_order(replace(figure, groups=more, shapes=shapes))]
    assert found == ["z", "g", "h", "a", "b", "empty"]


@pytest.mark.parametrize(("direction", "below"), [("TB", 1), ("BT", 1), ("LR", 0), ("RL", 0)])
def test_entries_of_a_legend_stand_below_each_other(direction: Any, below: int) -> None:
    """Held by a line that is not seen, unless the ranks run to the side."""
    entries = tuple(LegendEntry(text, BOX) for text in ("one", "two"))
    figure = chain("a", direction=direction, legend=entries)
    text = dot_text(figure)
    assert text.count('"legend_0" -> "legend_1" [style="invis"]') == below
    assert 'packmode="array_t"' in text and "packmode" not in dot_text(chain("a"))
    found = objects(figure)
    one, two = (tuple(map(float, found[f"legend_{each}"]["pos"].split(","))) for each in (0, 1))
    assert one[0] == pytest.approx(two[0], abs=1) and one[1] != two[1]
    assert found["legend_0"]["fixedsize"] == "true" and found["legend_0"]["fontsize"] == "8"
    assert "invis" not in dot_text(chain("a", direction=direction, legend=entries[:1]))


def many(lines: int, boxes: int) -> str:
    """A figure with so many lines, from each box to the next ones."""
    shapes = tuple(Shape(f"s{each}", None, (), BOX) for each in range(boxes))
    ends = ((f"s{one}", f"s{other}") for other in range(boxes) for one in range(other))
    made = tuple(Line(*end, "", BOX) for end, _ in zip(ends, range(lines)))
    assert len(made) == lines
    return dot_text(Figure("f", shapes, (), made))


def test_less_effort_for_more_lines() -> None:
    """From 401 lines on; where there are four to a box, they are straight."""
    assert "nslimit" not in many(400, 100) and "nslimit" in many(401, 101)
    sparse, dense = many(404, 101), many(405, 101)
    assert 'mclimit="0.5"' in sparse and "splines" not in sparse
    assert 'mclimit="0.2"' in dense and 'splines="line"' in dense

"""The table by scope: who is listed, what is counted, what is said."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import MappingProxyType

import pytest

from tests.export.test_rows import rows
from tests.figures import linear, network, regions
from torchrecorder.annotations.annotation import Annotation
from torchrecorder.errors import InvalidArgument, UnknownAnnotation
from torchrecorder.events import ModuleId, OpKind, Role, ScopeKind, Slot, ValueId
from torchrecorder.export.table.alignment import Column, table, tree, width
from torchrecorder.export.table.text import Txt, summary
from torchrecorder.graph.nodes import Module
from torchrecorder.recording import Recording
from torchrecorder.style.style import Style
from torchrecorder.testing import Builder
from torchrecorder.views.pipeline import make_view

Golden = Callable[[str, str], None]


def odd() -> Recording:
    """A cell called twice, tied and frozen weights, modules never called, ops outside."""
    run = Builder("Odd")
    with run.scope("Odd"):
        x = run.input("x")
        h = linear(run, "embed", x)
        for _ in range(2):
            h = linear(run, "cell", h)
        with run.scope("blocks.1", "Block"):
            h = linear(run, "fc", h)
        out = linear(run, "head", h)
        lost = run.parameter("lost.weight", (4, 5))
        used = run.parameter("used.weight", (4, 3))
        run.op("matmul", out, used)
    run.op("sub", out, run.constant())
    run.op("mean", out, shape=())
    found = run.recording()
    modules = dict(found.modules)
    by_name = {module.names[0]: key for key, module in modules.items()}
    embed, head = by_name["embed"], by_name["head"]
    modules[head] = modules[head].replace(parameters=modules[embed].parameters)
    root = by_name[""]
    modules[root] = modules[root].replace(parameters=())
    for name, weight in (("lost", lost), ("used", used)):
        held = (Slot("weight", weight),)
        modules[ModuleId(name)] = Module(
            ModuleId(name), (name,), "Linear", "", "", held, (), True, calls=()
        )
    for name in ("lost.inner", "blocks", "blocks.0"):
        modules[ModuleId(name)] = Module(
            ModuleId(name), (name,), "ModuleList", "", "", (), (), True, calls=()
        )
    frozen = modules[by_name["blocks.1.fc"]].parameters[0].value
    tied = modules[embed].parameters[0].value
    unused = next(
        slot.value for slot in found.modules[head].parameters if slot.value not in (tied, frozen)
    )
    kept = {key: value for key, value in found.values.items() if key != unused}
    kept[frozen] = kept[frozen].replace(trainable=False)
    ops = {
        key: op.replace(
            inputs=tuple(Slot(s.name, tied if s.value == unused else s.value) for s in op.inputs)
        )
        for key, op in found.ops.items()
    }
    return replace(
        found,
        modules=MappingProxyType(modules),
        values=MappingProxyType(kept),
        ops=MappingProxyType(ops),
    )


def total(recording: Recording, name: str) -> str:
    """One of the totals under the table."""
    (line,) = (line for line in summary(recording).splitlines() if line.startswith(name))
    return line.removeprefix(name).strip()


def deep(levels: int) -> Recording:
    """Scopes in scopes, with an op in the innermost."""
    run = Builder("Deep")
    x = run.input("x")
    open_scopes = [run.scope(f"l{level}", "Sequential") for level in range(levels)]
    for scope in open_scopes:
        scope.__enter__()
    run.op("relu", x)
    for scope in reversed(open_scopes):
        scope.__exit__(None, None, None)
    return run.recording()


@pytest.mark.parametrize("case", ["network", "regions", "odd"])
def test_golden(case: str, golden: Golden) -> None:
    """The table is as it was, with ops and without."""
    recording = {"network": network, "regions": regions, "odd": odd}[case]()
    golden(f"{case}.txt", summary(recording) + "\n")
    golden(f"{case}_ops.txt", summary(recording, ops=True) + "\n")


def test_tied_weights_count_once() -> None:
    """A tied weight is in the line of each of its modules, and once in those around."""
    found = {row.title: row for row in rows(odd())}
    table_lines = summary(odd()).splitlines()[2:12]
    lines = {line.strip("├─└│ ").split()[0]: line for line in table_lines}
    assert "tied" in found["embed (Linear)"].notes
    assert "tied" in found["head (Linear)"].notes
    assert " 16 " in lines["embed"] and " 16 " in lines["head"]
    assert lines["Odd"].split()[-1] == str(16 + 16 + 16 + 20 + 12)
    assert total(odd(), "Total params") == "80"


def test_called_again() -> None:
    """A module called again is listed again, and its weights are not repeated."""
    first, second = (row for row in rows(odd()) if row.title == "cell (Linear)")
    assert (first.again, second.again) == (False, True)
    assert first.notes == ("call 1 of 2",)
    (line,) = (line for line in summary(odd()).splitlines() if "call 2 of 2" in line)
    assert "(recurrent)" in line


def test_only_what_is_stored_is_marked_as_recurrent() -> None:
    """A second call makes outputs of its own: those have their number. Nothing has no mark."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        for _ in range(2):
            x = linear(run, "cell", x)
            with run.scope("act", "ReLU"):
                x = run.op("relu", x)
    text = summary(run.recording(), columns=["parameters", "output_bytes"])
    cell, act = text.splitlines()[5:7]
    assert cell.split() == "├─ cell (Linear) (recurrent) 32 B call 2 of 2".split()
    assert act.split() == "└─ act (ReLU) 32 B".split()


def test_never_called() -> None:
    """Modules that were not called are listed, with what became of their weights."""
    notes = {row.title: row.notes for row in rows(odd())}
    assert notes["lost (Linear)"] == ("never called",)
    assert notes["used (Linear)"] == ("weights read, never called",)
    assert notes["blocks.0 (ModuleList)"] == ("never called",)
    assert "blocks (ModuleList)" not in notes, "one of its modules was called"
    assert "inner (ModuleList)" not in notes, "the module around it tells"


def test_names_are_relative() -> None:
    """A list of modules, which is never called, is part of the names in it."""
    titles = [row.title for row in rows(odd())]
    assert "blocks.1 (Block)" in titles and "fc (Linear)" in titles


def test_frozen() -> None:
    """Weights that need no gradient are marked, and counted apart in the totals."""
    assert total(odd(), "Non-trainable params") == "16"
    assert {"fc (Linear)"} == {row.title for row in rows(odd()) if "frozen" in row.notes}


def test_ops_outside_scopes() -> None:
    """Ops that no scope is around share a line, or have one each on request."""
    assert rows(odd())[-1].title == "2 ops: sub(), mean()"
    assert [row.title for row in rows(odd(), ops=True)][-2:] == ["sub()", "mean()"]


def test_regions_are_rows() -> None:
    """A region of meaning is a row of its own."""
    assert "no_grad" in [row.title for row in rows(regions())]


@pytest.mark.parametrize(("depth", "count"), [(0, 1), (1, 3), (2, 6), (9, 6)])
def test_depth(depth: int, count: int) -> None:
    """Depth 0 lists the outermost call, 1 what is in it, and so on."""
    assert len(rows(network(), depth)) == count


def test_wrong_ops() -> None:
    """Ops are listed, or they are not."""
    with pytest.raises(InvalidArgument, match="ops must be"):
        summary(network(), ops="all")  # type: ignore[arg-type]


def test_wrong_fold() -> None:
    """Repeats are listed one by one, folded, or with those that are only similar."""
    with pytest.raises(InvalidArgument, match="fold must be .*'similar', not 'alike'"):
        summary(network(), fold="alike")  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [-1, 1.5, True, "2"])
def test_wrong_depth(depth: object) -> None:
    """A depth is a number of levels."""
    with pytest.raises(InvalidArgument, match="depth must be a whole number"):
        summary(network(), depth)


def test_default_depth_of_a_large_model() -> None:
    """Without a depth, levels are listed as long as there are some 400 lines."""
    run = Builder("Big")
    with run.scope("Big"):
        x = run.input("x")
        for block in range(30):
            with run.scope(f"block{block}", "Block"):
                for layer in range(30):
                    x = linear(run, f"layer{layer}", x)
    recording = run.recording()
    assert len(rows(recording)) == 31
    assert len(rows(recording, 2)) == 931


def test_default_depth_counts_all_levels_together() -> None:
    """Two levels of 300 lines each do not fit, though either alone would."""
    run = Builder("Big")
    with run.scope("Big"):
        x = run.input("x")
        for block in range(300):
            with run.scope(f"block{block}", "Block"):
                x = linear(run, "fc", x)
    assert len(rows(run.recording())) == 301


def test_modes_without_ops_have_no_row() -> None:
    """Unless something failed in them."""
    for fails in (False, True):
        run = Builder("Net")
        with run.scope("Net"):
            run.op("relu", run.input("x"))
            with run.scope("no_grad", "no_grad", kind=ScopeKind.NO_GRAD):
                if fails:
                    run.fail("ValueError", "no")
        assert [row.title for row in rows(run.recording())] == ["Net", "no_grad"][: 1 + fails]


def test_a_thousand_levels() -> None:
    """Nesting has no limit, and takes no time."""
    text = summary(deep(1000), 2000)
    assert len(text.splitlines()) > 1000


def test_columns() -> None:
    """Columns are chosen by name, and any annotation is one."""
    steps = Annotation(
        "steps", "Steps", "", lambda recording: dict.fromkeys(recording.ops, 1), sum, str
    )
    text = summary(network(), columns=["output", "output_bytes", steps])
    assert text.splitlines()[0].split() == ["Scope", "Output", "Output", "size", "Steps"]
    assert text.splitlines()[2].split() == ["Net", "2×4", "128", "B", "5"]


def test_no_merge_no_number() -> None:
    """A number that cannot be added up is shown where it stands alone."""
    ratio = Annotation(
        "ratio", "Ratio", "", lambda recording: dict.fromkeys(recording.ops, 0.5), None, str
    )
    lines = summary(network(), columns=[ratio]).splitlines()
    assert lines[2].split() == ["Net"]
    assert lines[4].split()[-1] == "0.5"


def test_unknown_column() -> None:
    """A column that does not exist is answered with those that do."""
    with pytest.raises(UnknownAnnotation, match="did you mean 'output_bytes'"):
        summary(network(), columns=["output_byte"])
    with pytest.raises(UnknownAnnotation, match="did you mean 'output'"):
        summary(network(), columns=["outptu"])
    with pytest.raises(InvalidArgument, match=r"a list of names, such as"):
        summary(network(), columns="input")


def test_failure() -> None:
    """A run that failed says where, and why."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.input("x")
        with run.scope("fc", "Linear"):
            run.op("linear", x)
            run.fail("RuntimeError", "mat1 and mat2 shapes cannot be multiplied")
    text = summary(run.recording())
    assert text.splitlines()[-1] == (
        "Failed in fc: RuntimeError at /home/me/net.py:12: "
        "mat1 and mat2 shapes cannot be multiplied"
    )
    assert [line.split()[-1] for line in text.splitlines()[2:4]] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("names", "shown"), [("a", "1×2"), ("ab", "1×2, 1×2"), ("abc", "1×2, 1×2 +1")]
)
def test_many_tensors(names: str, shown: str) -> None:
    """Two tensors are shown, of more only how many."""
    run = Builder("Net")
    with run.scope("Net"):
        run.op("cat", *(run.input(name, (1, 2)) for name in names))
    assert f"  {shown}  " in summary(run.recording()).splitlines()[2]


def test_each_input_has_its_size() -> None:
    """All inputs together; one that two calls read counts once."""
    run = Builder("Net")
    x, y = run.input("x", (2, 4)), run.input("y", (4,))
    for _ in range(2):
        with run.scope("Net"):
            run.op("add", x, y)
    assert total(run.recording(), "Input size") == "48 B"


def test_hidden_and_passed() -> None:
    """How an op is known is said where ops are listed."""
    run = Builder("Net")
    with run.scope("Net"):
        x = run.op("scripted", run.input("x"), kind=OpKind.HIDDEN)
        run.op("alias", x, kind=OpKind.PASS)
    notes = [row.notes for row in rows(run.recording(), ops=True)]
    assert notes == [(), ("hidden",), ("returned unchanged",)]


def test_exporter() -> None:
    """The table is what a ``.txt`` file holds."""
    recording = network()
    text = Txt(depth=1, ops=True).export(make_view(recording), Style())
    assert text == summary(recording, 1, ops=True) + "\n"
    assert Txt().export(make_view(recording), Style()) == summary(recording) + "\n"


def test_every_op() -> None:
    """The depth that shows all ops in figures lists all of them in the table, however deep."""
    recording, last = network(), Txt(depth="ops")
    assert last.export(make_view(recording), Style()) == summary(recording, 99, ops=True) + "\n"
    assert summary(recording, "ops") != summary(recording, 99)
    deep = Builder("Deep")
    with ExitStack() as around:
        for level in range(120):
            around.enter_context(deep.scope(".".join(["inner"] * level), "Inner"))
        for _ in range(400):
            deep.op("relu", deep.input("x"))
    assert summary(deep.recording(), "ops", fold=False).count("relu()") == 400


def test_tree() -> None:
    """Tree lines go on as long as siblings follow."""
    assert tree([0, 1, 2, 2, 1, 2, 0]) == ["", "├─ ", "│  ├─ ", "│  └─ ", "└─ ", "   └─ ", ""]


def test_wide_characters() -> None:
    """Columns stay aligned under wide, narrow and combining characters."""
    lines = list(table([Column("a", ["漢字", "e\u0301"]), Column("b", ["x", "y"])]))
    assert [width(line) for line in lines] == [7, 7, 7, 7]
    assert lines[2] == "漢字  x" and lines[3] == "e\u0301     y"


def test_roles_have_no_rows() -> None:
    """Stored tensors are not shown among the inputs of an op."""
    recording = network()
    row = next(row for row in rows(recording, ops=True) if row.title == "linear()")
    assert {recording.values[ValueId(each)].role for each in row.inputs} == {Role.INPUT}

"""What the boxes and frames of a comparison's figure say of their difference, and its legend."""

from __future__ import annotations

import html
import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from tests.comparison.test_compare import stack
from tests.comparison.test_folded import SAME, layers
from tests.comparison.test_numbers import measuring, net
from torchrecorder import SmallText, record
from torchrecorder.comparison.compare import compare
from torchrecorder.comparison.comparison import Comparison
from torchrecorder.events import Statistics
from torchrecorder.recording import Recording
from torchrecorder.testing import Builder


def labels(path: Path, before: Recording, after: Recording, **options: object) -> dict[str, str]:
    """The text of each box and frame of the figure of both, by its first line."""
    return labels_of(compare(before, after), path, **options)


def labels_of(comparison: Comparison, path: Path, **options: object) -> dict[str, str]:
    """The same of a comparison."""
    drawn = comparison.render(path / "both.dot", **options)  # type: ignore[arg-type]
    found = {}
    for label in re.findall(r"label=<(.*?)>[,\]]", drawn.read_text(encoding="utf-8")):
        pieces = re.split(r"<[^>]*>", label)
        title, *lines = [html.unescape(piece) for piece in pieces if piece.strip()]
        found[title] = " | ".join(lines)
    return found


def recorded(*modules: nn.Module, shape: tuple[int, ...] = (1, 4)) -> Recording:
    """A chain of modules in another one."""
    model = nn.Sequential(nn.Sequential(*modules), nn.Tanh())
    return record(model.eval(), torch.ones(shape))


def test_a_module_of_another_class_says_which_it_was(tmp_path: Path) -> None:
    """Its box, and its frame once it is open."""
    before = recorded(nn.Linear(4, 4), nn.ReLU())
    found = labels(tmp_path, before, recorded(nn.Linear(4, 4), nn.GELU()), depth=2)
    assert found["1: GELU"] == "was ReLU"
    after = recorded(nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4)), nn.ReLU())
    for depth in (2, 3):
        assert "was Linear" in labels(tmp_path, before, after, depth=depth)["0: Sequential"]


def test_settings_are_short(tmp_path: Path) -> None:
    """Those that differ, with what they were; parameters are a change of their line."""
    before = recorded(nn.Conv2d(1, 1, 3, padding=1), nn.Dropout(0.1), shape=(1, 1, 8, 8))
    after = recorded(nn.Conv2d(1, 1, 5, padding=2), nn.Dropout(0.2), shape=(1, 1, 8, 8))
    found = labels(tmp_path, before, after, depth=2)
    assert "10 → 26 params | kernel 3 → 5, padding 1 → 2" in found["0: Conv2d"]
    assert found["1: Dropout"] == "off in eval mode | p 0.1 → 0.2"


def test_an_op_says_what_it_was(tmp_path: Path) -> None:
    """Another function, or another argument."""
    def run(name: str, dim: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.op(name, builder.input("x"))
            builder.op("sum", x, arguments=(("dim", dim),))
        return builder.recording()

    found = labels(tmp_path, run("relu", "0"), run("gelu", "1"))
    assert found["gelu"] == "was relu" and "dim 0 → 1" in found["sum"]


def test_a_closed_module_says_which_operation_it_runs_instead(tmp_path: Path) -> None:
    """Once: the operation has no other name."""
    def run(name: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("part", "Part"):
            builder.op("sum", builder.op(name, builder.input("x")))
        return builder.recording()

    found = labels(tmp_path, run("relu"), run("gelu"), depth=1)["part: Part"]
    assert found.split(" | ")[-1] == "relu → gelu"


def test_a_closed_module_counts_other_names(tmp_path: Path) -> None:
    """Of modules that had one name in several places; a single one has its former name."""
    def run(*names: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("part", "Part"):
            x = builder.input("x")
            for place, name in zip("qkv", names):
                with builder.scope(place, "Block"), builder.scope(name, "Linear"):
                    x = builder.op("linear", x, builder.parameter("weight"))
        return builder.recording()

    found = labels(tmp_path, run("fc", "fc"), run("base", "base"), depth=1)["part: Part"]
    assert found.split(" | ")[-1] == "2 renamed"
    found = labels(tmp_path, run("fc", "fc"), run("fc", "base"), depth=1)["part: Part"]
    assert found.split(" | ")[-1] == "base: was fc"


def test_a_closed_module_says_what_differs_in_it(tmp_path: Path) -> None:
    """By the name that it has there; of equal changes in several places without names."""
    other = "GELU", "p=1", False
    found = labels(tmp_path, layers(*[SAME] * 3), layers(SAME, other, SAME), depth=1)
    assert found["layers.1: Layer"].endswith("| act: ReLU → GELU")
    assert "ReLU" not in found["layers.0: Layer"]
    with_bias = "ReLU", "p=1", True
    found = labels(tmp_path, layers(*[SAME] * 3), layers(SAME, SAME, with_bias), depth=1)
    assert found["layers.2: Layer"] == "32 → 48 params | added bias"


def test_numbered_modules_are_named_with_the_module_around_them(tmp_path: Path) -> None:
    """Where that is not the one whose box names them."""
    def run(act: nn.Module) -> Recording:
        class Block(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.body = nn.Sequential(nn.Linear(4, 4), act)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.body(x)  # type: ignore[no-any-return]

        return recorded(Block())

    before, after = run(nn.ReLU()), run(nn.GELU())
    assert labels(tmp_path, before, after, depth=2)["0: Block"].endswith("body.1: ReLU → GELU")
    found = labels(tmp_path, before, after, depth=3)
    assert found["body: Sequential"].endswith("1: ReLU → GELU")
    assert "body.1" not in found["body: Sequential"]


def test_another_type_of_a_result_is_told(tmp_path: Path) -> None:
    """With the type; another shape without it."""
    def run(shape: tuple[int, ...], dtype: str) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("pool", "Pool"):
            x = builder.op("pool", builder.input("x"), shape=shape, dtype=dtype)
            builder.op("to", x, arguments=(("dtype", "int"),))
        return builder.recording()

    for depth, name in ((1, "pool: Pool"), (2, "pool")):
        found = labels(tmp_path, run((4, 4), "float32"), run((4, 2), "float32"), depth=depth)
        assert "4×4" in found[name] and "float32" not in found[name]
        found = labels(tmp_path, run((4, 4), "float32"), run((4, 4), "float64"), depth=depth)
        assert "float32" in found[name]


def test_what_an_operation_reads_instead_is_told_if_it_is_short(tmp_path: Path) -> None:
    """On its box, and on that of the module around it; the text has the long ones."""
    def run(name: str, reads: int) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"):
            x = builder.input("x")
            with builder.scope("part", "Part"):
                made = [x, builder.op(name, x)]
                builder.op("sum", made[reads])
                builder.op("exp", made[1])
        return builder.recording()

    for depth, box in ((1, "part: Part"), (2, "sum")):
        found = labels(tmp_path, run("relu", 1), run("relu", 0), depth=depth)
        assert "reads x, not part: relu" in found[box]
        long = "a_function_with_a_long_name"
        assert "reads" not in labels(tmp_path, run(long, 1), run(long, 0), depth=depth)[box]


def test_a_number_of_blocks_is_told_before_and_after(tmp_path: Path) -> None:
    """With the parameters, whichever of both has more; what was added is not told again."""
    def blocks(number: int) -> Recording:
        inner = (nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(number))
        return recorded(*inner)

    for few, many in ((2, 3), (3, 2)):
        found = labels(tmp_path, blocks(few), blocks(many), depth=1)
        assert found["0: Sequential"].startswith(
            f"{few} → {many} × (Linear, ReLU) | {20 * few} → {20 * many} params"
        )
        assert "added" not in found["0: Sequential"] and "removed" not in found["0: Sequential"]


def test_what_is_added_in_a_block_is_told_beside_a_number_of_blocks(tmp_path: Path) -> None:
    """The number does not show it."""
    def run(*blocks: tuple[str, ...]) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("body", "Body"):
            x = builder.input("x")
            for place, names in enumerate(blocks):
                with builder.scope(str(place), "Block"):
                    for name in names:
                        with builder.scope(name, name.title()):
                            x = builder.op(name, x)
        return builder.recording()

    before, after = run(("fc",), ("act",)), run(("fc", "drop"), ("act",), ("norm",))
    assert labels(tmp_path, before, after, depth=1)["body: Body"] == "2 → 3 × Block | added drop"


def test_other_names_are_told_once_for_a_fold(tmp_path: Path) -> None:
    """As a range, like the names that they have now."""
    before, after = layers(*[SAME] * 4), layers(*[SAME] * 4, name="blocks.{}")
    found = labels(tmp_path, before, after, depth=1)
    assert found["blocks.0 … blocks.3: Layer  ×4"].endswith("was layers.0 … layers.3")


def test_labels_stay_short(tmp_path: Path) -> None:
    """However much differs."""
    before = recorded(*(nn.Linear(4, 4) if place % 2 else nn.ReLU() for place in range(8)))
    after = recorded(*(nn.Tanh() for _ in range(8)))
    found = labels(tmp_path, before, after, depth=1)
    assert found["0: Sequential"].count(" | ") < 4


def test_what_only_one_run_has_says_nothing_more(tmp_path: Path) -> None:
    """Its color does, and so does the text."""
    found = labels(tmp_path, stack("Linear"), stack("Linear", "Tanh"), depth=2)
    assert found["1: Tanh"] == ""


@pytest.mark.parametrize("same", [True, False])
def test_the_legend_has_the_colors_of_the_boxes(tmp_path: Path, same: bool) -> None:
    """Pale for kinds of which a box is the same in both runs; others are not in it."""
    before = stack("Linear", "ReLU") if same else stack("ReLU")
    after = stack("Linear", "GELU") if same else stack("GELU")
    path = compare(before, after).render(tmp_path / "both.dot", depth=2, legend=True)
    drawn = path.read_text(encoding="utf-8").splitlines()
    looks = {
        name: [re.findall(r'color="([^"]+)"', line)[:2] for line in drawn if f"{name}<" in line
               or f"{name}>" in line]
        for name in ("0: Linear", "weights", "activation")
    }
    assert not looks["activation"]
    assert looks["weights"] == looks["0: Linear"]
    assert bool(looks["weights"]) is same


def test_a_page_has_colors_for_both_themes(tmp_path: Path) -> None:
    """Of boxes, also those that only read something else, of frames, arrows and the legend."""
    both = compare(stack("Linear", "Linear"), stack("Linear", "LayerNorm", "Linear"))
    page = both.render(tmp_path / "both.html", depth=9).read_text(encoding="utf-8")
    data = json.loads(page.split('<script type="application/json" id="data">')[1].split("<")[0])
    colors = [(look["light"][key], look["dark"][key])
              for look in data["looks"] for key in ("fill", "stroke")]
    assert len(colors) > 10 and len(data["legend"]) >= 3
    assert [light for light, dark in colors if light == dark != "transparent"] == []


def test_measured_numbers_are_never_cut(tmp_path: Path) -> None:
    """A box has both of its own, and by how much they differ if there is room; a closed module has
    how much those inside differ by."""
    def run(*norms: float) -> Recording:
        builder = Builder("Net")
        with builder.scope("Net"), builder.scope("mlp", "Mlp"):
            value = builder.input("x")
            for name in ("first_projection", "second_projection"):
                with builder.scope(name, "Linear"):
                    value = builder.op("linear", value)
        taken = [Statistics(f"v{number}", 0, -1, 8, 0.5, 1.0, -1.0, 1.0, norm, 0, 0, 0)
                 for number, norm in enumerate(norms, 1)]
        return replace(builder.recording(), statistics=tuple(taken))

    both = run(12.125, 0.0721), run(14.475, 0.965)
    norms = compare(*both, numbers="activation_norm")
    found = labels_of(norms, tmp_path, depth=2)
    assert found["first_projection: Linear"] == "Norm 12.1 → 14.5 (+19.4 %)"
    assert found["second_projection: Linear"] == "Norm 0.0721 → 0.965 (×13.4)"
    closed = labels_of(norms, tmp_path, depth=1)["mlp: Mlp"]
    assert "first_projection: Norm +19.4 %" in closed and "×13.4" in closed
    flops = measuring(net(), "flops", o0=1e6), measuring(net(), "flops", o0=2e6)
    found = labels_of(compare(*flops, numbers="flops"), tmp_path, depth=1)
    assert "1.00 MFLOP → 2.00 MFLOP (+100 %)" in found["fc1: Linear"].split(" | ")


def test_modules_are_closed_until_the_text_about_differences_fits(tmp_path: Path) -> None:
    """It is longer than the text of the same boxes in a figure of one run."""
    def run(p: float) -> Recording:
        parts = (nn.Sequential(nn.Dropout(p * i), nn.Hardtanh(-p * i, p)) for i in range(1, 5))
        return record(nn.Sequential(*parts).train(), torch.ones(1, 4))

    both = compare(run(0.0123), run(0.0234))
    with warnings.catch_warnings():
        warnings.simplefilter("error", SmallText)
        both.render(tmp_path / "both.svg", fit=("100mm", "120mm"))
    with pytest.warns(SmallText):
        both.render(tmp_path / "both.svg", fit=("100mm", "120mm"), depth=2)


def test_equal_numbers_of_several_parts_are_one_text(tmp_path: Path) -> None:
    """With how many they are, from two on."""
    def run(amount: float) -> Recording:
        return measuring(net(), "flops", o0=amount, o1=amount)

    found = labels_of(compare(run(1e6), run(2e6), numbers="flops"), tmp_path, depth=0)
    assert any("2 parts: FLOPs +100 %" in text for text in found.values()), found

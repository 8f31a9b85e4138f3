"""Short texts: counts, shapes, names, hyperparameters."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

import torchrecorder
from torchrecorder.events import Role, SourceLine, ValueId
from torchrecorder.graph.nodes import Value
from torchrecorder.style import labels
from torchrecorder.style.draw import draw
from torchrecorder.style.hyperparameters import arguments, hyperparameters
from torchrecorder.views.pipeline import ViewOptions, make_view


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1 k"),
        (9408, "9.41 k"),
        (36_864, "36.9 k"),
        (999_499, "999 k"),
        (999_500, "1 M"),
        (1_180_672, "1.18 M"),
        (124_439_808, "124 M"),
        (70_553_706_496, "70.6 B"),
        (2_000_000_000_000, "2 T"),
    ],
)
def test_counts_have_three_digits(number: int, text: str) -> None:
    """Large numbers are rounded, small ones are not."""
    assert labels.count(number) == text


def test_parameters() -> None:
    """Nothing, one, many."""
    assert [labels.parameters(number) for number in (0, 1, 1500)] == ["", "1 param", "1.5 k params"]


def value(shape: tuple[int, ...], dtype: str) -> Value:
    """A value of which only shape and dtype matter."""
    made = (ValueId("v0"), shape, dtype, "cpu", Role.INNER, (), None, False, None, 0, "Tensor")
    return Value(*made, trainable=False, storage=-1)


@pytest.mark.parametrize(
    ("shape", "dtype", "text"),
    [
        ((1, 64, 56, 56), "float32", "1×64×56×56"),
        ((), "float32", "scalar"),
        ((2, 0), "int64", "2×0 int64"),
        ((3,), "bfloat16", "[3] bf16"),
        ((), "bool", "scalar bool"),
    ],
)
def test_values_name_only_unusual_dtypes(shape: tuple[int, ...], dtype: str, text: str) -> None:
    """float32 goes without saying."""
    assert labels.value(value(shape, dtype)) == text


def test_usual_dtype_can_be_another() -> None:
    """In a half-precision model it is float32 that is told."""
    assert labels.value(value((2,), "float32"), usual="float16") == "[2] float32"
    assert labels.value(value((2,), "float16"), usual="float16") == "[2]"


def test_source_line_without_folder() -> None:
    """On either kind of system."""
    for file in ("/home/me/net.py", "C:\\me\\net.py"):
        assert labels.source(SourceLine(file, 7, "forward")) == "net.py:7 in forward"
    assert labels.source(None) == ""


def test_long_text_keeps_its_ends() -> None:
    """And is exactly as long as allowed."""
    short = labels.shorten("a" * 500 + "z" * 500)
    assert len(short) == 48 and short.startswith("aaa") and short.endswith("zzz")
    assert labels.shorten("x" * 48) == "x" * 48


def test_of_a_long_list_the_last_items_are_left_out() -> None:
    """No item is cut, unless the first is long, or has a comma of its own."""
    assert labels.shorten_list("in 64 → 32, out 128 → 64", 24) == "in 64 → 32, out 128 → 64"
    assert labels.shorten_list("in 64 → 32, out 128 → 64", 20) == "in 64 → 32, …"
    assert labels.shorten_list("aaaaaa, b, c", 10) == "aaaaaa, …"
    ends = "scale [0.1, 0.2], no bias", "size (10, 10) → (20, 20)", "a, number of channels 8"
    for text in ends:
        assert labels.shorten_list(text, 16) == labels.shorten(text, 16)


@pytest.mark.parametrize(
    "text, short",
    [
        ("Short. And all of it.", "Short. And all of it."),
        ("Out of memory. Asked for 8 GiB. " + "z" * 40, "Out of memory. Asked for 8 GiB. …"),
        ("a" * 36 + ". " + "z" * 40, "a" * 36 + ". …"),
        ("a" * 37 + ". " + "z" * 40, "a" * 25 + "…" + "z" * 13),
        ("First line of the error\n\n" + "z" * 40, "First line of the error …"),
        ("No. " + "a" * 50 + "z", "No. " + "a" * 21 + "…" + "a" * 12 + "z"),
        ("Version 2.13 of " + "a" * 40 + "z", "Version 2.13 of aaaaaaaaa…" + "a" * 12 + "z"),
    ],
)
def test_long_errors_end_after_a_sentence(text, short):
    """Half a sentence says little, but nothing at all says less."""
    assert labels.first_sentences(text, 39) == short


@pytest.mark.parametrize(
    ("cls", "detail", "said"),
    [
        (
            "Conv2d",
            "3, 64, kernel_size=(7, 7), stride=(2, 2), padding=(3, 3), bias=False",
            ("3 → 64", "7×7", "stride 2", "pad 3"),
        ),
        (
            "Conv2d",
            "8, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=8",
            ("8 → 8", "3×3", "8 groups", "pad 1"),
        ),
        ("Conv1d", "1, 2, kernel_size=(1,), stride=(1,)", ("1 → 2", "1")),
        ("Conv2d", "1, 2, kernel_size=(1, 3), stride=(1, 2)", ("1 → 2", "1×3", "stride 1×2")),
        ("Linear", "in_features=3, out_features=4, bias=True", ("3 → 4",)),
        ("Linear", "in_features=3, out_features=4, bias=False", ("3 → 4", "no bias")),
        ("BatchNorm2d", "64, eps=1e-05, momentum=0.1, affine=True", ()),
        ("GroupNorm", "2, 4, eps=1e-05, affine=True", ("2 groups", "4")),
        ("LayerNorm", "(768,), eps=1e-12, elementwise_affine=False", ("not affine",)),
        ("Embedding", "50257, 768, padding_idx=0", ("50257 × 768",)),
        ("LSTM", "3, 4, num_layers=2, bidirectional=True", ("3 → 4", "2 layers", "bidirectional")),
        (
            "MaxPool2d",
            "kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False",
            ("3×3", "stride 2", "pad 1"),
        ),
        ("AdaptiveAvgPool2d", "output_size=(1, 1)", ("to 1×1",)),
        ("Dropout", "p=0.1, inplace=True", ("p 0.1",)),
        ("GELU", "approximate='tanh'", ("approximate tanh",)),
        ("Scale", "8", ("8",)), ("ReLU", "", ()),
    ],
)
def test_hyperparameters(cls: str, detail: str, said: tuple[str, ...]) -> None:
    """What tells two modules of a class apart, in the words of papers."""
    assert hyperparameters(cls, detail) == said


@pytest.mark.parametrize("number, said", [(200.0, "200"), (1e-9, "1e-09"), (0.001, "0.001")])
def test_a_tensor_of_one_number_is_that_number(number: float, said: str) -> None:
    """As settings that a model keeps as tensors, in any of the forms in which PyTorch prints."""
    scalar = torch.tensor(number)
    for tensor in (scalar, scalar.double(), scalar.requires_grad_(), scalar * 1):
        found = hyperparameters("Cell", f"rates=P(v={tensor!r}), tau={tensor!r}")
        assert found == (f"rates P(v={said})", f"tau {said}")
    for detail in ("v=tensor([1., 2.])", "v=tensor([1., 2.], dtype=torch.float64)"):
        assert hyperparameters("Cell", detail) == ("v [1., 2.]",)


@pytest.mark.parametrize("detail", ["=", "((", "a=[1, (2, 3)], <b>", "),(", "x" * 99, "=,", "é=π"])
def test_odd_representations_change_nothing(detail: str) -> None:
    """Whatever a user's extra_repr says, short texts come out."""
    assert all(len(text) <= 24 for text in hyperparameters("Odd", detail))


def test_nothing_is_cut_in_the_middle() -> None:
    """What is too long is left out."""
    assert hyperparameters("Odd", f"name={'x' * 100}, p=0.5") == ("p 0.5",)


@pytest.mark.parametrize(
    ("op", "name", "shown"),
    [
        ("topk", "largest", {"True": (), "False": ("smallest",)}),
        ("topk", "sorted", {"True": (), "False": ("not sorted",)}),
        ("sort", "descending", {"True": ("descending",), "False": ()}),
        ("sort", "stable", {"True": ("stable",), "False": (), "None": ()}),
        ("var", "unbiased", {"True": (), "False": ("biased",)}),
        ("sum", "keepdim", {"True": ("keepdim",), "False": ()}),
        ("scatter_reduce", "include_self", {"True": (), "False": ("without self",)}),
        ("linalg_svd", "full_matrices", {"True": (), "False": ("reduced",)}),
        ("linalg_solve", "left", {"True": (), "False": ("from the right",)}),
        ("linalg_solve_triangular", "upper", {"True": ("upper",), "False": ("lower",)}),
        ("stft", "center", {"True": (), "False": ("not centered",)}),
    ],
)
def test_switches_that_are_not_at_their_default(
    op: str, name: str, shown: dict[str, tuple[str, ...]]
) -> None:
    """Those that are on by default are shown if they are off."""
    for given, texts in shown.items():
        assert arguments(op, ((name, given),)) == texts


def test_arguments_of_ops() -> None:
    """Defaults are left out; some need no name."""
    given = (("stride", "(2, 2)"), ("padding", "(0, 0)"), ("groups", "1"))
    assert arguments("conv2d", given) == ("stride 2",)
    given = (("dim", "-1"), ("_stacklevel", "3"), ("dtype", "torch.float32"))
    assert arguments("softmax", given) == ("dim -1",)
    assert arguments("grad", (("create_graph", "True"), ("only_inputs", "True"))) == (
        "create graph",
    )
    assert arguments("elu", (("alpha", "1.0"),)) == () and arguments("cdist", (("p", "2.0"),)) == ()
    assert arguments("elu", (("alpha", "0.5"),)) == ("alpha 0.5",)
    given = (("num_layers", "1"), ("dropout", "0.0"), ("batch_first", "True"), ("train", "True"))
    assert arguments("lstm", given) == ()
    assert arguments("lstm", (("num_layers", "2"), ("dropout", "0.1"))) == (
        "2 layers", "dropout 0.1",
    )
    given = (("ignore_index", "-100"), ("reduction", "'mean'"), ("label_smoothing", "0.1"))
    assert arguments("cross_entropy", given) == ("label smoothing 0.1",)
    assert arguments("addcdiv_", (("value", "-0.5263 … -0.2134"),)) == ("value -0.5263 … -0.2134",)
    assert arguments("f", (("value", "a text of 21 letters"),)) == ()
    given = (("kernel_size", "3"), ("stride", "2"))
    assert arguments("max_pool2d", given) == ("3×3", "stride 2")
    assert arguments("permute", (("dims", "(0, 2, 1)"),)) == ("0, 2, 1",)
    assert arguments("getitem", (("1", "(0, 2)"),)) == ("(0, 2)",)
    assert arguments("getitem", (("index", "(0, 2)"),)) == ("0, 2",)
    assert arguments("to", (("device", "'cuda'"), ("dtype", "float16"))) == ("cuda", "float16")
    assert arguments("zeros", (("size", "3"), ("dtype", "float16"))) == ("3",)
    assert arguments("mean", (("dim", "(2, 3)"), ("size", "(7, 5)"))) == ("7, 5", "dim 2, 3")
    given = (("stride", "(2, 1)"), ("scale_factor", "(2, 3)"))
    assert arguments("interpolate", given) == ("stride 2×1", "×2×3")


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("split_size", "4", "split size 4"),
        ("split_size", "(4, 4, 1)", "split sizes 4, 4, 1"),
        ("split_size_or_sections", "4", "split size 4"),
        ("split_size_or_sections", "(2, 2)", "split size 2"),
        ("split_sizes", "(512, 512, 64)", "sizes 512, 512, 64"),
        ("sections", "3", "sections 3"),
        ("sections", "(4, 8)", "at 4, 8"),
        ("sections", "(4,)", "at 4"),
    ],
)
def test_sizes_of_pieces_are_no_shape(name: str, given: str, text: str) -> None:
    """A list of them is written as one, and in few letters if it is long."""
    assert arguments("split", ((name, given), ("dim", "1"))) == (text, "dim 1")


@pytest.mark.parametrize(
    ("op", "name", "said"),
    [
        ("gt", "other", "> 2"),
        ("mul_", "other", "× 2"),
        ("sub", "other", "− 2"),
        ("rsub", "other", "2 − …"),
        ("div", "self", "2 ÷ …"),
        ("pow", "exponent", "^ 2"),
        ("pow", "self", "2 ^ …"),
        ("where", "other", "else 2"),
        ("masked_fill", "value", "value 2"),
        ("clamp", "max", "max 2"),
        ("tensor", "t", "2"),
    ],
)
def test_numbers_show_what_they_are_for(op: str, name: str, said: str) -> None:
    """A number alone below the name of an op would look like its result."""
    assert arguments(op, ((name, "2"),)) == (said,)


@pytest.mark.parametrize(
    ("siblings", "text"),
    [
        ((), ""),
        (("0", "1"), "0, 1"),
        (("0", "1", "2"), "0 … 2"),
        (tuple(f"layers.{i}" for i in range(32)), "layers.0 … layers.31"),
        (tuple(f"encoder_layer_{i}" for i in range(12)), "encoder_layer_0 … 11"),
        (("3", "2", "1", "0"), "3 … 0"),
        (("0", "2", "4"), "0, 2, 4"),
        (("0", "2", "4", "6"), "0, 2, 4, 6"),
        (("0", "2", "4", "6", "8"), "0, 2 … 8"),
        (("8", "6", "4", "2", "0"), "8, 6 … 0"),
        (("0", "1", "3", "4", "6", "7"), "0, 1, 3 … 7"),
        (("encoder_layer_0", "encoder_layer_2"), "encoder_layer_0, 2"),
        (("layers.0", "layers.1", "layers.31"), "layers.0, 1, 31"),
        (tuple(f"layers.{i}" for i in range(0, 24, 2)), "layers.0, 2 … 22"),
        (("0.conv1", "0.conv2", "2.conv1", "2.conv2"), "0.conv1 … 2.conv2"),
        (("cell", "cell", "cell"), "cell"),
        (("net", "net_1", "net"), "net, net_1"),
        (("generator", "critic", "generator", "critic"), "generator, critic"),
        (("net", "net_1", "net_2", "net"), "net … net_2"),
        (("first", "second", "third"), "first … third"),
        (("0.weight.exp_avg", "0.bias.exp_avg"), "*.exp_avg"),
        (("0.weight", "1.weight", "2.weight"), "0.weight … 2.weight"),
        (("0.weight", "1.weight", "11.weight"), "0.weight, 1.weight, 11.weight"),
        (("data.6.x", "data.10.x", "data.9.x"), "data.*.x"),
        (("data.9.x", "data.6.x", "data.5.x"), "data.9.x, data.6.x, data.5.x"),
        (("data.6.x", "data.10.x2", "data.9.x"), "data.6.x … data.9.x"),
        (("data.6", "data.10", "data.9"), "data.6, 10, 9"),
        (("weights.0", "biases.0", "scales.0"), "weights.0 … scales.0"),
        (("a.weight", "b.bias", "c.weight"), "a.weight … c.weight"),
        (("decoder_layers_new", "decoder_layers"), "decoder_layers_new … decoder_layers"),
    ],
)
def test_names_of_a_fold(siblings: tuple[str, ...], text: str) -> None:
    """The range, or the name that all have."""
    assert labels.names(siblings) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [("3×4 int64", "2 tensors of 3×4 int64"), ("[7]", "2 tensors of [7]"),
        ("scalar", "2 scalars"), ("2×3 … 4×5", "2 tensors of 2×3 … 4×5"),
        ("62 gradients", "2 × 62 gradients"), ("gradient 2×3", "2 gradients of 2×3")],
)
def test_equal_tensors_are_counted(text: str, said: str) -> None:
    """Before the shape, which is written as that of one."""
    assert labels.alike(text, 2) == said


@pytest.mark.parametrize(
    ("shapes", "said"),
    [
        ({"3×4": 1}, "3×4"),
        ({"3×4": 2, "[5] int64": 1}, "2 tensors of 3×4, [5] int64"),
        ({"3×4": 1, "7 tensors of 3×4": 1}, "8 tensors of 3×4"),
        ({"7 tensors of 3×4": 2, "3×4 int64": 1}, "14 tensors of 3×4, 3×4 int64"),
        ({"4 scalars": 1, "scalar": 2}, "6 scalars"),
        ({"gradient 3×4": 1, "7 gradients of 3×4": 1, "3×4": 1}, "8 gradients of 3×4, 3×4"),
        ({"4 scalars int64": 1, "scalar int64": 1, "scalar": 1}, "5 scalars int64, scalar"),
        ({"62 gradients": 1, "[2]": 1, "[3]": 1}, "62 gradients, [2], …"),
    ],
)
def test_equal_results_are_counted_together(shapes: dict[str, int], said: str) -> None:
    """Those of one line of a figure and those of another."""
    assert labels.in_a_line(Counter(shapes)) == f"→ {said}"


def test_attention_shows_its_width_and_heads() -> None:
    """PyTorch's module does not describe itself; and of a call, whether it is causal."""
    attention, x = torch.nn.MultiheadAttention(8, 2), torch.ones(3, 1, 8)
    causal = {"need_weights": False, "attn_mask": torch.zeros(3, 3), "is_causal": True}
    for given, more in (({}, []), (causal, ["is causal"])):
        run = torchrecorder.record(attention, (x, x, x), given)
        view = make_view(run, ViewOptions(depth=0))
        (label,) = (shape.label for shape in draw(view).shapes if shape.kind == "module")
        texts = [text.text for text in label if not text.text.startswith(("→", "288"))]
        assert texts[1:] == ["width 8, 2 heads", *more]


@pytest.mark.parametrize("dense", [False, True])
def test_ragged_sizes(dense: bool) -> None:
    """A question mark where rows differ in length, also where two tensors are named at once."""

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.sin(), x.cos()

    parts = [torch.ones(2, 4), torch.ones(3, 4)]
    x = torch.ones(2, 3, 4) if dense else torch.nested.as_nested_tensor(parts, layout=torch.jagged)
    recording = torchrecorder.record(both, (x,))
    sizes = "2×3×4" if dense else "2×?×4"
    assert [labels.value(value) for value in recording.values.values()] == [sizes] * 3
    assert labels.alike(sizes, 2) == f"2 tensors of {sizes}"
    before, after = (torchrecorder.record(f, (x,)) for f in (both, lambda x: x.sin()))
    assert "-1" not in torchrecorder.compare(before, after).text()

"""Hyperparameters: the result of ``extra_repr()``, shortened.

A few rules select the arguments that distinguish modules of a class and write them as in papers
(``3×3``, ``64 → 128``, ``stride 2``). Defaults of PyTorch are left out.
"""

from __future__ import annotations

import re
from functools import lru_cache

NEVER = frozenset(
    """
    eps momentum ceil_mode inplace count_include_pad batch_first padding_idx dtype device
    training return_indices max_norm norm_type scale_grad_by_freq sparse requires_grad
    non_blocking layout pin_memory memory_format cudnn_enable use_input_stats
    normalized_shape need_weights average_attn_weights train original_name
    """.split()
)
"""Arguments that are not shown."""

DEFAULTS = {
    "bias": "True",
    "affine": "True",
    "elementwise_affine": "True",
    "track_running_stats": "True",
    "dilation": "1",
    "groups": "1",
    "stride": "1",
    "padding": "0",
    "output_padding": "0",
    "padding_mode": "zeros",
    "approximate": "none",
    "start_dim": "1",
    "end_dim": "-1",
    "mode": "nearest constant",
    "p": "0.0 2.0",
    "alpha": "1 1.0",
    "is_causal": "False",
    "dropout_p": "0.0",
    "reduction": "mean",
    "ignore_index": "-100",
    "label_smoothing": "0.0",
    "only_inputs": "True",
    "has_biases": "True",
    "padding_value": "0.0",
    "blank": "0",
    "num_layers": "1",
    "dropout": "0.0",
}
"""Values of arguments that are not shown."""

SAID = {
    "stride": "stride {}",
    "padding": "pad {}",
    "dilation": "dilation {}",
    "groups": "{} groups",
    "num_groups": "{} groups",
    "num_heads": "{} heads",
    "embed_dim": "width {}",
    "embed_dim_to_check": "width {}",
    "num_layers": "{} layers",
    "dim": "dim {}",
    "scale_factor": "×{}",
    "upscale_factor": "×{}",
    "p": "p {}",
    "drop_prob": "p {}",
}
"""The texts for some arguments; others are written as ``name value``."""

FALSE = {
    "largest": "smallest",
    "sorted": "not sorted",
    "unbiased": "biased",
    "include_self": "without self",
    "full_matrices": "reduced",
    "compute_uv": "values only",
    "center": "not centered",
    "onesided": "two-sided",
    "periodic": "not periodic",
    "left": "from the right",
    "log_input": "no log input",
}
"""The texts for False of arguments that are True by default; others that are False are not
shown."""

FLAGS = {
    **{(name, "False"): text for name, text in FALSE.items()},
    ("bias", "False"): "no bias",
    ("upper", "False"): "lower",  # of a triangular matrix; there is no common default
    ("affine", "False"): "not affine",
    ("elementwise_affine", "False"): "not affine",
    ("bidirectional", "True"): "bidirectional",
}

ORDER = ("kernel_size", "stride", "groups", "dilation", "num_layers", "padding")
"""Arguments that come first, so that they are not cut."""

SIGNS = {
    **{"gt": ">", "lt": "<", "ge": "≥", "le": "≤", "eq": "=", "ne": "≠"},
    **{"add": "+", "sub": "−", "rsub": "−", "mul": "×", "div": "÷", "pow": "^"},
    **{"true_divide": "÷", "floor_divide": "÷", "remainder": "mod", "where": "else"},
}
"""Ops whose other operand, alone below their name, would look like a result."""

PLAIN = frozenset(
    """
    other exponent equation indices index start end step size sizes dims dim0 dim1
    chunks diagonal repeats t data
    """.split()
)
"""Arguments of ops that need no name."""

CONVERSIONS = frozenset("to type view".split())
"""Ops whose result has another dtype or is on another device, which is then shown."""

SIDES = frozenset("stride padding dilation output_padding scale_factor size shape".split())
"""Arguments with one number per dimension; several numbers in others, such as ``dim``, are
lists."""

PIECES = {
    **dict.fromkeys(("split_size", "split_sizes", "split_size_or_sections"), "split size"),
    **dict.fromkeys(("sections", "indices_or_sections", "tensor_indices_or_sections"), "sections"),
}
"""Arguments with the size or the number of pieces, or with a list of sizes or of places to cut."""

SIZES = ("in_features", "in_channels", "nx")
TO_SIZES = ("out_features", "out_channels", "nf")

MAX_SHOWN = 4
"""The most hyperparameters of a module, or arguments of an op, that are shown."""

SHOWN_BY_SHAPE = frozenset(
    "view reshape flatten unflatten expand unsqueeze squeeze to "
    "zeros ones empty new_zeros new_ones new_empty".split()
)
"""Ops whose arguments are visible in the shapes on the arrows."""

MAX_ARGUMENT_LENGTH = 20
"""The most letters of an argument of an op that is shown."""

MAX_RANGE_LENGTH = 30
"""The most letters of the range of an argument, ``value -0.5263 … -0.2134``."""

DECIMAL = re.compile(r"\d+\.\d{3,}(?:e[-+]?\d+)?|\b\d{1,4}0{6,}\.0\b")
"""A number with many digits, or many zeros."""

SCALAR = re.compile(r"\btensor\(([-+]?[\w.]+(?:[-+]\d+)?)(?:, \w+=[^()]*(?:\([^()]*\))?)*\)")
"""A tensor with one number, as Python writes it."""

VECTOR = re.compile(r"\btensor\((\[[^\[\]]*\])(?:, \w+=[^()]*(?:\([^()]*\))?)*\)")
"""A vector, as Python writes it."""

INTEGER = re.compile(r"-?\d+")

INTEGERS = re.compile(r"(?:[a-z ]+ )?\(?-?\d+(?:, -?\d+)+\)?")
"""A list of integers, maybe with the name of the argument."""

ITEM = re.compile(r"\s*((?:[^,()\[\]]|\([^()]*\)|\[[^\[\]]*\])+)\s*(?:,|$)")


@lru_cache(maxsize=4096)
def hyperparameters(cls: str, detail: str) -> tuple[str, ...]:
    """The first hyperparameters of an ``extra_repr()``: ``("64 → 128", "3×3", "stride 2")``.

    *cls* is the name of the class, which defines the meaning of unnamed numbers.
    """
    plain, named = split(VECTOR.sub(r"\1", SCALAR.sub(_number, detail)))
    message = map(_rounded, (*_flow(cls, plain, named), *_worded(cls, named)))
    return tuple(text for text in message if len(text) <= 24)[:MAX_SHOWN]


@lru_cache(maxsize=4096)
def arguments(op: str, given: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The arguments of an op that are not at their default, as short texts."""
    named = {
        name: text.strip("'\"")
        for name, text in given
        if not text.startswith("torch.") and not name.startswith("_") and text != "()"
    }
    sign = SIGNS.get(op.rstrip("_"))
    first = named.pop("self", named.pop("other", None) if op == "rsub" else None)
    shown = ("dtype", "device") if op in CONVERSIONS else ()
    found = [name for name in named if name in PLAIN or name in shown or name.isdigit()]
    plain = [_listed(named.pop(name)) if name in PLAIN else named.pop(name) for name in found]
    if len(plain) > 1 and all(map(INTEGER.fullmatch, plain)):
        plain = [", ".join(plain)]  # one after the other, such as start and end
    if sign and first is not None:
        plain.insert(0, f"{first} {sign} …")
    elif sign and len(plain) == 1:
        plain = [f"{sign} {plain[0]}"]
    message = map(_cut, map(_rounded, (*plain, *_worded(op, named))))
    return tuple(text for text in message if text and _is_short(text))[:MAX_SHOWN]


def _is_short(text: str) -> bool:
    return len(text) <= (MAX_RANGE_LENGTH if " … " in text else MAX_ARGUMENT_LENGTH)


def _listed(text: str) -> str:
    """``(0, 2, 1)`` as ``0, 2, 1``; other texts as they are."""
    return text.strip("()") if INTEGERS.fullmatch(text) else text


def _cut(text: str) -> str:
    """A long list of integers with its first ones and ``…``; other texts as they are."""
    if len(text) <= MAX_ARGUMENT_LENGTH or not INTEGERS.fullmatch(text):
        return text
    first = text[: MAX_ARGUMENT_LENGTH - 1].rpartition(", ")[0]
    return f"{first}, …{')' * text.endswith(')')}"[:MAX_ARGUMENT_LENGTH] if first else text


def _number(scalar: re.Match[str]) -> str:
    """The number of a tensor, without the point and the zeros at its end."""
    digits = scalar[1]
    return digits.rstrip("0").removesuffix(".") if "." in digits and "e" not in digits else digits


def _rounded(text: str) -> str:
    """*text* rounded to four digits, or to six near a whole number: 0.99999 is not 1."""
    return DECIMAL.sub(lambda found: min(found[0], _digits(float(found[0])), key=len), text)


def _digits(number: float) -> str:
    rounded = f"{number:.4g}".replace("e+0", "e")
    return f"{number:.6g}" if rounded.isdigit() else rounded


def split(detail: str) -> tuple[list[str], dict[str, str]]:
    """Unnamed and named arguments of a representation."""
    plain: list[str] = []
    named: dict[str, str] = {}
    for item in ITEM.findall(detail):
        name, mark, text = item.partition("=")
        if mark and name.strip().isidentifier():
            named[name.strip()] = text.strip().strip("'\"")
        else:
            plain.append(item.strip())
    return plain, named


def _flow(cls: str, plain: list[str], named: dict[str, str]) -> list[str]:
    """Input and output features, or the size of a table."""
    source = next((named.pop(name) for name in SIZES if name in named), None)
    target = next((named.pop(name) for name in TO_SIZES if name in named), None)
    if source and target:
        return [f"{source} → {target}"]
    numbers = [size(text) for text in plain if _is_size(text)]
    if len(plain) == 1 and "Norm" in cls:
        return []
    if len(numbers) == 2 and len(plain) == 2:
        if "Embedding" in cls:
            return [f"{numbers[0]} × {numbers[1]}"]
        if "Group" in cls:
            return [f"{numbers[0]} groups", numbers[1]]
        return [f"{numbers[0]} → {numbers[1]}"]
    return numbers


def _worded(cls: str, named: dict[str, str]) -> list[str]:
    """The other arguments that are not at their default, important ones first."""
    kernel = _kernel(cls, named.get("kernel_size", ""))
    texts = {name: _short_text(cls, name, text, kernel) for name, text in named.items()}
    if kernel:
        texts.pop("bias", None)
    first = [texts.pop(name, "") for name in ORDER]
    return [text for text in (*first, *texts.values()) if text]


def _short_text(cls: str, name: str, text: str, kernel: str) -> str:
    """One argument as text; empty if it is at its default."""
    if (name, text) in FLAGS:
        return FLAGS[name, text]
    sized = name in SIDES or name.endswith(("_size", "_shape"))
    usual, plain = DEFAULTS.get(name, ""), unify(text, "×" if sized else ", ")
    usual = "True" if name in FALSE else usual
    if name in NEVER or plain in (*usual.split(), "None", "False"):
        return ""
    if name in PIECES:
        return _pieces(PIECES[name], text)
    if name == "kernel_size":
        return kernel
    if name == "output_size":
        return f"to {_kernel(cls, text)}"
    if text == "True":
        return name.replace("_", " ")
    shown = size(text) if name == "output_size" else plain
    return SAID[name].format(shown) if name in SAID else f"{name.replace('_', ' ')} {shown}"


def _pieces(title: str, text: str) -> str:
    """*split size 4*, *split sizes 4, 4, 1*, shorter *sizes 512, 64*; for places, *at 4, 8*."""
    if title == "sections" and text.startswith("("):
        return f"at {text.strip('(,)')}"
    plain = unify(text, ", ")
    full = f"{title}s {plain}" if "," in plain else f"{title} {plain}"
    return full if len(full) <= MAX_ARGUMENT_LENGTH else f"sizes {plain}"


def _kernel(cls: str, text: str) -> str:
    """Kernel sizes; a single number of a 2d class stands for both dimensions."""
    dims = re.search(r"([123])d$", cls)
    sizes = size(text)
    return "×".join([sizes] * int(dims[1])) if dims and sizes.isdigit() else sizes


def _is_size(text: str) -> bool:
    return re.fullmatch(r"\d+|[(\[][\d, ]+[)\]]", text) is not None


def size(text: str) -> str:
    """``(3, 3)`` as ``3×3``."""
    numbers = re.findall(r"\d+|None", text)
    return "×".join(numbers) if _is_size(text) or text.startswith("(") else text


def unify(text: str, between: str = "×") -> str:
    """``(2, 2)`` as ``2``; other tuples as sizes, or joined by *between*."""
    if not text.startswith("("):
        return text
    items = [item.strip() for item in text.strip("()").split(",") if item.strip()]
    return items[0] if len(set(items)) == 1 else between.join(items)

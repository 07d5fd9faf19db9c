"""Damage one file of a model: its bytes, the values of its JSON, its header, or its graph."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto

from fencepost.runtime.folder import files_of

HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 10**6, 10**9, 10**12, 2**31, 2**63, -(2**63), 10**400),
    *(0.0, 0.5, -0.5, 1e308, float("nan"), float("inf"), float("-inf")),
    *("", "x", "0", "../../etc/passwd", "/dev/zero", "a\0b", "\ud800", "x" * 100_000, "en", "scratch"),
    *(
        [],
        {},
        [[]],
        [None],
        [1] * 100_000,
        {"a": {"b": []}},
        [float("nan")],
        ["x", "x"],
        {"name": "diffusion"},
    ),
)
_DEEP = 100_000


@dataclass(frozen=True, slots=True)
class ModelCase:
    """A model with one file damaged, and the engine that loads it."""

    number: int
    model: Path
    engine: str
    file: str
    mutation: str
    content: bytes | None
    """Content of the damaged file; None if it is missing."""


def make_model_case(models: list[Path], number: int, seed: int) -> ModelCase:
    """Return the case with this number, which depends only on the seed and the models."""
    dice = random.Random(f"{seed} {number}")
    model = dice.choice([*models, models[-1]])  # the last one has the most files
    file = dice.choice([name for name in files_of(model) if name not in ("README.md", "SHA256SUMS")])
    engine = dice.choice(["pytorch", "onnx"])
    if file in ("model.safetensors", "encoder.json"):
        engine = "pytorch"
    elif file.startswith("onnx/"):
        engine = "onnx"
    content = (model / file).read_bytes()
    mutations = dict(_BYTES)
    if file.endswith(".json"):
        mutations |= dict.fromkeys(("value 1", "value 2", "value 3", "value 4"), _change_value)
        mutations |= {"key removed": _remove_value, "nested": _nest, "confused": _confuse}
    elif file.endswith(".onnx"):
        mutations |= _GRAPH
    else:
        mutations |= {"header 1": _change_header, "header 2": _change_header, "not finite": _not_finite}
    name = dice.choice([*mutations, "missing", "swapped"])
    if name == "missing":
        return ModelCase(number, model, engine, file, name, None)
    if name == "swapped":
        other = dice.choice(models)
        path = other / file
        content = (path if path.is_file() else other / dice.choice(files_of(other))).read_bytes()
    else:
        content = mutations[name](content, dice)
    return ModelCase(number, model, engine, file, name.rstrip(" 0123456789"), content)


Mutation = Callable[[bytes, random.Random], bytes]


def _flip_bits(content: bytes, dice: random.Random) -> bytes:
    damaged = bytearray(content)
    for _ in range(dice.choice([1, 1, 2, 8, 64])):
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
    return bytes(damaged)


def _truncate(content: bytes, dice: random.Random) -> bytes:
    return content[
        : dice.choice([0, 1, 7, 8, len(content) // 2, len(content) - 1, dice.randrange(len(content))])
    ]


def _overwrite(content: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(content))
    size = dice.choice([1, 4, 16, 256])
    return (
        content[:start]
        + dice.choice([dice.randbytes(size), bytes(size), b"\xff" * size])
        + content[start + size :]
    )


def _insert(content: bytes, dice: random.Random) -> bytes:
    start = dice.randrange(len(content) + 1)
    return (
        content[:start] + dice.choice([dice.randbytes(5), b"\xff\xfe", b'"', b"}", b"\0"]) + content[start:]
    )


_BYTES: dict[str, Mutation] = {
    "bits": _flip_bits,
    "truncated": _truncate,
    "overwritten": _overwrite,
    "inserted": _insert,
}


def _list_places(tree: Any) -> list[tuple[Any, Any]]:
    """Return all containers in a tree with all of their keys or indices."""
    keys: list[Any] = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    places = [(tree, key) for key in keys]
    for key in keys:
        if isinstance(tree[key], dict | list):
            places += _list_places(tree[key])
    return places


def _pick(tree: Any, dice: random.Random) -> tuple[Any, Any]:
    """Return a random place; each container, such as a vocabulary, has the same probability."""
    places = _list_places(tree)
    containers = list({id(container): container for container, _ in places}.values())
    container = dice.choice(containers)
    return dice.choice([place for place in places if place[0] is container])


def _change_value(content: bytes, dice: random.Random) -> bytes:
    tree = json.loads(content)
    for _ in range(dice.choice([1, 1, 1, 2])):
        container, key = _pick(tree, dice)
        container[key] = dice.choice(HOSTILE)
    return json.dumps(tree).encode()


def _remove_value(content: bytes, dice: random.Random) -> bytes:
    tree = json.loads(content)
    container, key = _pick(tree, dice)
    del container[key]
    return json.dumps(tree).encode()


def _confuse(content: bytes, dice: random.Random) -> bytes:
    """Replace a value by another one of the tree, or by the same value in another type."""
    tree = json.loads(content)
    (container, key), (other, its_key) = _pick(tree, dice), _pick(tree, dice)
    value = container[key]
    kinds = [[value], {"x": value}, str(value), json.loads(json.dumps(other[its_key])), [value] * 3]
    container[key] = dice.choice(kinds)
    return json.dumps(tree).encode()


def _nest(content: bytes, dice: random.Random) -> bytes:
    tree = json.loads(content)
    container, key = _pick(tree, dice)
    container[key] = "here"
    deep = dice.choice([b"[" * _DEEP + b"]" * _DEEP, b'{"a":' * _DEEP + b"1" + b"}" * _DEEP, b"[" * _DEEP])
    return json.dumps(tree).encode().replace(b'"here"', deep)


def _change_header(content: bytes, dice: random.Random) -> bytes:
    """Change the JSON at the beginning of a safetensors file."""
    (size,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + size])
    name = dice.choice([key for key in header if key != "__metadata__"])
    entry, what = header[name], dice.randrange(5)
    if what == 0:
        entry["shape"] = dice.choice(
            [[], [0], [1], [10**12], [2**32, 2**32], [-1], entry["shape"][::-1], ["x"]]
        )
    elif what == 1:
        entry["dtype"] = dice.choice(["F16", "F64", "I64", "BOOL", "F8_E4M3", "X", 3, "U8"])
    elif what == 2:
        entry["data_offsets"] = dice.choice(
            [[0, 0], [0, 10**15], [10, 5], [-1, 3], entry["data_offsets"][::-1]]
        )
    elif what == 3:
        header[dice.choice(["x", "", "method.b", "../x", "x" * 10_000])] = header.pop(name)
    else:
        del header[name]
    raw = json.dumps(header).encode()
    length = dice.choice([len(raw)] * 4 + [0, 10**15, len(raw) + 8])
    return struct.pack("<Q", length) + raw + content[8 + size :]


def _not_finite(content: bytes, dice: random.Random) -> bytes:
    (size,) = struct.unpack("<Q", content[:8])
    value = struct.pack("<f", dice.choice([float("nan"), float("inf"), 3e38, -3e38]))
    count = (len(content) - 8 - size) // 4
    first = dice.choice([0, dice.randrange(count)])
    damaged: bytes = content[: 8 + size + 4 * first] + value * (count - first)
    return damaged


def _in_graph(change: Callable[[Any, random.Random], None]) -> Mutation:
    def mutate(content: bytes, dice: random.Random) -> bytes:
        model = onnx.load_from_string(content)
        change(model, dice)
        return bytes(model.SerializeToString())

    return mutate


def _rename(model: Any, dice: random.Random) -> None:
    values = [*model.graph.input, *model.graph.output]
    chosen = dice.choice(values)
    old, chosen.name = chosen.name, "renamed"
    for node in model.graph.node:
        node.input[:] = ["renamed" if name == old else name for name in node.input]
        node.output[:] = ["renamed" if name == old else name for name in node.output]


def _change_outputs(model: Any, dice: random.Random) -> None:
    outputs = list(model.graph.output)
    dice.shuffle(outputs)
    extra = [dice.choice(list(model.graph.input))] if dice.random() < 0.4 else []
    del model.graph.output[:]
    model.graph.output.extend(outputs[: dice.randrange(len(outputs) + 1)] + extra)


def _other_output(model: Any, dice: random.Random) -> None:
    """Replace an output by another value of the graph, with another rank, size or type."""
    output = dice.choice(list(model.graph.output))
    inner = dice.choice([name for node in model.graph.node for name in node.output])
    if inner != output.name:
        for node in model.graph.node:
            node.output[:] = ["unused" if name == output.name else name for name in node.output]
        model.graph.node.append(onnx.helper.make_node("Identity", [inner], [output.name]))
    output.ClearField("type")


def _change_weight(model: Any, dice: random.Random) -> None:
    weights = [one for one in model.graph.initializer if one.raw_data]
    chosen = dice.choice(weights)
    what = dice.randrange(5)
    if what == 0 and chosen.data_type == TensorProto.FLOAT:
        chosen.raw_data = struct.pack("<f", dice.choice([float("nan"), float("inf"), 3e38])) * (
            len(chosen.raw_data) // 4
        )
    elif what == 1:
        chosen.dims[:] = [dice.choice([0, 1, 3, 10**9, 2**40, -1]) for _ in chosen.dims]
    elif what == 2:
        chosen.data_type = dice.choice([2, 3, 7, 9, 10, 11, 99])
    elif what == 3:
        chosen.data_location = TensorProto.EXTERNAL
        entry = chosen.external_data.add()
        entry.key, entry.value = (
            "location",
            dice.choice(["../config.json", "/etc/passwd", "../../../../etc/passwd"]),
        )
        chosen.ClearField("raw_data")
    else:
        chosen.raw_data = chosen.raw_data[: len(chosen.raw_data) // 2]


def _change_node(model: Any, dice: random.Random) -> None:
    index = dice.randrange(len(model.graph.node))
    node = model.graph.node[index]
    what = dice.randrange(5)
    if what == 0:
        del model.graph.node[index]
    elif what == 1:
        node.op_type = dice.choice(["NoSuchOp", "Identity", "ConstantOfShape", "Shape", "Add"])
    elif what == 2:
        node.domain = "custom.domain"
    elif what == 3 and node.input:
        node.input[dice.randrange(len(node.input))] = dice.choice(
            [name for other in model.graph.node for name in other.output]
        )
    else:
        for attribute in node.attribute:
            attribute.i = dice.choice([-1, 0, 5, 10**9])
            attribute.ints[:] = [dice.choice([-1, 0, 1, 10**9]) for _ in attribute.ints]


_GRAPH: dict[str, Mutation] = {
    "renamed": _in_graph(_rename),
    "outputs": _in_graph(_change_outputs),
    "other output": _in_graph(_other_output),
    "weight 1": _in_graph(_change_weight),
    "weight 2": _in_graph(_change_weight),
    "node 1": _in_graph(_change_node),
    "node 2": _in_graph(_change_node),
}

"""Graphs that run faster: operations fused, and 8-bit integers in the encoder's graph.

With 8-bit integers, a product `x W` becomes one of integers. Each column of `W` has a scale of its own, and
so has each row of `x`, the vector of one piece of a sentence: `max |x| / 127`, which the graph computes. So a
row is rounded in the same way whatever else is in the batch, and no sentences are needed to choose ranges by.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from fencepost.encoder.arrays import Arrays
from fencepost.runtime.onnx import open_graph

_TABLE = 0.02
"""A table that has a smaller share of all numbers is not worth quantising: that of positions, say."""

_TOP = 127
"""The largest integer, of a weight or of a row before the zero point is added."""

_PAIR = 128
"""The largest sum of two neighbouring weights of a column, without their signs.

x86 processors without VNNI add two products in 16 bits and cut off what is larger. A number in a row is at
most 255, and so the sum at most 32,640: exact on every processor.
"""

_CONSTANTS: dict[str, npt.NDArray[Any]] = {
    "int8/last_axis": np.array([-1], dtype=np.int64),
    "int8/step": np.array(1 / _TOP, dtype=np.float32),
    "int8/zero": np.array(_TOP + 1, dtype=np.uint8),
}

_OPSET = 21
"""The first version of ONNX in which rows are rounded with a scale each; onnxruntime has it since 1.20."""

_IR_VERSION = 10
"""The version of the file format that belongs to it."""


def optimise(path: Path) -> None:
    """Fuse operations of the graph in this file, which onnxruntime would do each time that it loads it.

    Only by rules that hold on every processor.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / path.name)
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        model = onnx.load(options.optimized_model_filepath)
    domains = {node.domain for node in model.graph.node}  # onnxruntime declares all that it knows
    _declare(model, {one.domain: one.version for one in model.opset_import if one.domain in domains})
    onnx.save(model, str(path))


def quantise(source: Path, target: Path, in_float: Collection[str] = ()) -> None:
    """Write the same graph with products and embeddings of 8-bit integers.

    Those of the parts `in_float` (see `parts_of`) stay as they are.
    """
    model = onnx.load(str(source))
    graph = model.graph
    parts = _find_parts(graph)
    wanted = {name for part, names in parts.items() if part not in in_float for name in names}
    weights = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    constants = dict(_CONSTANTS)
    nodes: list[onnx.NodeProto] = []
    rows: set[str] = set()  # those that are rounded already: several products may have the same
    for node in graph.node:
        if node.name not in wanted:
            nodes.append(node)
        elif node.op_type == "Gather":
            table = node.input[0]
            largest = np.abs(weights[table]).max(axis=1, keepdims=True)
            constants |= _round(table, weights[table], largest / _TOP)
            nodes += _gather(node)
        else:
            x, weight = node.input
            constants |= _round(weight, weights[weight], _column_scales(weights[weight]))
            nodes += [*([] if x in rows else _round_rows(x, len(weights[weight]))), _multiply(node)]
            rows.add(x)
    used = {name for node in nodes for name in node.input}
    kept = [one for one in graph.initializer if one.name in used]
    kept += [numpy_helper.from_array(value, name) for name, value in constants.items() if name in used]
    graph.ClearField("node")
    graph.node.extend(nodes)
    graph.ClearField("initializer")
    graph.initializer.extend(kept)
    versions = {one.domain: one.version for one in model.opset_import}
    _declare(model, {**versions, "": max(versions[""], _OPSET), "com.microsoft": 1})
    model.ir_version = max(model.ir_version, _IR_VERSION)
    onnx.save(model, str(target))


def _declare(model: onnx.ModelProto, versions: Mapping[str, int]) -> None:
    """Set the domains of operators that a graph uses, and their versions."""
    model.ClearField("opset_import")
    model.opset_import.extend(helper.make_opsetid(*one) for one in versions.items())


def _column_scales(weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    size: npt.NDArray[np.float32] = np.abs(weight)
    pairs = size[:-1:2] + size[1::2]
    # each weight of a pair may be rounded up by a half
    scales: npt.NDArray[np.float32] = np.maximum(
        size.max(axis=0) / _TOP, pairs.max(axis=0, initial=0) / (_PAIR - 1)
    )
    return scales


def _round(
    name: str, weight: npt.NDArray[np.float32], scale: npt.NDArray[np.float32]
) -> dict[str, npt.NDArray[Any]]:
    """Return a weight as integers, and the scales that they are to be multiplied by."""
    scale = np.where(scale > 0, scale, 1).astype(np.float32)
    return {f"{name}/int8": np.rint(weight / scale).astype(np.int8), f"{name}/scale": scale}


def _round_rows(x: str, size: int) -> list[onnx.NodeProto]:
    """Return what computes the scale of each row of `x`, of this size, and `x` as integers.

    The scale of a row of zeros is 0: whatever its integers are, its products are 0.
    """
    zero = numpy_helper.from_array(_CONSTANTS["int8/zero"].reshape(1))
    return [
        helper.make_node("Abs", [x], [f"{x}/size"]),
        helper.make_node("ReduceMax", [f"{x}/size", "int8/last_axis"], [f"{x}/largest"], keepdims=1),
        helper.make_node("Mul", [f"{x}/largest", "int8/step"], [f"{x}/scale"]),
        helper.make_node("Shape", [f"{x}/scale"], [f"{x}/shape"]),
        helper.make_node("ConstantOfShape", [f"{x}/shape"], [f"{x}/zero"], value=zero),
        helper.make_node(
            "QuantizeLinear", [x, f"{x}/scale", f"{x}/zero"], [f"{x}/int8"], axis=-1, block_size=size
        ),
    ]


def _multiply(node: onnx.NodeProto) -> onnx.NodeProto:
    x, weight = node.input
    inputs = [f"{x}/int8", f"{weight}/int8", f"{x}/scale", f"{weight}/scale", "int8/zero"]
    operator = "MatMulIntegerToFloat"
    return helper.make_node(operator, inputs, node.output, name=node.name, domain="com.microsoft")


def _gather(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    table, index = node.input
    (output,) = node.output
    return [
        helper.make_node("Gather", [f"{table}/int8", index], [f"{output}/int8"], name=node.name),
        helper.make_node("Cast", [f"{output}/int8"], [f"{output}/steps"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Gather", [f"{table}/scale", index], [f"{output}/scale"]),
        helper.make_node("Mul", [f"{output}/steps", f"{output}/scale"], [output]),
    ]


def parts_of(graph: Path) -> dict[str, list[str]]:
    """Return the nodes that are worth quantising, by their layer; those outside of all by themselves."""
    return _find_parts(onnx.load(str(graph)).graph)


def _find_parts(graph: onnx.GraphProto) -> dict[str, list[str]]:
    sizes = {one.name: math.prod(one.dims) for one in graph.initializer}
    matrices = {
        one.name
        for one in graph.initializer
        if len(one.dims) == 2 and one.data_type == onnx.TensorProto.FLOAT and sizes[one.name]
    }
    table = _TABLE * sum(sizes.values())
    parts: dict[str, list[str]] = {}
    for node in graph.node:
        is_product = node.op_type == "MatMul" and node.input[1] in matrices
        is_table = node.op_type == "Gather" and node.input[0] in matrices and sizes[node.input[0]] >= table
        if is_product or is_table:
            layer = re.search(r"\.(\d+)/", node.name)
            parts.setdefault(f"layer {layer[1]}" if layer else node.name, []).append(node.name)
    return parts


def sensitivity(source: Path, arrays: Sequence[Arrays]) -> dict[str, float]:
    """Of each part of the encoder, how far word vectors are off if it alone is quantised, the worst first.

    As a share of the vectors' own length: the root of the mean square of what is off, by that of all.
    """
    parts = list(parts_of(source))
    exact = _vectors(source, arrays)
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        target = Path(name) / "part.onnx"
        for part in parts:
            quantise(source, target, [other for other in parts if other != part])
            off = _vectors(target, arrays) - exact
            found[part] = float(np.sqrt((off**2).mean() / (exact**2).mean()))
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _vectors(graph: Path, arrays: Sequence[Arrays]) -> npt.NDArray[np.float32]:
    session = open_graph(graph)
    return np.concatenate([session(**one)[0].reshape(-1) for one in arrays])

"""Faster graphs: fused operations, and 8-bit integers in the encoder's graph.

With 8-bit integers, a product `x W` is computed on integers. Each column of `W` has its own scale, and so has
each row of `x`, the vector of one sub-word: `max |x| / 127`, which the graph computes. So a row is rounded in
the same way in every batch, and no sentences are needed to choose ranges.
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

_MIN_TABLE = 0.02
"""Minimum share of all weights for a table of embeddings to be quantised; positions usually have less."""

_MAX_INT8 = 127
"""Largest integer of a weight, and of a row before the zero point is added."""

_MAX_PAIR = 128
"""Largest sum of the absolute values of two neighbouring weights of a column.

x86 processors without VNNI add two products in 16 bits, and saturate. A number in a row is at most 255, so
the sum is at most 32,640: exact on every processor.
"""

_CONSTANTS: dict[str, npt.NDArray[Any]] = {
    "int8/last_axis": np.array([-1], dtype=np.int64),
    "int8/step": np.array(1 / _MAX_INT8, dtype=np.float32),
    "int8/zero": np.array(_MAX_INT8 + 1, dtype=np.uint8),
}

_OPSET = 21
"""First ONNX operator set that can round rows with a scale each; onnxruntime supports it since 1.20."""

_IR_VERSION = 10
"""Version of the ONNX file format that this operator set needs."""


def optimise(path: Path) -> None:
    """Fuse operations of the graph in this file, so that onnxruntime need not do so at each load.

    Only optimisations that are valid on every processor are used.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / path.name)
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        model = onnx.load(options.optimized_model_filepath)
    domains = {node.domain for node in model.graph.node}  # onnxruntime declares all domains that it supports
    _declare(model, {one.domain: one.version for one in model.opset_import if one.domain in domains})
    onnx.save(model, str(path))


def quantise(source: Path, target: Path, in_float: Collection[str] = ()) -> None:
    """Write the same graph with products and embeddings of 8-bit integers.

    The parts `in_float` (see `find_parts`) stay in single precision.
    """
    model = onnx.load(str(source))
    graph = model.graph
    parts = _find_parts(graph)
    quantised = {name for part, names in parts.items() if part not in in_float for name in names}
    weights = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    constants = dict(_CONSTANTS)
    nodes: list[onnx.NodeProto] = []
    rows: set[str] = set()  # inputs that are rounded already: several products may share one
    for node in graph.node:
        if node.name not in quantised:
            nodes.append(node)
        elif node.op_type == "Gather":
            table = node.input[0]
            largest = np.abs(weights[table]).max(axis=1, keepdims=True)
            constants |= _round(table, weights[table], largest / _MAX_INT8)
            nodes += _gather(node)
        else:
            x, weight = node.input
            constants |= _round(weight, weights[weight], _compute_scales(weights[weight]))
            nodes += [*([] if x in rows else _round_rows(x, len(weights[weight]))), _multiply(node)]
            rows.add(x)
    inputs = {name for node in nodes for name in node.input}
    tensors = [one for one in graph.initializer if one.name in inputs]
    tensors += [numpy_helper.from_array(value, name) for name, value in constants.items() if name in inputs]
    graph.ClearField("node")
    graph.node.extend(nodes)
    graph.ClearField("initializer")
    graph.initializer.extend(tensors)
    versions = {one.domain: one.version for one in model.opset_import}
    _declare(model, {**versions, "": max(versions[""], _OPSET), "com.microsoft": 1})
    model.ir_version = max(model.ir_version, _IR_VERSION)
    onnx.save(model, str(target))


def _declare(model: onnx.ModelProto, versions: Mapping[str, int]) -> None:
    """Set the operator domains that a graph uses, and their versions."""
    model.ClearField("opset_import")
    model.opset_import.extend(helper.make_opsetid(*one) for one in versions.items())


def _compute_scales(weight: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the scale of each column of a matrix."""
    size: npt.NDArray[np.float32] = np.abs(weight)
    pairs = size[:-1:2] + size[1::2]
    # each weight of a pair may be rounded up by a half
    scales: npt.NDArray[np.float32] = np.maximum(
        size.max(axis=0) / _MAX_INT8, pairs.max(axis=0, initial=0) / (_MAX_PAIR - 1)
    )
    return scales


def _round(
    name: str, weight: npt.NDArray[np.float32], scale: npt.NDArray[np.float32]
) -> dict[str, npt.NDArray[Any]]:
    """Return a weight as integers, and the scales to multiply them by."""
    scale = np.where(scale > 0, scale, 1).astype(np.float32)
    return {f"{name}/int8": np.rint(weight / scale).astype(np.int8), f"{name}/scale": scale}


def _round_rows(x: str, size: int) -> list[onnx.NodeProto]:
    """Return nodes that compute the scale of each row of `x`, of this size, and `x` as integers.

    The scale of a row of zeros is 0, and so are its products.
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


def find_parts(path: Path) -> dict[str, list[str]]:
    """Return the nodes worth quantising, by layer; each node outside the layers is a part by itself."""
    return _find_parts(onnx.load(str(path)).graph)


def _find_parts(graph: onnx.GraphProto) -> dict[str, list[str]]:
    sizes = {one.name: math.prod(one.dims) for one in graph.initializer}
    matrices = {
        one.name
        for one in graph.initializer
        if len(one.dims) == 2 and one.data_type == onnx.TensorProto.FLOAT and sizes[one.name]
    }
    table = _MIN_TABLE * sum(sizes.values())
    parts: dict[str, list[str]] = {}
    for node in graph.node:
        is_product = node.op_type == "MatMul" and node.input[1] in matrices
        is_table = node.op_type == "Gather" and node.input[0] in matrices and sizes[node.input[0]] >= table
        if is_product or is_table:
            layer = re.search(r"\.(\d+)/", node.name)
            parts.setdefault(f"layer {layer[1]}" if layer else node.name, []).append(node.name)
    return parts


def measure_sensitivity(source: Path, arrays: Sequence[Arrays]) -> dict[str, float]:
    """Return the relative error of the word vectors if only this part is quantised, for each part.

    It is the root mean square of the differences, divided by that of the vectors. The largest is first.
    """
    parts = list(find_parts(source))
    exact = _compute_vectors(source, arrays)
    errors: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        target = Path(name) / "part.onnx"
        for part in parts:
            quantise(source, target, [other for other in parts if other != part])
            difference = _compute_vectors(target, arrays) - exact
            errors[part] = float(np.sqrt((difference**2).mean() / (exact**2).mean()))
    return dict(sorted(errors.items(), key=lambda item: -item[1]))


def _compute_vectors(graph: Path, arrays: Sequence[Arrays]) -> npt.NDArray[np.float32]:
    session = open_graph(graph)
    return np.concatenate([session(**one)[0].reshape(-1) for one in arrays])

"""Fused graphs; the accuracy and independence of products and embeddings of 8-bit integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from fencepost.runtime.onnx import open_graph
from fencepost.runtime.quantise import find_parts, optimise, quantise

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
Weights = dict[str, npt.NDArray[Any]]


def save(path: Path, weights: npt.NDArray[np.float32]) -> Path:
    """Write a graph that reads vectors from a table and multiplies vectors by the same matrix."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "weight"], ["product"], name="/layer.0/MatMul"),
            helper.make_node("Gather", ["table", "ids"], ["vectors"], name="/Gather"),
        ],
        "graph",
        [
            helper.make_tensor_value_info("x", FLOAT, ["batch", "length", weights.shape[0]]),
            helper.make_tensor_value_info("ids", INT64, ["rows", "columns"]),
        ],
        [
            helper.make_tensor_value_info("product", FLOAT, None),
            helper.make_tensor_value_info("vectors", FLOAT, None),
        ],
        [numpy_helper.from_array(weights, "weight"), numpy_helper.from_array(weights.copy(), "table")],
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    return path


def read_weights(path: Path) -> Weights:
    return {one.name: numpy_helper.to_array(one) for one in onnx.load(str(path)).graph.initializer}


def run(path: Path, x: npt.NDArray[np.float32], ids: npt.NDArray[np.int64]) -> list[Any]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return list(session.run(None, {"x": x, "ids": ids}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 70), st.integers(1, 40)),
    powers=st.tuples(st.sampled_from([0, 1, 5]), st.sampled_from([0, 1, 5])),
)
def test_errors_are_limited_to_rounding(folder: Path, seed: int, shape: Any, powers: Any) -> None:
    """Powers make some numbers much larger than others."""
    batch, length, size, columns = shape
    random = np.random.default_rng(seed)
    x = (random.standard_normal((batch, length, size)) ** (1 + 2 * powers[0])).astype(np.float32)
    weights = (random.standard_normal((size, columns)) ** (1 + 2 * powers[1])).astype(np.float32)
    ids = random.integers(0, size, (batch, length))
    source, target = save(folder / "float.onnx", weights), folder / "int8.onnx"
    quantise(source, target)
    product, vectors = run(target, x, ids)
    scales = read_weights(target)
    of_rows = np.abs(x).max(axis=-1, keepdims=True) / 127
    # |x w - (x + a) (w + b)| with |a| and |b| at most half a step
    w_error, x_error = scales["weight/scale"] / 2, of_rows / 2
    bound = np.abs(x).sum(-1, keepdims=True) * w_error + x_error * np.abs(weights).sum(0)
    bound += size * x_error * w_error
    assert (np.abs(product - x @ weights) <= 1.001 * bound + 1e-6).all()
    half = np.take(scales["table/scale"], ids, axis=0) / 2
    assert (np.abs(vectors - weights[ids]) <= 1.001 * half).all()


def test_sums_are_exact_without_vnni(tmp_path) -> None:
    """Two products are added in 16 bits: no sum saturates, not even that of the largest numbers."""
    random = np.random.default_rng(0)
    weights = random.choice([-1.0, 0.9, 1.0], (64, 24)).astype(np.float32)
    weights[:, 0] = 1
    weights[1::2, 1] = 0
    x = random.choice([-1.0, 1.0], (4, 8, 64)).astype(np.float32)
    x[0] = 1
    quantise(save(tmp_path / "float.onnx", weights), tmp_path / "int8.onnx")
    rounded = read_weights(tmp_path / "int8.onnx")
    size = np.abs(rounded["weight/int8"].astype(int))
    assert (size[::2] + size[1::2]).max() <= 128
    assert size[:, 1].max() == 127  # the neighbours are zeros, so the full range is used
    product = run(tmp_path / "int8.onnx", x, np.zeros((1, 1), np.int64))[0]
    exact = 127 * x.astype(int) @ rounded["weight/int8"].astype(int)
    assert product == pytest.approx(exact * (rounded["weight/scale"] / 127), rel=1e-5)


def test_rows_are_independent(tmp_path) -> None:
    random = np.random.default_rng(0)
    weights, x = (random.standard_normal(shape).astype(np.float32) for shape in ((50, 20), (3, 7, 50)))
    quantise(save(tmp_path / "float.onnx", weights), tmp_path / "int8.onnx")
    ids = np.zeros((1, 1), np.int64)
    together = run(tmp_path / "int8.onnx", x, ids)[0]
    x[0, 0], x[2] = 1e6, 0
    result = run(tmp_path / "int8.onnx", x, ids)[0]
    assert (result[0, 1:] == together[0, 1:]).all()
    assert (result[1] == together[1]).all()
    assert (result[2] == 0).all()
    assert (run(tmp_path / "int8.onnx", x[1:2, 3:4], ids)[0] == together[1, 3]).all()


def test_excluded_parts_stay_in_float(tmp_path) -> None:
    weights = np.random.default_rng(0).standard_normal((30, 20)).astype(np.float32)
    source, target = save(tmp_path / "float.onnx", weights), tmp_path / "int8.onnx"
    assert find_parts(source) == {"layer 0": ["/layer.0/MatMul"], "/Gather": ["/Gather"]}
    quantise(source, target, ["layer 0"])
    assert {"weight", "table/int8", "table/scale"} == set(read_weights(target))
    quantise(source, target, ["layer 0", "/Gather"])
    assert {"weight", "table"} == set(read_weights(target))


def test_fused_graph_computes_the_same(tmp_path) -> None:
    """It has fewer operations, and constants are folded, including an infinity."""
    random = np.random.default_rng(0)
    weight = random.standard_normal((12, 12)).astype(np.float32)
    steps = [
        ("Constant", [], "lowest", {"value_float": -np.inf}),
        ("MatMul", ["x", "weight"], "product", {}),
        ("Add", ["product", "bias"], "sum", {}),
        ("Div", ["sum", "root"], "shrunk", {}),
        ("Erf", ["shrunk"], "erf", {}),
        ("Add", ["erf", "one"], "shifted", {}),
        ("Mul", ["sum", "shifted"], "twice", {}),
        ("Mul", ["twice", "half"], "gelu", {}),
        ("Where", ["is_known", "gelu", "lowest"], "y", {}),
    ]
    constants = {"weight": weight, "bias": weight[0]} | {
        name: np.array(value, np.float32) for name, value in (("root", 2**0.5), ("one", 1), ("half", 0.5))
    }
    shape = ["batch", "length", 12]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output], **more) for kind, inputs, output, more in steps],
        "graph",
        [
            helper.make_tensor_value_info("x", FLOAT, shape),
            helper.make_tensor_value_info("is_known", onnx.TensorProto.BOOL, shape),
        ],
        [helper.make_tensor_value_info("y", FLOAT, shape)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    path = tmp_path / "graph.onnx"
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), str(path))
    inputs = {
        "x": random.standard_normal((2, 5, 12)).astype(np.float32),
        "is_known": random.random((2, 5, 12)) < 0.8,
    }
    expected = open_graph(path)(**inputs)[0]
    optimise(path)
    assert open_graph(path)(**inputs)[0] == pytest.approx(expected, abs=1e-6)
    model = onnx.load(str(path))
    assert {node.op_type for node in model.graph.node} == {"MatMul", "BiasGelu", "Where"}
    assert {one.domain for one in model.opset_import} == {"", "com.microsoft"}

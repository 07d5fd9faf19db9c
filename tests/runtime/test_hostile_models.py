"""Damaged and malicious models are refused with a message when they are loaded."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import load_file, save_file

from benchmarks.fuzz.model_campaign import fuzz_models
from fencepost.errors import DataError, FencepostError, UsageError
from fencepost.methods.boundary_smoothing import SpanDecoder
from fencepost.methods.registry import METHODS
from fencepost.runtime.engine import Predictor
from fencepost.runtime.loading import load
from tests.runtime import models

ENGINES = ("pytorch", "onnx")


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Folders of a model of each method, and of one with a transformer."""
    folder = tmp_path_factory.mktemp("made")
    paths = {name: models.saved(models.random_model(name), folder / name) for name in models.METHODS}
    encoder = {"name": str(models.save_bert(folder / "bert")), "lstm": {"size": 0}}
    model = models.random_model("boundary-smoothing", encoder)
    return paths | {"transformer": models.saved(model, folder / "transformer")}


@pytest.fixture
def copy(folders, tmp_path) -> Callable[[str], Path]:
    return lambda name="boundary-smoothing": Path(shutil.copytree(folders[name], tmp_path / name))


def change(path: Path, *keys: str, value: Any) -> None:
    tree = json.loads(path.read_text(encoding="utf-8"))
    inner = tree
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(tree), encoding="utf-8")


def refusal(folder: Path, engine: str) -> str:
    with pytest.raises(FencepostError) as caught:
        load(folder, engine=engine, threads=1)
    message = str(caught.value)
    assert str(folder) in message
    assert len(message) < 3000
    return message


@pytest.mark.parametrize("engine", ENGINES)
def test_reports_settings_that_a_decoder_refuses(copy, engine, monkeypatch) -> None:
    class Refusing(SpanDecoder):
        def __init__(self, *_: Any) -> None:
            raise RuntimeError("no such grid")

    method = replace(METHODS["boundary-smoothing"], decoder=Refusing)
    monkeypatch.setitem(METHODS, "boundary-smoothing", method)
    assert "the settings of the method cannot be used: no such grid" in refusal(copy(), engine)


# Sizes that exceed the memory


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("encoder.lstm.layers", 10**12),
        ("encoder.lstm.layers", 200),
        ("encoder.lstm.size", 10**6),
        ("encoder.lstm.size", 65_536),
        ("encoder.scratch.word_size", 65_536),
        ("encoder.scratch.character_output", 10**12),
        ("method.size", 10**9),
        ("method.size", 65_536),
        ("method.widest", 10**12),
        ("predict.batch_size", 10**12),
        ("text.language", "../x"),
        ("text.language", "x" * 10**6),
        ("encoder.context", 10**12),
    ],
)
def test_refuses_huge_settings(copy, key: str, value: Any) -> None:
    folder = copy()
    change(folder / "config.json", "config", *key.split("."), value=value)
    message = refusal(folder, "pytorch")
    assert (
        key in message
        or "size mismatch" in message
        or "Unexpected key" in message
        or "Missing key" in message
    )


@pytest.mark.parametrize(
    ("method", "key", "value"),
    [
        ("diffusion", "method.times", 10**12),
        ("diffusion", "method.scale", 1e300),
        ("diffusion", "method.schedule", "none"),
        ("diffusion", "predict.spans", 10**12),
        ("diffusion", "predict.steps", 10**12),
        ("locate-and-label", "method.lengths", [1, 10**9]),
        ("locate-and-label", "method.lengths", []),
        ("locate-and-label", "method.lengths", "abc"),
        ("boundary-offset", "method.max_offset", 10**9),
        ("boundary-offset", "method.offsets", 3),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_refuses_huge_method_settings_on_each_engine(copy, method, key, value, engine) -> None:
    folder = copy(method)
    change(folder / "config.json", "config", *key.split("."), value=value)
    assert key in refusal(folder, engine)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_hidden_layers", 10**12),
        ("hidden_size", 2**20),
        ("vocab_size", 2**40),
        ("max_position_embeddings", 2**31),
        ("backbone", "timm/resnet18"),
        ("hidden_act", "no-such-function"),
    ],
)
def test_refuses_huge_or_unknown_transformer_settings(copy, key: str, value: Any) -> None:
    folder = copy("transformer")
    change(folder / "encoder.json", key, value=value)
    refusal(folder, "pytorch")


# NaN, and files that do not fit together


def test_refuses_weights_that_are_not_finite(copy) -> None:
    for value in (float("nan"), float("inf")):
        folder = copy()
        path = folder / "model.safetensors"
        save_file({name: torch.full_like(one, value) for name, one in load_file(path).items()}, path)
        assert "the weights of this model contain NaN or infinity" in refusal(folder, "pytorch")
        shutil.rmtree(folder)


def change_graph(path: Path, change: Callable[[Any], None]) -> None:
    model = onnx.load(path)
    change(model.graph)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize("name", ["encoder", "spans"])
def test_refuses_graphs_with_weights_that_are_not_finite(copy, name: str) -> None:
    def fill(graph: Any) -> None:
        for one in graph.initializer:
            if one.data_type == TensorProto.FLOAT:
                array = numpy_helper.to_array(one)
                one.CopyFrom(numpy_helper.from_array(np.full_like(array, np.nan), one.name))

    folder = copy()
    change_graph(folder / "onnx" / f"{name}.onnx", fill)
    assert f"{name}.onnx: the weights of this graph contain NaN or infinity" in refusal(folder, "onnx")


def test_refuses_a_config_with_too_few_types(copy) -> None:
    for facts in (True, False):
        folder = copy()
        change(folder / "config.json", "types", value=["LOC"])
        if not facts:  # as an older version exported it, which did not say for which types
            change(folder / "onnx" / "export.json", "types", value=None)
            with pytest.raises(DataError, match="more types than the 1 of the model"):
                list(load(folder, engine="onnx").predict(models.sentences()))
        else:
            assert "for other types than those in config.json" in refusal(folder, "onnx")
        assert "size mismatch" in refusal(folder, "pytorch")
        shutil.rmtree(folder)


def drop_output(graph: Any) -> None:
    del graph.output[-1]


def add_output(graph: Any) -> None:
    graph.output.append(graph.output[0])
    graph.output[-1].name = graph.node[0].output[0]


def swap_outputs(graph: Any) -> None:
    first, last = graph.output[0], graph.output[-1]
    names = first.name, last.name
    types = type(first.type)(), type(first.type)()
    types[0].CopyFrom(first.type)
    types[1].CopyFrom(last.type)
    last.name, first.name = names
    first.type.CopyFrom(types[1])
    last.type.CopyFrom(types[0])


def other_rank(graph: Any) -> None:
    name = graph.output[0].name
    for node in graph.node:
        node.output[:] = ["inner" if one == name else one for one in node.output]
    graph.initializer.append(numpy_helper.from_array(np.array([0], dtype=np.int64), "axes"))
    graph.node.append(helper.make_node("Unsqueeze", ["inner", "axes"], [name]))
    graph.output[0].ClearField("type")


def other_kind(graph: Any) -> None:
    name = graph.output[0].name
    for node in graph.node:
        node.output[:] = ["inner" if one == name else one for one in node.output]
    graph.node.append(helper.make_node("Cast", ["inner"], [name], to=TensorProto.DOUBLE))
    graph.node.append(helper.make_node("Cast", [name], ["unused"], to=TensorProto.BOOL))
    graph.output[0].ClearField("type")
    if name == "word_vectors":
        graph.node[-2].attribute[0].i = TensorProto.BOOL


GRAPHS = [
    (method, graph)
    for method, graphs in {
        "boundary-smoothing": ("encoder", "spans"),
        "boundary-offset": ("encoder", "offsets"),
        "locate-and-label": ("encoder", "filter", "regressor", "classifier"),
        "diffusion": ("encoder", "step"),
    }.items()
    for graph in graphs
]


@pytest.mark.parametrize("damage", [drop_output, add_output, other_rank])
@pytest.mark.parametrize(("method", "graph"), GRAPHS)
def test_refuses_graphs_with_other_outputs(copy, method: str, graph: str, damage) -> None:
    folder = copy(method)
    change_graph(folder / "onnx" / f"{graph}.onnx", damage)
    refusal(folder, "onnx")


@pytest.mark.parametrize("damage", [swap_outputs, other_kind])
def test_refuses_graphs_with_outputs_of_another_kind(copy, damage) -> None:
    folder = copy()
    change_graph(folder / "onnx" / "spans.onnx", damage)
    assert "the outputs of the graph spans are" in refusal(folder, "onnx")


@pytest.mark.parametrize("location", ["../../../../etc/passwd", "/etc/passwd", "../config.json"])
def test_graph_cannot_read_files_outside_its_folder(copy, location: str) -> None:
    def point_outside(graph: Any) -> None:
        weight = max(graph.initializer, key=lambda one: len(one.raw_data))
        weight.ClearField("raw_data")
        weight.data_location = TensorProto.EXTERNAL
        entry = weight.external_data.add()
        entry.key, entry.value = "location", location

    folder = copy()
    change_graph(folder / "onnx" / "encoder.onnx", point_outside)
    assert "the graph cannot be loaded: " in refusal(folder, "onnx")


def test_refuses_graphs_with_operations_of_another_package(copy, capsys) -> None:
    def rename(graph: Any) -> None:
        graph.node[0].domain = "of.somebody"

    folder = copy()
    change_graph(folder / "onnx" / "spans.onnx", rename)
    refusal(folder, "onnx")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("room", True),
        ("room", 10**12),
        ("graphs", "encoder"),
        ("graphs", [1]),
        ("graphs", ["x" * 10_000]),
        ("graphs", ["encoder"]),
        ("types", 3),
    ],
)
def test_refuses_invalid_export_facts(copy, key: str, value: Any) -> None:
    folder = copy()
    change(folder / "onnx" / "export.json", key, value=value)
    refusal(folder, "onnx")


@pytest.mark.parametrize("room", [1, 5])
def test_loading_tries_the_model_on_text_that_fits(copy, monkeypatch, room: int) -> None:
    """A graph may not have positions for longer text."""
    folder = copy("transformer")
    change(folder / "onnx" / "export.json", "room", value=room)
    find, tried = Predictor.predict_entities, []

    def spy(model: Predictor, sentences: Any, watch: Any = None) -> Any:
        tried.extend(sum(min(size, room) for size in model.sizes(one.words)) for one in sentences)
        return find(model, sentences, watch)

    monkeypatch.setattr(Predictor, "predict_entities", spy)
    load(folder, engine="onnx")
    assert len(tried) == 1
    assert 1 <= tried[0] <= room


# Vocabularies and tokenizers


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("known",), []),
        (("known", "words"), "abc"),
        (("known", "words"), [1, 2]),
        (("known", "words"), ["a", "a"]),
        (("known", "words"), {"a": 1}),
        (("known", "other"), ["a"]),
        (("vector_width",), "3"),
        (("vector_width",), -1),
        (("vector_width",), True),
    ],
)
def test_refuses_invalid_vocabularies(copy, engine: str, keys: tuple[str, ...], value: Any) -> None:
    folder = copy()
    change(folder / "vocabulary.json", *keys, value=value)
    assert "vocabulary.json: the vocabulary of this model cannot be read" in refusal(folder, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("pad", "1"),
        ("pad", True),
        ("pad", -1),
        ("pad", 10**12),
        ("pad", None),
        ("unknown", 1.5),
        ("first", 0),
        ("first", ["a"]),
        ("first", [2**40]),
        ("last", [1] * 1000),
        ("more", 1),
    ],
)
def test_refuses_invalid_special_tokens(copy, engine: str, key: str, value: Any) -> None:
    folder = copy("transformer")
    change(folder / "special_tokens.json", key, value=value)
    assert "special_tokens.json: " in refusal(folder, engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("key", ["first", "last"])
def test_refuses_special_tokens_without_an_embedding(copy, engine: str, key: str) -> None:
    folder = copy("transformer")
    change(folder / "special_tokens.json", key, value=[5000])
    refusal(folder, engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_refuses_words_without_an_embedding(copy, engine: str) -> None:
    folder = copy("transformer")
    path = folder / "tokenizer.json"
    tree = json.loads(path.read_text(encoding="utf-8"))
    tree["model"]["vocab"] = {word: number + 5000 for word, number in tree["model"]["vocab"].items()}
    path.write_text(json.dumps(tree), encoding="utf-8")
    refusal(folder, engine)


def test_reports_a_tokenizer_pattern_that_takes_too_long(copy) -> None:
    """The tokenizers library raises an exception that is not a subclass of `Exception`."""
    folder = copy("transformer")
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    change(folder / "tokenizer.json", "pre_tokenizer", value=pattern)
    ner = load(folder, engine="onnx")
    with pytest.raises(DataError, match="retry-limit-in-match over"):
        ner("a" * 50 + "b")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "special_tokens.json", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff\xfe" * 100])
def test_refuses_files_that_are_not_json(copy, engine: str, name: str, content: bytes) -> None:
    folder = copy("transformer")
    (folder / name).write_bytes(content)
    assert name in refusal(folder, engine)


# Random damage


@pytest.mark.slow
def test_damaged_models_predict_or_are_refused(folders, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    result = fuzz_models(40, 7, tmp_path, list(folders.values()))
    assert result["failures"] == {}
    counts = list(result["files"].values())
    # if everything or nothing was refused, the fuzz would prove nothing
    assert sum(one.get("answered", 0) for one in counts) >= 4
    assert sum(one.get("refused", 0) for one in counts) >= 15


def test_fuzz_classifies_outcomes(monkeypatch, tmp_path, folders) -> None:
    from benchmarks.fuzz import model_campaign
    from benchmarks.fuzz.model_mutations import make_model_case

    case = make_model_case([folders["diffusion"]], 0, 0)
    assert case == make_model_case([folders["diffusion"]], 0, 0)

    def outcome_of(behaviour: Callable[..., Any]) -> str:
        monkeypatch.setattr(model_campaign, "_check_answer", behaviour)
        return model_campaign.run_case(case, tmp_path / "case").splitlines()[0]

    def raise_(error: BaseException) -> None:
        raise error

    monkeypatch.setattr(model_campaign, "CASE_SECONDS", 0.5)
    assert outcome_of(lambda *_: None) == "answered"
    assert outcome_of(lambda *_: raise_(UsageError("no"))) == "refused"
    assert outcome_of(lambda *_: raise_(KeyError("no"))).startswith("KeyError")
    assert outcome_of(lambda *_: bytearray(3 << 30)).startswith("MemoryError")
    assert outcome_of(lambda *_: time.sleep(60)).startswith("no answer")
    killed = outcome_of(lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    assert killed == "the process ended with SIGKILL"

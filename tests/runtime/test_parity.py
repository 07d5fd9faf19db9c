"""Exported graphs predict like the model, with the same scores, for every method and encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.data.entity import Sentence
from fencepost.methods.model import Model
from fencepost.methods.registry import METHODS
from fencepost.runtime.export import ExportFailed
from fencepost.runtime.loading import load
from fencepost.runtime.recogniser import Recogniser
from tests.encoder import tiny
from tests.methods.running import predict
from tests.runtime import models
from tests.runtime.models import SCRATCH

SENTENCES = models.sentences()
BERT_LIKE = {"lstm": {"size": 0}, "layers": 1}


@pytest.fixture(scope="module")
def encoders(tmp_path_factory) -> dict[str, str]:
    """Folders with tiny transformers by kind."""
    folders = {"bert": str(models.save_bert(tmp_path_factory.mktemp("bert")))}
    for kind in tiny.CONFIGS:
        folder = tmp_path_factory.mktemp(kind)
        tiny.save_encoder(kind, folder)
        folders[kind] = str(folder)
    return folders


def assert_alike(ours: list[Sentence], theirs: list[Sentence]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.with_entities(()) == other.with_entities(())
        assert [e.key for e in one.entities] == [e.key for e in other.entities]
        scores = [entity.score for entity in other.entities]
        assert [entity.score for entity in one.entities] == pytest.approx(scores, abs=1e-4)


def assert_parity(model: Model, folder: Path, **settings: Any) -> Recogniser:
    """Assert equal predictions in batches of several sizes, with enough entities."""
    ner = load(models.saved(model, folder), engine="onnx", settings=settings)
    for batch_size in (1, 5):
        expected = predict(model, SENTENCES, batch_size=batch_size, **settings)
        assert_alike(list(ner.with_options(batch_size=batch_size).predict(SENTENCES)), expected)
    count = sum(len(sentence.entities) for sentence in expected)
    assert count > len(SENTENCES) / 3
    assert len({entity.span for sentence in expected for entity in sentence.entities}) > 3
    return ner


# Methods


@pytest.mark.parametrize("method", METHODS)
def test_graphs_equal_the_model_from_scratch(method: str, tmp_path) -> None:
    ner = assert_parity(models.random_model(method), tmp_path)
    assert ner.engine == "onnx"


@pytest.mark.parametrize("method", METHODS)
def test_graphs_equal_the_model_with_a_transformer(method: str, encoders, tmp_path) -> None:
    encoder = BERT_LIKE | {"name": encoders["bert"]}
    assert_parity(models.random_model(method, encoder), tmp_path)


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "no width": ("boundary-smoothing", {"method": {"width_size": 0}, "predict": {"select": "keep-all"}}),
    "scores of words": ("boundary-smoothing", {"method": {"inside": True}}),
    "types as vectors": (
        "boundary-offset",
        {"method": {"type_inputs": "embedding", "max_offset": 0, "convolutions": 0, "region_size": 0}},
    ),
    "conditioned types": (
        "boundary-offset",
        {"method": {"condition_types": True, "distance_size": 3, "convolutions": 3}},
    ),
    "one convolution": (
        "boundary-offset",
        {"method": {"convolutions": 1, "offsets": "start", "max_offset": 3}, "predict": {"mode": "all"}},
    ),
    "no filter": ("locate-and-label", {"method": {"filter": False}}),
    "no regressor": ("locate-and-label", {"method": {"regressor": False}, "predict": {"lengths": "trained"}}),
    "a sentence vector": (
        "locate-and-label",
        {"method": {"sentence_vector": True}, "predict": {"confidence": "class", "soft_nms": False}},
    ),
    "ends": (
        "diffusion",
        {
            "method": {"pooling": "first+last", "positions": False, "coordinates": "left-right", "scale": 2},
            "predict": {"eta": 1, "steps": 7},
        },
    ),
    "proposal codes": (
        "diffusion",
        {
            "method": {"proposal_codes": True, "schedule": "linear", "cross_attention": False},
            "predict": {"steps": 1},
        },
    ),
    "no attention between spans": ("diffusion", {"method": {"self_attention": False, "layers": 1}}),
    "no layers": ("diffusion", {"method": {"layers": 0}, "predict": {"steps": 7, "seed": 3}}),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_graphs_equal_the_model_for_method_variants(variant: str, tmp_path) -> None:
    method, changes = VARIANTS[variant]
    assert_parity(models.random_model(method, seed=7, **changes), tmp_path)


# Encoders


@pytest.mark.parametrize(("characters", "layers"), [("lstm", 1), ("cnn", 0), ("none", 2)])
def test_graphs_equal_the_model_with_characters_and_layers(characters: str, layers: int, tmp_path) -> None:
    encoder = SCRATCH | {
        "scratch": SCRATCH["scratch"] | {"characters": characters},
        "lstm": {"size": 12 if layers else 0, "layers": layers or 1, "dropout": 0},
    }
    assert_parity(models.random_model("boundary-smoothing", encoder), tmp_path)


def test_graphs_equal_the_model_with_characters_only(tmp_path) -> None:
    encoder = SCRATCH | {"scratch": SCRATCH["scratch"] | {"word_size": 0}}
    assert_parity(models.random_model("boundary-smoothing", encoder), tmp_path)


@pytest.fixture(scope="module")
def features(tmp_path_factory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("vectors") / "vectors.txt"
    path.write_text("london 0.5 -1 2\nAda 1 1 -1\nmet 0 2 0.3\n", encoding="utf-8")
    return {"pos": 3, "vectors": str(path)}


def test_graphs_equal_the_model_with_features_and_prompts(features, tmp_path) -> None:
    """Prompts have no features."""
    assert_parity(models.random_model("boundary-offset", SCRATCH | {"features": features}), tmp_path)


def test_graphs_equal_the_model_with_character_features(features, tmp_path) -> None:
    encoder = SCRATCH | {"features": features | {"characters": 6}}
    assert_parity(models.random_model("boundary-smoothing", encoder), tmp_path)


POOLINGS = [("mean", 2, 1), ("max", 1, 0), ("first", 1, 2)]


@pytest.mark.parametrize(("pooling", "layers", "lstm"), POOLINGS)
def test_graphs_equal_the_model_for_each_pooling(
    pooling: str, layers: int, lstm: int, features, encoders, tmp_path
) -> None:
    encoder = {
        "name": encoders["bert"],
        "pooling": pooling,
        "layers": layers,
        "lstm": {"size": 10 if lstm else 0, "layers": lstm or 1, "dropout": 0},
        "features": features if lstm else {},
        "context": 1,
    }
    model = models.random_model("boundary-smoothing", encoder)
    assert_parity(model, tmp_path)


def test_graphs_use_context(encoders, tmp_path) -> None:
    encoder = BERT_LIKE | {"name": encoders["bert"], "context": 1, "window": 24}
    model = models.random_model("boundary-offset", encoder)
    ner = assert_parity(model, tmp_path)
    together = list(ner.predict(SENTENCES))
    alone = [sentence for one in SENTENCES for sentence in ner.predict([one])]
    assert [one.entities for one in together] != [one.entities for one in alone]


@pytest.mark.parametrize("method", METHODS)
def test_graphs_read_sentences_in_blocks(method: str, encoders, tmp_path) -> None:
    encoder = BERT_LIKE | {"name": encoders["bert"], "block": 30}
    ner = assert_parity(models.random_model(method, encoder), tmp_path)
    together = list(ner.predict(SENTENCES))
    alone = [sentence for one in SENTENCES for sentence in ner.predict([one])]
    assert [one.entities for one in together] != [one.entities for one in alone]


@pytest.mark.parametrize("kind", tiny.CONFIGS)
def test_graphs_equal_the_model_for_each_architecture(kind: str, encoders, tmp_path) -> None:
    """The model has prompts, which bypass the embedding; kinds that cannot be exported are skipped."""
    encoder = BERT_LIKE | {"name": encoders[kind]}
    changes = {"sentence_vector": True, "filter": False, "regressor": False}
    model = models.random_model("locate-and-label", encoder, method=changes)
    try:
        assert_parity(model, tmp_path)
    except ExportFailed as error:
        pytest.skip(str(error))


def test_graphs_equal_the_model_with_flat_selection(tmp_path) -> None:
    assert_parity(models.random_model("boundary-smoothing"), tmp_path, select="flat")


def test_exports_an_encoder_with_very_few_positions(tmp_path) -> None:
    encoder = {
        "name": str(models.save_bert(tmp_path / "bert", max_position_embeddings=6)),
        "lstm": {"size": 0},
    }
    model = models.random_model("boundary-smoothing", encoder)
    assert model.encoder.inputs.room == 4
    folder = models.saved(model, tmp_path / "model")
    results = [list(load(folder, engine=name).predict(models.sentences())) for name in ("pytorch", "onnx")]
    keys = [[[entity.key for entity in sentence.entities] for sentence in one] for one in results]
    assert keys[0] == keys[1]
    assert any(keys[0])

"""The entities of a sentence do not depend on its batch and order, for every method and engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.data.entity import Entity
from fencepost.methods.registry import METHODS
from fencepost.runtime import onnx, pytorch
from fencepost.runtime.engine import Predictor
from tests.runtime import models

SENTENCES = [sentence for sentence in models.sentences(40, longest=30) if sentence.words]
ENGINES = ("pytorch", "onnx", "int8")


@pytest.fixture(scope="module", params=METHODS)
def folder(request, tmp_path_factory) -> Path:
    """Folder of a model with a small transformer, some of whose weights are large, as in real ones."""
    bert = models.save_bert(tmp_path_factory.mktemp("bert"), max_position_embeddings=1000)
    encoder: dict[str, Any] = {"name": str(bert), "layers": 1, "lstm": {"size": 12, "dropout": 0}}
    model = models.random_model(request.param, encoder)
    embeddings: Any = model.encoder.embedder
    embeddings.transformer.embeddings.LayerNorm.weight.data[:4] *= 8
    return models.saved(model, tmp_path_factory.mktemp("model"), int8=True)


@pytest.fixture(scope="module", params=ENGINES)
def predictor(request, folder: Path) -> Predictor:
    if request.param == "pytorch":
        return pytorch.load_predictor(folder, "cpu")
    return onnx.load_predictor(folder, "int8" if request.param == "int8" else "float32")


@pytest.fixture(scope="module")
def alone(predictor: Predictor) -> list[list[Entity]]:
    results = [predictor.predict_batch([sentence], None)[0] for sentence in SENTENCES]
    assert sum(map(len, results)) > len(SENTENCES) / 2
    return results


@settings(max_examples=settings.default.max_examples // 2)  # of up to 12 sentences each
@given(company=st.lists(st.sampled_from(range(len(SENTENCES))), min_size=2, max_size=12))
def test_entities_do_not_depend_on_batch_and_order(
    predictor: Predictor, alone: list[list[Entity]], company: list[int]
) -> None:
    together = predictor.predict_batch([SENTENCES[index] for index in company], None)
    for index, entities in zip(company, together, strict=True):
        assert [entity.key for entity in entities] == [entity.key for entity in alone[index]]
        scores = [entity.score for entity in alone[index]]
        assert [entity.score for entity in entities] == pytest.approx(scores, rel=0, abs=1e-5)

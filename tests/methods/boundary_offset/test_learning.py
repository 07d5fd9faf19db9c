"""Boundary offsets as a whole: memorising sentences, settings, weights."""

from __future__ import annotations

import pytest
import torch

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.methods.boundary_offset.network import BoundaryOffset, SpanFactors
from fencepost.methods.boundary_offset.settings import (
    BoundaryOffsetPredict,
    BoundaryOffsetSettings,
    spell_out,
)
from fencepost.methods.model import Model
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import save_model
from fencepost.training.data import find_idle_settings
from tests.methods.boundary_offset.cases import (
    BATCH,
    FIGURE_2,
    LENGTHS,
    NETWORKS,
    PREDICTS,
    TYPES,
    WIDTH,
    gradients_of,
    loss_of,
    method_of,
    words_for,
    words_of,
)
from tests.methods.running import predict as predict_with

LEARNT = [
    Sentence(FIGURE_2.words, FIGURE_2.entities),
    Sentence(["T", "cells", "in", "the", "box"], [Entity(0, 2, "cell type"), Entity(4, 5, "protein")]),
    Sentence(["nothing", "of", "note"]),
    Sentence(["LEF-1"], [Entity(0, 1, "protein"), Entity(0, 1, "cell type")]),
]


def config_of(**settings) -> Config:
    return Config.parse(
        {
            "method": {"name": "boundary-offset", "size": 24, "dropout": 0, "max_offset": 2} | settings,
            "encoder": {
                "name": "scratch",
                "lstm": {"size": 32, "dropout": 0},
                "scratch": {"word_size": 24, "characters": "none", "word_dropout": 0},
            },
        }
    )


LEARNERS: dict[str, dict] = {
    "default": {},
    "three-convolutions": {"convolutions": 3, "max_offset": 1, "condition_types": True},
    "no-type-inputs": {"type_inputs": "embedding", "convolutions": 0, "offsets": "end"},
}


@pytest.mark.parametrize("settings", LEARNERS.values(), ids=LEARNERS.keys())
def test_model_memorises_its_sentences(settings: dict, tmp_path) -> None:
    torch.manual_seed(0)
    model = Model.build(config_of(**settings), LEARNT)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(50):
        optimizer.zero_grad()
        loss = model(model.collate(LEARNT))["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.02 < 0.5 < losses[0]
    expected = [sorted(entity.key for entity in sentence.entities) for sentence in LEARNT]
    for predict in PREDICTS:
        predicted = predict_with(model, LEARNT, select="keep-all", **predict)
        assert [sorted(e.key for e in sentence.entities) for sentence in predicted] == expected, predict
    save_model(model, tmp_path)
    again = load(tmp_path, settings={"mode": "all"})
    assert again.settings["mode"] == "all"
    assert [sorted(e.key for e in sentence.entities) for sentence in again.predict(LEARNT)] == expected


def test_auto_selects_keep_all_if_training_entities_overlap() -> None:
    nested = [Sentence(["a", "b"], [Entity(0, 2, "A"), Entity(1, 2, "A")])]
    crossing = [Sentence(["a", "b", "c"], [Entity(0, 2, "A"), Entity(1, 3, "A")])]
    flat = [Sentence(["a", "b"], [Entity(0, 1, "A"), Entity(1, 2, "B")])]
    for sentences, select in ((nested, "keep-all"), (crossing, "keep-all"), (flat, "flat")):
        assert Model.build(config_of(), sentences).config.predict.select == select
        assert BoundaryOffsetPredict(select="nested").fit_to(sentences).select == "nested"


def test_types_are_prompts_or_an_embedding() -> None:
    prompted = Model.build(config_of(), LEARNT)
    assert len(prompted.encoder.prompts) == 2
    assert "type_vectors" not in dict(prompted.network.named_parameters())
    embedded = Model.build(config_of(type_inputs="embedding"), LEARNT)
    assert embedded.encoder.prompts is None
    assert embedded.network.type_vectors.shape == (2, 32)
    for model, of in ((prompted, prompted.encoder.prompts), (embedded, embedded.network.type_vectors)):
        model(model.collate(LEARNT))["loss"].backward()
        assert of.grad.abs().sum() > 0


def test_every_weight_has_a_gradient() -> None:
    """Weights of an embedding that is not used do not exist; all others have a gradient."""
    for settings in NETWORKS.values():
        method = method_of(**settings)
        gradients = gradients_of(method, loss_of(method, words_for(method, LENGTHS), BATCH))
        assert all(gradient.any() for gradient in gradients.values() if gradient.numel())


def test_weights_have_the_shapes_of_the_paper() -> None:
    settings = BoundaryOffsetSettings(max_offset=3, size=7, convolutions=3)
    method = BoundaryOffset(settings, WIDTH, TYPES)
    assert method.U.shape == (14, 7, 7)
    assert method.W.shape == (14, 14)
    assert method.b.shape == (14,)
    assert [layer.plain.weight.shape for layer in method.convolutions.layers] == [(14, 1, 3, 3, 3)] * 3
    assert method.places.regions.weight.shape == (2, 20)
    assert method_of(convolutions=0).convolutions is None
    assert method_of().second is None


def test_defaults_are_those_of_the_paper_and_invalid_values_are_refused() -> None:
    config = Config.parse({"method": {"name": "boundary-offset"}})
    assert (config.encoder.lstm.size, config.encoder.lstm.dropout, config.training.batch_size) == (
        256,
        0.5,
        8,
    )
    method, predict = config.method, config.predict
    assert isinstance(method, BoundaryOffsetSettings)
    assert isinstance(predict, BoundaryOffsetPredict)
    assert (method.size, method.region_size, method.offsets, method.type_inputs) == (
        150,
        20,
        "both",
        "prompts",
    )
    assert (predict.mode, predict.votes, predict.nearest, predict.order) == ("rules", None, True, True)
    for key, value in (("max_offset", -1), ("convolutions", 4), ("offsets", "none"), ("label_smoothing", 1)):
        with pytest.raises(UsageError, match=f"method.{key}"):
            Config.parse({"method": {"name": "boundary-offset", key: value}})
    for key, value in (("mode", "best"), ("votes", 0)):
        with pytest.raises(UsageError, match=f"predict.{key}"):
            Config.parse({"method": {"name": "boundary-offset"}, "predict": {key: value}})


def test_scores_grow_only_linearly_with_the_sentence() -> None:
    """No part of the result of `score` grows with the square of the length."""
    scores = method_of(condition_types=True).score(words_of([40]))
    assert isinstance(scores, SpanFactors)
    parts = (scores.normed, scores.gain, scores.shift, scores.types, scores.type_bias, scores.second)
    assert all(part.numel() <= 40 * 100 for part in parts)


@pytest.mark.parametrize(
    ("method", "encoder", "setting"),
    [
        ({"prompt_start": "name"}, "minilm", None),
        ({"prompt_start": "name"}, "scratch", "method.prompt_start"),
        ({"prompt_start": "name", "type_inputs": "embedding"}, "minilm", "method.prompt_start"),
        ({"offsets": "start"}, "minilm", None),
        ({"offsets": "start", "max_offset": 0}, "minilm", "method.offsets"),
    ],
)
def test_reports_settings_without_effect(method: dict, encoder: str, setting: str | None) -> None:
    tree = {"method": {"name": "boundary-offset", **method}, "encoder": {"name": encoder}}
    notes = list(find_idle_settings(Config.parse(tree), LEARNT, None))
    assert len(notes) == (setting is not None)
    assert all(note.startswith(f"{setting} has no effect: ") for note in notes)


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        ("cell_line", "cell line"),
        ("CellLine", "cell line"),
        ("PER.NAM", "per nam"),
        ("DNA", "dna"),
        ("DNADomain", "dna domain"),
        ("GENE-2", "gene 2"),
        ("Öl_Straße", "öl straße"),
        ("人名", "人名"),
        ("__", ""),
    ],
)
def test_type_names_are_split_into_words(type_: str, words: str) -> None:
    assert spell_out(type_) == words


def test_prompts_can_be_initialised_with_type_names() -> None:
    tree = {"method": {"name": "boundary-offset", "prompt_start": "name", "size": 4}}
    model = Model.build(Config.parse(tree), LEARNT)
    for type_, prompt in zip(model.types, model.encoder.prompts, strict=True):
        assert torch.equal(prompt, model.encoder.embedder.embed_text(spell_out(type_)))

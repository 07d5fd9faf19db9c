"""Recipes are valid and agree with the page; each ablation of the page has an effect."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import fields
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from fencepost.config import Config
from fencepost.data import read
from fencepost.data.entity import Sentence
from fencepost.encoder import pretrained
from fencepost.errors import UsageError
from fencepost.experiments import learning
from fencepost.experiments.recipes import Recipe, recipe, recipes
from fencepost.methods.model import Model
from fencepost.methods.network import Gold
from fencepost.methods.registry import METHODS
from tests.methods.running import predict

torch.set_num_threads(1)

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")

CORPORA = {
    "boundary-smoothing": "conll2003 ontonotes5 ace2004 ace2005 ontonotes4 msra weibo resume",
    "boundary-offset": "conll2003 ontonotes5 ace2004 ace2005 genia msra resume weibo",
    "locate-and-label": "ace2004 ace2005 kbp2017 genia conll2003 weibo",
    "diffusion": "ace2004 ace2005 genia conll2003 ontonotes msra",
}


def compose_settings(name: str, file: Path | None, changes: Any, options: dict[str, Any]) -> Config:
    return learning.compose_settings(file, recipe(name).config, options, None, changes or ())


# Recipes


def test_each_paper_and_corpus_has_a_recipe() -> None:
    names = {f"{method}/{corpus}" for method, names in CORPORA.items() for corpus in names.split()}
    assert {one.name for one in recipes()} == names
    assert len(recipes()) == 28
    assert list(CORPORA) == list(dict.fromkeys(one.name.split("/")[0] for one in recipes()))


@pytest.mark.parametrize("one", recipes(), ids=lambda one: one.name)
def test_recipe_is_a_valid_configuration(one: Recipe) -> None:
    config = Config.compose(base=one.config)
    assert config.method.name == one.name.split("/")[0]
    assert config.encoder.name == one.encoder != "minilm"
    assert not config.encoder.freeze_embeddings  # the papers train all weights
    assert config.encoder.attention_dropout == 0.1  # that of their encoders
    assert 60 < one.f1 < 100
    assert one.notes
    assert all(note.strip() for note in (one.paper, one.table, one.corpus, *one.notes))
    assert recipe(one.name) == one
    resolved = config.model_dump(mode="json")
    for key, value in flat(one.config).items():  # no value is changed by validation
        assert flat(resolved)[key] == value


def test_some_recipes_have_the_values_of_their_papers() -> None:
    smoothing = Config.compose(base=recipe("boundary-smoothing/ace2005").config)
    assert (smoothing.method.epsilon, smoothing.method.smoothing_size) == (0.1, 2)  # type: ignore[attr-defined]
    assert (smoothing.training.epochs, smoothing.training.batch_size) == (50, 48)
    offset = Config.compose(base=recipe("boundary-offset/conll2003").config)
    assert (offset.method.max_offset, offset.training.learning_rate) == (3, 1e-3)  # type: ignore[attr-defined]
    label = Config.compose(base=recipe("locate-and-label/genia").config)
    assert (label.predict.overlap, label.predict.threshold) == (0.7, 0.45)  # type: ignore[attr-defined]
    assert (label.training.batch_size, label.training.encoder_learning_rate) == (6, 5e-6)
    diffusion = Config.compose(base=recipe("diffusion/genia").config)
    assert (diffusion.method.spans, diffusion.predict.threshold) == (60, 0.55)  # type: ignore[attr-defined]
    assert (diffusion.encoder.pooling, diffusion.training.frozen_epochs) == ("max", 5)


def test_reading_a_recipe_returns_a_copy() -> None:
    recipe("diffusion/genia").config["method"]["spans"] = 1
    assert recipe("diffusion/genia").config["method"]["spans"] == 60


@pytest.mark.parametrize("name", ["boundary-smoothing/conll03", "", "../settings", "diffusion", "a/b/c"])
def test_unknown_recipe_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UsageError, match=r"there is no recipe .*; .*there are boundary-smoothing/ace2004, "):
        recipe(name)


def test_unknown_recipe_suggests_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"did you mean boundary-smoothing/conll2003\?"):
        recipe("boundary-smoothing/conll03")


def test_page_lists_all_recipes_in_order() -> None:
    rows = re.findall(r"^\| `([\w-]+/\w+)` \| (.*?) \| (.*?) \| `(.*?)` \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    expected = [
        (one.name, f"{one.paper}, {one.table}", one.corpus, one.encoder, f"{one.f1:.2f}") for one in recipes()
    ]
    assert rows == expected


# Priority of settings


def test_file_changes_and_options_override_a_recipe(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("training: {epochs: 7, batch_size: 7, warmup: 0.7}\n")
    flags = {"training": {"epochs": 9, "batch_size": None}, "encoder": {"name": None}}
    name = "boundary-smoothing/conll2003"
    config = compose_settings(name, file, ["training.batch_size=8", "training.epochs=8"], flags)
    assert (config.training.epochs, config.training.batch_size, config.training.warmup) == (9, 8, 0.7)
    assert (config.training.clip, config.encoder.name) == (5.0, "roberta-base")
    assert config.method.epsilon == 0.3  # type: ignore[attr-defined]


def test_empty_part_of_a_file_keeps_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("method:\nencoder:\n")
    assert compose_settings("diffusion/genia", file, [], {}) == compose_settings(
        "diffusion/genia", None, None, {}
    )


def test_refuses_another_method_than_that_of_the_recipe(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("method: {name: boundary-offset}\n")
    name = "diffusion/genia"
    for config, changes, flags in (
        (None, [], {"method": {"name": "boundary-offset"}}),
        (None, ["method.name=boundary-offset"], {}),
        (file, [], {}),
    ):
        with pytest.raises(
            UsageError, match="boundary-offset contradicts the recipe, which is for diffusion"
        ):
            compose_settings(name, config, changes, flags)
    again = compose_settings(name, None, [], {"method": {"name": "diffusion"}})
    assert again == compose_settings(name, None, [], {})


def test_messages_name_a_file_only_if_there_is_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^training\.epoch: there is no such key"):
        compose_settings("diffusion/genia", None, ["training.epoch=3"], {})
    with pytest.raises(UsageError, match=r"^method\.epsilon: there is no such key"):
        Config.compose(base={"method": {"name": "diffusion", "epsilon": 1}})
    file = tmp_path / "own.yaml"
    file.write_text("training: {epoch: 3}\n")
    with pytest.raises(UsageError, match=r"own\.yaml: training\.epoch: there is no such key"):
        compose_settings("diffusion/genia", file, [], {})


# Ablations


class Ablation(NamedTuple):
    recipe: str
    changes: tuple[str, ...]  # as `key=value`


def ablations() -> list[Ablation]:
    """Return every ablation of the page, with the recipe of its section."""
    rows = []
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        name = section.split("`")[1]
        for line in re.findall(r"^\| .*? \| `(--set .*?)` \|", section, re.MULTILINE):
            words = shlex.split(line)
            assert words[::2] == ["--set"] * (len(words) // 2)
            rows.append(Ablation(name, tuple(words[1::2])))
    return rows


NETWORK, LOSS, FOUND, ENCODER = "its weights", "its loss", "what it finds", "the encoder it asks for"

EFFECTS = {
    "encoder.name": ENCODER,
    "encoder.lstm.size": NETWORK,
    "encoder.features.characters": NETWORK,
    "encoder.features.pos": NETWORK,
    "method.epsilon": LOSS,
    "method.smoothing_size": LOSS,
    "method.label_smoothing": LOSS,
    "method.width_size": NETWORK,
    "method.type_inputs": NETWORK,
    "method.region_size": NETWORK,
    "method.max_offset": NETWORK,
    "method.convolutions": NETWORK,
    "method.offsets": NETWORK,
    "method.regressor": NETWORK,
    "method.filter": NETWORK,
    "method.eta": LOSS,
    "method.lengths": LOSS,
    "method.self_attention": NETWORK,
    "method.cross_attention": NETWORK,
    "method.schedule": LOSS,
    "method.times": LOSS,
    "method.expansion": LOSS,
    "method.spans": LOSS,
    "method.targets": LOSS,
    "method.coordinates": LOSS,
    "method.distance": LOSS,
    "method.positions": NETWORK,
    "predict.mode": FOUND,
    "predict.nearest": FOUND,
    "predict.order": FOUND,
    "predict.soft_nms": FOUND,
    "predict.lengths": FOUND,
    "predict.spans": FOUND,
    "predict.steps": FOUND,
}
"""Part of a model that each setting must change; parts listed before it must stay equal."""

SMALL = {
    "": (
        "encoder.name=scratch",
        "encoder.scratch.word_size=8",
        "encoder.scratch.character_output=8",
        "encoder.lstm.size=16",
    ),
    "boundary-smoothing": ("method.size=8", "method.width_size=4"),
    "boundary-offset": ("method.size=8", "method.region_size=4"),
    "locate-and-label": (
        "method.size=8",
        "encoder.features.characters=4",
        "encoder.features.pos=4",
        "predict.threshold=0",  # so that even an untrained model predicts entities
    ),
    "diffusion": (
        "method.size=16",
        "method.feed_forward=16",
        "method.pointer_size=8",
        "predict.threshold=0",
    ),
}
"""Small sizes for quick tests; all other settings are those of the recipe."""


class Measured(NamedTuple):
    """Weights, loss and predictions of a model, in the order of their dependence."""

    network: dict[str, torch.Size]
    loss: float
    predictions: list[Any]


@cache
def sentences() -> list[Sentence]:
    """Return sentences with parts of speech, which are made from the lengths of the words."""
    return [
        Sentence(one.words, one.entities, pos=[str(len(word) % 5) for word in one.words])
        for one in islice(read("sample:train"), 8)
    ]


@cache
def measured(name: str, changes: tuple[str, ...]) -> Measured:
    config = compose_settings(name, None, [*SMALL[""], *SMALL[name.split("/")[0]], *changes], {})
    torch.manual_seed(0)
    model = Model.build(config, sentences()).eval()
    for weights in model.parameters():  # so that an untrained model predicts some entities
        if weights.ndim > 1:
            torch.nn.init.normal_(weights, std=0.5)
    with torch.no_grad():
        batch = model.collate(sentences())
        loss = float(model(batch)["loss"])
        scores = model.network.score(model.encoder(batch), Gold.from_columns(batch["gold"]))
    sums = [(part.shape, part.sum().item()) for part in tensors(scores)]
    entities = [(entity.key, entity.score) for one in predict(model, sentences()) for entity in one.entities]
    shapes = {key: weights.shape for key, weights in model.state_dict().items()}
    return Measured(shapes, loss, [*sums, *entities])


def tensors(scores: Any) -> list[torch.Tensor]:
    """Return the tensors in the scores of a method, which are a dataclass."""
    parts = (getattr(scores, field.name) for field in fields(scores))
    return [part for part in parts if isinstance(part, torch.Tensor)]


@pytest.mark.parametrize("name", sorted({one.recipe for one in ablations()}))
def test_measurement_without_ablation_is_deterministic(name: str) -> None:
    assert measured.__wrapped__(name, ()) == measured(name, ())


def test_page_has_ablations_of_each_method() -> None:
    by_method = [one.recipe.split("/")[0] for one in ablations()]
    assert list(dict.fromkeys(by_method)) == list(METHODS)
    assert all(by_method.count(method) >= 10 for method in METHODS)
    assert len(set(ablations())) == len(ablations())
    assert {change.split("=")[0] for one in ablations() for change in one.changes} == set(EFFECTS)


@pytest.mark.parametrize("one", ablations(), ids=lambda one: f"{one.recipe.split('/')[0]} {one.changes}")
def test_ablation_changes_only_its_settings(one: Ablation) -> None:
    before, after = (
        flat(compose_settings(one.recipe, None, changes, {}).model_dump(mode="json"))
        for changes in ((), one.changes)
    )
    assert before.keys() == after.keys()
    keys = {key for key in before if before[key] != after[key]}
    assert keys == {change.split("=")[0] for change in one.changes}


@pytest.mark.parametrize("one", ablations(), ids=lambda one: f"{one.recipe.split('/')[0]} {one.changes}")
def test_each_change_of_an_ablation_has_its_effect(one: Ablation, monkeypatch) -> None:
    for change in one.changes:
        others = tuple(other for other in one.changes if other != change)
        effect = EFFECTS[change.split("=")[0]]
        if effect == ENCODER:
            asked_for = [show_settings(one.recipe, changes, monkeypatch) for changes in (others, one.changes)]
            assert asked_for == [recipe(one.recipe).encoder, change.split("=")[1]]
            continue
        without, with_it = measured(one.recipe, others), measured(one.recipe, one.changes)
        if effect == NETWORK:
            assert with_it.network != without.network
        elif effect == LOSS:
            assert with_it.network == without.network
            assert with_it.loss != pytest.approx(without.loss, rel=1e-6)
        else:
            assert (with_it.network, with_it.loss) == (without.network, without.loss)
            assert with_it.predictions != without.predictions


def show_settings(name: str, changes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the encoder that a model with these settings requests from transformers."""
    names: list[str] = []

    def from_pretrained(name: str, **options: Any) -> None:
        names.append(name)
        raise OSError("not in a test")

    monkeypatch.setattr(pretrained.AutoConfig, "from_pretrained", from_pretrained)
    with pytest.raises(UsageError, match="not in a test"):
        Model.build(compose_settings(name, None, changes, {}), sentences())
    (one,) = names
    return one


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the settings by key, as JSON."""
    values = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            values |= flat(value, f"{prefix}{key}.")
        else:
            values[prefix + key] = json.dumps(value)
    return values

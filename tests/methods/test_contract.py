"""A method is one record in the registry; methods of others train and predict like ours."""

from __future__ import annotations

import pytest
import torch

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.methods.boundary_smoothing.settings import BoundarySmoothingSettings
from fencepost.methods.decoder import Decoder
from fencepost.methods.model import Model
from fencepost.methods.network import Gold, Network
from fencepost.methods.registry import METHODS, Method
from fencepost.methods.settings import MethodSettings
from fencepost.runtime.export import export
from fencepost.runtime.loading import load
from fencepost.runtime.pytorch import save_model
from tests.methods.doubles import DOUBLES, register
from tests.methods.running import predict, recogniser_of

torch.set_num_threads(1)

LEARNT = [
    Sentence(
        ["Ada", "met", "Charles", "in", "London"],
        [Entity(0, 1, "PER"), Entity(2, 3, "PER"), Entity(4, 5, "LOC")],
    ),
    Sentence(["London", "is", "large"], [Entity(0, 1, "LOC")]),
    Sentence(["nobody", "met", "him"]),
    Sentence(["Ada"], [Entity(0, 1, "PER")]),
    Sentence(["Paris", "met", "Paris"], [Entity(0, 1, "PER"), Entity(0, 1, "LOC"), Entity(2, 3, "LOC")]),
]


@pytest.fixture(autouse=True)
def _doubles(monkeypatch) -> None:
    register(monkeypatch)


def trained(name: str, steps: int = 100, **predict) -> Model:
    """Train a model on one batch, and check that the loss is the sum of its terms."""
    torch.manual_seed(0)
    model = Model.build(Config.parse({"method": {"name": name}, "predict": predict}), LEARNT)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(steps):
        optimizer.zero_grad()
        terms = model(model.collate(LEARNT))
        torch.testing.assert_close(terms["loss"], sum(term for key, term in terms.items() if key != "loss"))
        terms["loss"].backward()
        optimizer.step()
    return model.eval()


def keys(sentences) -> list[list[tuple[int, int, str]]]:
    return [[entity.key for entity in sentence.entities] for sentence in sentences]


@pytest.mark.parametrize("name", DOUBLES)
def test_registered_method_trains_predicts_saves_and_exports(name: str, tmp_path) -> None:
    model = trained(name)
    predicted = predict(model, LEARNT)
    assert keys(predicted) == keys(LEARNT)
    save_model(model, tmp_path / "model")
    assert list(load(tmp_path / "model").predict(LEARNT)) == predicted
    export(model, tmp_path / "model")
    assert keys(load(tmp_path / "model", engine="onnx").predict(LEARNT)) == keys(LEARNT)


def test_settings_of_a_registered_method_are_validated() -> None:
    config = Config.parse({"method": {"name": "tagger", "bias": False}})
    model = Model.build(config, LEARNT)
    assert model.network.layer.bias is None
    with pytest.raises(
        UsageError, match=r"method\.bia: .* did you mean method\.bias\? method has name, bias$"
    ):
        Config.parse({"method": {"name": "tagger", "bia": False}})
    with pytest.raises(UsageError, match=r"method\.bias: there is no such key"):
        Config.parse({"method": {"bias": False}})
    with pytest.raises(UsageError, match=r"predict\.threshold: should be less than or equal to 1, not 2"):
        Config.parse({"method": {"name": "tagger"}, "predict": {"threshold": 2}})


def test_user_settings_override_the_defaults_of_the_method() -> None:
    config = Config.parse({"method": {"name": "tagger"}, "encoder": {"lstm": {"size": 6}}})
    assert (config.encoder.name, config.encoder.lstm.size, config.encoder.lstm.dropout) == ("scratch", 6, 0.0)
    assert config.training.epochs == 3
    assert Config.parse({}).encoder.name == "minilm"


def test_predict_settings_of_a_method_can_change_when_loading(tmp_path) -> None:
    save_model(trained("tagger"), tmp_path)
    nothing = load(tmp_path, settings={"threshold": 1}).predict(LEARNT)
    assert all(not sentence.entities for sentence in nothing)
    everything = load(tmp_path, settings={"threshold": 0, "select": "keep-all"}).predict(LEARNT)
    assert [len(sentence.entities) for sentence in everything] == [2 * len(s) for s in LEARNT]


def test_number_of_iterations_can_change_when_loading(tmp_path) -> None:
    save_model(trained("iterating"), tmp_path)
    scores = [
        [
            entity.score
            for s in load(tmp_path, settings={"steps": steps}).predict(LEARNT)
            for entity in s.entities
        ]
        for steps in (4, 4, 9)
    ]
    assert scores[0] == scores[1] != scores[2]


def test_prompts_belong_to_the_encoder_and_have_gradients() -> None:
    before = Model.build(Config.parse({"method": {"name": "prompted"}}), LEARNT)
    assert before.encoder.prompts.shape == (2, before.encoder.embedder.prompt_width)
    before(before.collate(LEARNT))["loss"].backward()
    assert before.encoder.prompts.grad.abs().sum() > 0
    assert Model.build(Config.parse({"method": {"name": "tagger"}}), LEARNT).encoder.prompts is None


@pytest.mark.parametrize("name", DOUBLES)
def test_loss_in_prediction_equals_the_training_loss(name: str) -> None:
    model = trained(name, steps=3, batch_size=2)
    losses: list[tuple[float, int]] = []

    def watch(sentences, words, scores) -> None:
        losses.append((model.compute_loss(sentences, words), len(sentences)))

    list(recogniser_of(model).predict(LEARNT, watch))
    assert [count for _, count in losses] == [2, 2, 1]
    mean = sum(loss * count for loss, count in losses) / len(LEARNT)
    assert mean == pytest.approx(model(model.collate(LEARNT))["loss"].item(), rel=1e-5)


def test_registry_and_settings_have_the_same_names() -> None:
    for name, method in METHODS.items():
        assert isinstance(method, Method)
        assert method.settings().name == name
        assert issubclass(method.load_network(), Network)
        assert Config.parse({"method": {"name": name}}).predict == method.predict()


def test_incomplete_networks_and_decoders_cannot_be_created() -> None:
    class HalfNetwork(Network[None]):
        def score(self, words, gold) -> None:
            return None

    class HalfDecoder(Decoder[None]):
        def score(self, words, graphs, predict) -> None:
            return None

    with pytest.raises(TypeError, match="loss"):
        HalfNetwork(MethodSettings(name="half"), 3, ["A"])
    with pytest.raises(TypeError, match="candidates"):
        HalfDecoder(MethodSettings(name="half"), ["A"])


def test_gold_is_made_from_columns() -> None:
    gold = Gold.from_columns(torch.tensor([[0, 1, 3, 2], [1, 0, 1, 0]]))
    assert (gold.sentence.tolist(), gold.start.tolist(), gold.end.tolist(), gold.type.tolist()) == (
        [0, 1],
        [1, 0],
        [3, 1],
        [2, 0],
    )
    assert Gold.from_columns(torch.zeros(0, 4).long()).start.shape == (0,)


def test_settings_without_fitted_values_are_unchanged() -> None:
    settings = MethodSettings(name="any")
    assert settings.fit_to(LEARNT) is settings
    assert BoundarySmoothingSettings().fit_to(LEARNT).widest == 2

"""A method is one class and one line in the registry: others than ours train and predict all the same."""

from __future__ import annotations

import pytest
import torch

from fencepost.config import Config
from fencepost.data.entity import Entity, Sentence
from fencepost.errors import UsageError
from fencepost.methods.boundary_smoothing.network import BoundarySmoothingSettings
from fencepost.methods.model import Model
from fencepost.methods.network import Gold, Method, MethodSettings
from fencepost.methods.networks import METHODS
from tests.methods.doubles import DOUBLES, TwoStage, register

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
    """As the trainer does it, in small: batches in, the sum of the terms down."""
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
def test_a_fifth_method_learns_predicts_is_saved_and_loaded(name: str, tmp_path) -> None:
    model = trained(name)
    predicted = list(model.predict(LEARNT))
    assert keys(predicted) == keys(LEARNT)
    model.save(tmp_path / "model")
    again = Model.load(tmp_path / "model")
    assert type(again.method) is DOUBLES[name]
    assert list(again.predict(LEARNT)) == predicted


def test_the_settings_of_the_method_are_checked_as_all_others() -> None:
    config = Config.parse({"method": {"name": "tagger", "bias": False}})
    model = Model.build(config, LEARNT)
    assert model.method.layer.bias is None
    with pytest.raises(
        UsageError, match=r"method\.bia: .* did you mean method\.bias\? method has name, bias$"
    ):
        Config.parse({"method": {"name": "tagger", "bia": False}})
    with pytest.raises(UsageError, match=r"method\.bias: there is no such key"):
        Config.parse({"method": {"bias": False}})
    with pytest.raises(UsageError, match=r"predict\.threshold: should be less than or equal to 1, not 2"):
        Config.parse({"method": {"name": "tagger"}, "predict": {"threshold": 2}})


def test_what_a_method_wants_of_encoder_and_training_is_below_what_the_user_wants() -> None:
    config = Config.parse({"method": {"name": "tagger"}, "encoder": {"lstm": {"size": 6}}})
    assert (config.encoder.name, config.encoder.lstm.size, config.encoder.lstm.dropout) == ("scratch", 6, 0.0)
    assert config.training.epochs == 3
    assert Config.parse({}).encoder.name == "minilm"


def test_a_setting_of_the_method_can_change_when_predicting(tmp_path) -> None:
    trained("tagger").save(tmp_path)
    nothing = Model.load(tmp_path, ["predict.threshold=1"]).predict(LEARNT)
    assert all(not sentence.entities for sentence in nothing)
    everything = Model.load(tmp_path, ["predict.threshold=0", "predict.select=keep-all"]).predict(LEARNT)
    assert [len(sentence.entities) for sentence in everything] == [2 * len(s) for s in LEARNT]


def test_a_method_that_iterates_is_told_how_often_when_predicting(tmp_path) -> None:
    trained("iterating").save(tmp_path)
    scores = [
        [
            entity.score
            for s in Model.load(tmp_path, [f"predict.steps={steps}"]).predict(LEARNT)
            for entity in s.entities
        ]
        for steps in (4, 4, 9)
    ]
    assert scores[0] == scores[1] != scores[2]


def test_prompts_are_part_of_the_encoder_and_learnt() -> None:
    before = Model.build(Config.parse({"method": {"name": "prompted"}}), LEARNT)
    assert before.encoder.prompts.shape == (2, before.encoder.embedder.prompt_width)
    before(before.collate(LEARNT))["loss"].backward()
    assert before.encoder.prompts.grad.abs().sum() > 0
    assert Model.build(Config.parse({"method": {"name": "tagger"}}), LEARNT).encoder.prompts is None


def test_gold_is_for_learning_and_for_the_loss_alone() -> None:
    model = trained("two-stage", steps=2)
    assert isinstance(model.method, TwoStage)
    assert model.method.seen == [True, True]
    list(model.predict(LEARNT))
    assert model.method.seen[2:] == [False]
    list(model.predict(LEARNT, lambda _, *of_batch: model.loss_of(*of_batch) and None))
    assert model.method.seen[3:] == [False, True]


@pytest.mark.parametrize("name", DOUBLES)
def test_the_loss_told_when_predicting_is_that_of_learning(name: str) -> None:
    model = trained(name, steps=3, batch_size=2)
    told: list[tuple[float, int]] = []
    list(model.predict(LEARNT, lambda some, *of_batch: told.append((model.loss_of(*of_batch), len(some)))))
    assert [count for _, count in told] == [2, 2, 1]
    mean = sum(loss * count for loss, count in told) / len(LEARNT)
    assert mean == pytest.approx(model(model.collate(LEARNT))["loss"].item(), rel=1e-5)


def test_the_registry_and_the_settings_agree_on_names() -> None:
    for name, method in METHODS.items():
        assert method.Settings().name == name
        assert issubclass(method, Method)


def test_a_method_without_its_verbs_is_none() -> None:
    class Half(Method[None]):
        Settings = MethodSettings

        def score(self, words, gold=None) -> None:
            return None

    with pytest.raises(TypeError, match="candidates"):
        Half(MethodSettings(name="half"), None, 3, ["A"])


def test_gold_from_columns() -> None:
    gold = Gold.of(torch.tensor([[0, 1, 3, 2], [1, 0, 1, 0]]))
    assert (gold.sentence.tolist(), gold.start.tolist(), gold.end.tolist(), gold.type.tolist()) == (
        [0, 1],
        [1, 0],
        [3, 1],
        [2, 0],
    )
    assert Gold.of(torch.zeros(0, 4).long()).start.shape == (0,)


def test_settings_that_fit_nothing_stay_as_they_are() -> None:
    settings = MethodSettings(name="any")
    assert settings.fitted(LEARNT) is settings
    assert BoundarySmoothingSettings().fitted(LEARNT).widest == 1

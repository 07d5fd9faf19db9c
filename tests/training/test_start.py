"""Training that starts from a trained model."""

from itertools import islice

import pytest
import torch

import fencepost
from fencepost.config import Config
from fencepost.data import read
from fencepost.errors import UsageError
from fencepost.methods.registry import METHODS
from fencepost.runtime.loading import SHIPPED
from fencepost.runtime.pytorch import load_model
from fencepost.training import Start, train
from fencepost.training.start import extend_weights

SENTENCES = list(islice(read("sample:train"), 40))
OLD = [s.with_entities(e for e in s.entities if e.type in ("person", "place")) for s in SENTENCES]


def settings_of(method, epochs):
    return Config.parse(
        {
            "method": {"name": method},
            "encoder": {"name": "scratch", "lstm": {"size": 32, "dropout": 0.0}},
            "training": {"epochs": epochs, "batch_size": 8, "learning_rate": 0.005},
        }
    )


@pytest.fixture(scope="module", params=METHODS)
def trained(request, tmp_path_factory):
    """Folder of a model of two types, by each method."""
    folder = tmp_path_factory.mktemp("old") / "model"
    train(settings_of(request.param, 2), OLD, folder)
    return folder


def test_old_types_keep_their_weights_and_new_ones_are_added(trained, tmp_path):
    start = Start(trained, OLD[:10])
    old = load_model(trained)
    config = Config.compose(base=start.read_settings())
    new = start.build(config, SENTENCES)
    assert set(new.types) > set(old.types)
    places = [new.types.index(type_) for type_ in old.types]
    grown = 0
    for name, weight in old.state_dict().items():
        other = new.state_dict()[name]
        if weight.shape == other.shape:
            assert torch.equal(weight, other)
            continue
        [axis] = [one for one in range(weight.dim()) if weight.shape[one] != other.shape[one]]
        first = weight.shape[axis] - len(old.types)
        rows = [*range(first), *(first + place for place in places)]
        assert torch.equal(weight, other.index_select(axis, torch.tensor(rows)))
        grown += 1
    assert grown
    outcome = train(
        Config.compose(base=start.read_settings(), changes=["training.epochs=1"]),
        SENTENCES,
        tmp_path / "new",
        start=start,
    )
    assert outcome.forgetting["sentences"] == 10
    assert 0 <= outcome.forgetting["after"]["f1"] <= 1
    assert set(fencepost.load(tmp_path / "new").types) == set(new.types)


def test_training_continues_from_the_old_scores(tmp_path):
    config = settings_of("boundary-smoothing", 15)
    train(config, OLD, tmp_path / "old")
    start = Start(tmp_path / "old", OLD)
    changes = ["training.epochs=1", "training.learning_rate=1e-5", "training.encoder_learning_rate=1e-6"]
    again = train(
        Config.compose(base=start.read_settings(), changes=changes), OLD, tmp_path / "new", start=start
    )
    assert again.forgetting["before"]["f1"] > 0.5
    assert again.forgetting["after"]["f1"] == pytest.approx(again.forgetting["before"]["f1"], abs=0.02)


def test_python_api_starts_from_a_model_and_refuses_bad_ones(tmp_path):
    fencepost.train(OLD, tmp_path / "old", config=settings_of("boundary-smoothing", 1), quiet=True)
    outcome = fencepost.train(
        SENTENCES, tmp_path / "new", start=tmp_path / "old", old_test=OLD, epochs=1, quiet=True
    )
    assert outcome.forgetting is not None
    with pytest.raises(UsageError, match="the model in start has its own settings"):
        fencepost.train(SENTENCES, tmp_path / "x", start=tmp_path / "old", config={})
    with pytest.raises(UsageError, match="this model is of boundary-smoothing"):
        fencepost.train(SENTENCES, tmp_path / "x", start=tmp_path / "old", method="diffusion")
    with pytest.raises(UsageError, match="has graphs for prediction, but no weights"):
        fencepost.train(SENTENCES, tmp_path / "x", start=SHIPPED)
    with pytest.raises(UsageError, match="not a model folder"):
        fencepost.train(SENTENCES, tmp_path / "x", start=tmp_path / "none")
    with pytest.raises(UsageError, match="old_test needs start"):
        fencepost.train(SENTENCES, tmp_path / "x", old_test=OLD)


def test_refuses_settings_that_do_not_fit_the_weights(tmp_path):
    train(settings_of("boundary-smoothing", 1), OLD, tmp_path / "old")
    start = Start(tmp_path / "old")
    config = Config.compose(base=start.read_settings(), changes=["method.size=7"])
    with pytest.raises(UsageError, match="the weights do not fit these settings"):
        start.build(config, SENTENCES)


def test_resuming_needs_the_same_start(tmp_path):
    for name, seed in (("one", 1), ("two", 2)):
        config = settings_of("boundary-smoothing", 1)
        training = config.training.model_copy(update={"seed": seed})
        train(config.model_copy(update={"training": training}), OLD, tmp_path / name)

    def stop(*_):
        raise KeyboardInterrupt

    start = Start(tmp_path / "one")
    config = Config.compose(base=start.read_settings(), changes=["training.epochs=2"])
    with pytest.raises(KeyboardInterrupt):
        train(config, SENTENCES, tmp_path / "new", dev=SENTENCES[:5], start=start, after_epoch=stop)
    with pytest.raises(UsageError, match="started from another model"):
        train(
            config, SENTENCES, tmp_path / "new", dev=SENTENCES[:5], resume=True, start=Start(tmp_path / "two")
        )
    train(config, SENTENCES, tmp_path / "new", dev=SENTENCES[:5], resume=True, start=start)
    whole = train(config, SENTENCES, tmp_path / "whole", dev=SENTENCES[:5], start=start)
    resumed = load_model(tmp_path / "new").state_dict()
    assert all(torch.equal(weight, resumed[name]) for name, weight in whole.model.state_dict().items())


def test_weights_of_types_move_to_their_new_indices():
    old = {"u": torch.tensor([[0.0, 1, 2]]), "v": torch.tensor([10.0, 20]), "w": torch.ones(3)}
    new = {"u": torch.full((1, 5), -1.0), "v": torch.full((4,), -1.0), "w": torch.zeros(3)}
    weights = extend_weights(old, new, ["b", "d"], ["a", "b", "c", "d"])
    assert weights["u"].tolist() == [[0, -1, 1, -1, 2]]
    assert weights["v"].tolist() == [-1, 10, -1, 20]
    assert weights["w"].tolist() == [1, 1, 1]

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fencepost.analysis.epochs import read_records
from fencepost.data import read
from fencepost.data.entity import Sentence
from fencepost.errors import UsageError
from fencepost.evaluation import evaluate
from fencepost.methods.model import Model
from fencepost.runtime.pytorch import load_model
from fencepost.training import train
from fencepost.training.processes import choose_device, start_processes
from tests.methods.running import loss_of, predict
from tests.training.runs import (
    DEV,
    LEARNT,
    Plan,
    assert_same,
    config,
    elsewhere,
    metrics,
    result,
    run,
    same_weights,
    scripted,
    weights,
)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run with development and test data."""
    out = tmp_path_factory.mktemp("plain") / "model"
    run(out, test=DEV[:5])
    return out


def test_learns_the_training_data(tmp_path: Path) -> None:
    sentences = list(read("sample:train"))[:30]
    settings = config(
        {
            "method": {"size": 24, "dropout": 0, "epsilon": 0},
            "encoder": {"lstm": {"size": 32, "dropout": 0}, "scratch": {"word_size": 24, "word_dropout": 0}},
        },
        epochs=20,
        batch_size=4,
        learning_rate=0.03,
    )
    outcome = train(settings, sentences, tmp_path / "model", sentences)
    assert outcome.best is not None
    assert outcome.best["dev_f1"] > 0.9
    again = evaluate(sentences, predict(load_model(tmp_path / "model"), sentences))
    assert again.overall.f1 == outcome.best["dev_f1"]


# Reproducibility


def test_same_seed_gives_the_same_result_in_any_process(plain: Path, tmp_path: Path) -> None:
    settings = config()
    run(tmp_path / "here", settings, test=DEV[:5])
    assert_same(tmp_path / "here", plain)
    assert elsewhere(Plan(tmp_path / "there", {}, quiet=False)) == 0
    assert metrics(tmp_path / "there") == metrics(plain)
    assert same_weights(weights(tmp_path / "there"), weights(plain))
    run(tmp_path / "other", config(seed=2))
    assert metrics(tmp_path / "other") != metrics(plain)
    # a process prints one line for each epoch without a terminal, and its libraries print nothing
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[:2] for line in lines] == [["epoch", "1"], ["epoch", "2"], ["epoch", "3"]]


# The folder


def test_finished_run_has_exactly_these_files(plain: Path) -> None:
    assert {path.name for path in plain.iterdir()} == {
        "README.md",
        "SHA256SUMS",
        "config.json",
        "data.json",
        "metrics.json",
        "metrics.jsonl",
        "model.safetensors",
        "run.yaml",
        "tensorboard",
        "vocabulary.json",
    }


def test_records_have_steps_and_epochs(plain: Path) -> None:
    records = read_records(plain)
    assert [record["step"] for record in records] == [10, 12, 12, 20, 24, 24, 30, 36, 36]
    assert [record["epoch"] for record in records[2::3]] == [1, 2, 3]
    for record in records:
        if "dev_f1" in record:
            assert record.keys() == {
                "step",
                "epoch",
                *(f"dev_{name}" for name in ("loss", "precision", "recall", "f1", "ece", "seconds")),
                "dev_threshold",
                "dev_f1_default_threshold",
            }
        else:
            assert record.keys() == {"step", "epoch", "loss", "grad_norm", "encoder_rate", "head_rate"}


def test_result_has_epochs_best_epoch_and_test_scores(plain: Path) -> None:
    content = json.loads((plain / "metrics.json").read_text())
    epochs = [record for record in read_records(plain) if "dev_f1" in record]
    best = max(epochs, key=lambda record: record["dev_f1"])
    assert content["epochs"] == epochs
    assert content["dev"] == best
    assert content["kept_epoch"] == best["epoch"]
    test = evaluate(DEV[:5], predict(load_model(plain), DEV[:5]))
    assert content["test"] == json.loads(json.dumps(test.to_dict()))


def test_card_has_the_measured_scores(plain: Path, tmp_path: Path) -> None:
    card = (plain / "README.md").read_text()
    best = result(plain)["dev"]
    assert f"| development, epoch {best['epoch']:.0f} |" in card
    assert f"| {100 * best['dev_f1']:.1f} |" in card
    assert "| test | " in card
    assert "`boundary-smoothing`" in card
    assert "`scratch`" in card
    run(tmp_path / "model", config(epochs=1), dev=False)
    assert "has not been scored" in (tmp_path / "model" / "README.md").read_text()


def test_tensorboard_has_losses_and_scores(plain: Path) -> None:
    events = EventAccumulator(str(plain / "tensorboard"))
    events.Reload()
    losses = [(event.step, event.value) for event in events.Scalars("loss")]
    assert losses == [(r["step"], pytest.approx(r["loss"])) for r in read_records(plain) if "loss" in r]
    scores = [(event.step, event.value) for event in events.Scalars("dev_f1")]
    assert scores == [(r["step"], pytest.approx(r["dev_f1"])) for r in read_records(plain) if "dev_f1" in r]
    assert {"dev_loss", "head_rate", "encoder_rate", "grad_norm"} <= set(events.Tags()["scalars"])


def test_files_follow_the_umask_without_pickles(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run(tmp_path / "model", config(epochs=1))
    finally:
        os.umask(before)
    for path in (tmp_path / "model").rglob("*"):
        assert path.suffix not in {".pt", ".pth", ".bin", ".pkl"}
        if path.is_file():
            assert path.stat().st_mode & 0o777 == 0o640, path


# The best epoch


def test_keeps_the_epoch_with_the_best_development_f1(tmp_path: Path) -> None:
    one, other = tmp_path / "best", tmp_path / "short"
    with scripted(one, [0.1, 0.5, 0.3]):
        outcome = run(one)
    assert outcome.best is not None
    assert outcome.best["epoch"] == result(one)["kept_epoch"] == 2
    # the weights are those of that epoch: the loss on the development set is the same
    assert loss_of(load_model(one), DEV) == outcome.best["dev_loss"]
    assert same_weights(weights(one), outcome.model.state_dict())
    with scripted(other, [0.1, 0.5, 0.7]):
        run(other)
    assert result(other)["kept_epoch"] == 3
    assert not same_weights(weights(one), weights(other))


def test_saved_model_has_the_scores_of_its_best_epoch(plain: Path) -> None:
    scores = evaluate(DEV, predict(load_model(plain), DEV)).overall
    best = result(plain)["dev"]
    assert (scores.precision, scores.recall, scores.f1) == tuple(
        best[f"dev_{name}"] for name in ("precision", "recall", "f1")
    )


def test_earlier_epoch_wins_ties(tmp_path: Path) -> None:
    with scripted(tmp_path / "model", [0.2, 0.2, 0.2]):
        outcome = run(tmp_path / "model")
    assert outcome.best is not None
    assert outcome.best["epoch"] == result(tmp_path / "model")["kept_epoch"] == 1


def test_keeps_the_last_epoch_without_development_data(tmp_path: Path) -> None:
    outcome = run(tmp_path / "model", config(epochs=2), dev=False)
    assert (outcome.epochs, outcome.best, outcome.test) == ([], None, None)
    assert result(tmp_path / "model") == {
        "epochs": [],
        "kept_epoch": 2,
        "dev": None,
        "calibration": None,
        "test": None,
        "warnings": list(outcome.warnings),
    }
    assert same_weights(weights(tmp_path / "model"), outcome.model.state_dict())
    assert not outcome.model.training


def test_patience_ends_the_training(tmp_path: Path) -> None:
    scores = [0.1, 0.4, 0.4, 0.3, 0.9, 0.9]
    with scripted(tmp_path / "two", scores):
        outcome = run(tmp_path / "two", config(epochs=6, patience=2))
    assert [epoch["dev_f1"] for epoch in outcome.epochs] == scores[:4]
    assert result(tmp_path / "two")["kept_epoch"] == 2
    with scripted(tmp_path / "three", scores):
        outcome = run(tmp_path / "three", config(epochs=6, patience=3))
    assert [epoch["dev_f1"] for epoch in outcome.epochs] == scores
    assert result(tmp_path / "three")["kept_epoch"] == 5


# Settings


def test_accumulates_batches_to_a_step(tmp_path: Path) -> None:
    """12 batches make steps of 5, 5 and 2 batches."""
    run(tmp_path / "model", config(accumulate=5, epochs=2), dev=False)
    assert [record["step"] for record in metrics(tmp_path / "model")] == [3, 6]


def test_accumulated_batches_equal_one_large_batch(tmp_path: Path) -> None:
    """Without dropout, a step with one batch equals one with its four parts."""
    still = {
        "method": {"dropout": 0},
        "encoder": {"lstm": {"dropout": 0}, "scratch": {"word_dropout": 0}},
    }
    whole = config(still, epochs=2, batch_size=24)
    parts = config(still, epochs=2, batch_size=6, accumulate=4)
    run(tmp_path / "whole", whole, dev=False)
    run(tmp_path / "parts", parts, dev=False)
    for one, other in zip(metrics(tmp_path / "whole"), metrics(tmp_path / "parts"), strict=True):
        assert one == pytest.approx(other, rel=1e-4)


def test_bfloat16_training_saves_float32_weights(tmp_path: Path) -> None:
    changes = {"encoder": {"scratch": {"characters": "lstm"}}}  # LSTMs stay in float32
    settings = config(changes, precision="bfloat16", epochs=2)
    outcome = run(tmp_path / "half", settings)
    run(tmp_path / "whole", config(changes, epochs=2))
    half, whole = metrics(tmp_path / "half"), metrics(tmp_path / "whole")
    assert half[0]["loss"] != whole[0]["loss"]
    assert half[0]["loss"] == pytest.approx(whole[0]["loss"], rel=0.01)
    assert {tensor.dtype for tensor in weights(tmp_path / "half").values()} == {torch.float32}
    # the forward pass of the model is restored
    assert outcome.model.forward.__func__ is Model.forward


# Refusals


def test_refuses_a_folder_that_is_not_empty(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("do not lose me")
    with pytest.raises(UsageError, match=r"not an empty folder; give another name$"):
        run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    with pytest.raises(UsageError, match=r"not an empty folder; give another name$"):
        run(plain)
    with pytest.raises(UsageError, match=r"not an empty folder; give another name$"):
        run(tmp_path / "notes.txt")
    with pytest.raises(UsageError, match=r"cannot be written: Not a directory"):
        run(tmp_path / "notes.txt" / "model")


def test_uses_an_empty_folder_and_creates_missing_parents(tmp_path: Path) -> None:
    run(tmp_path, config(epochs=1), dev=False)
    run(tmp_path / "a" / "b", config(epochs=1), dev=False)
    assert (tmp_path / "a" / "b" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("sentences", "dev", "message"),
    [
        ([], None, "the training data has no sentences"),
        ([Sentence([])], None, "the training data has no sentences"),
        (LEARNT, [], "the development data has no sentences"),
        ([Sentence(["word"])], None, "has no entities: there is nothing to learn"),
    ],
)
def test_refused_data_creates_no_folder(
    sentences: list[Sentence], dev: list[Sentence] | None, message: str, tmp_path: Path
) -> None:
    """The same command must work when the data is corrected."""
    with pytest.raises(UsageError, match=message):
        train(config(), sentences, tmp_path / "model", dev)
    assert not (tmp_path / "model").exists()


def test_refused_settings_create_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be loaded"):
        run(tmp_path / "model", config({"encoder": {"name": str(tmp_path)}}))
    assert not (tmp_path / "model").exists()


def test_ignores_sentences_without_words(tmp_path: Path) -> None:
    empty = replace(LEARNT[0], words=(), entities=(), space_after=None)
    train(config(epochs=1), [empty, *LEARNT, empty], tmp_path / "model", [empty, *DEV, empty])
    run(tmp_path / "without", config(epochs=1))
    assert metrics(tmp_path / "model") == metrics(tmp_path / "without")


# Devices


def test_refuses_an_unavailable_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    with pytest.raises(UsageError, match=r"^the device cuda is not available; this machine has cpu$"):
        run(tmp_path / "model", device="cuda")
    assert not (tmp_path / "model").exists()


def test_trains_on_the_cpu_if_asked(plain: Path, tmp_path: Path) -> None:
    run(tmp_path / "model", test=DEV[:5], device="cpu")
    assert_same(tmp_path / "model", plain)


def test_one_process_uses_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    accelerator, device = start_processes("auto")
    assert (accelerator.num_processes, device.type) == (1, "cuda")
    assert choose_device("cuda") == device
    assert choose_device("cpu").type == "cpu"
    with pytest.raises(UsageError, match=r"^the device mps is not available; this machine has cpu and cuda$"):
        choose_device("mps")
    network = torch.nn.Linear(2, 2)
    assert accelerator.prepare_model(network) is network

"""`train`, `evaluate MODEL DATA` and `predict`, as a user runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import fencepost
from fencepost import Sentence
from fencepost.cli import app
from fencepost.cli.train import _describe_calibration
from fencepost.config import Config
from fencepost.data import ReadOptions, read, write
from fencepost.methods.registry import METHODS
from tests.cli.conftest import heed_ctrl_c

SMALL = [
    "--encoder",
    "scratch",
    "--set",
    "encoder.lstm.size=100",
    "--set",
    "method.size=30",
    "--set",
    "training.learning_rate=0.01",
    "--set",
    "encoder.lstm.dropout=0.1",
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A part of the sample corpus: 250 training, 40 development and 40 test sentences."""
    folder = tmp_path_factory.mktemp("data")
    for part, count in (("train", 250), ("dev", 40), ("test", 40)):
        write(islice(read(f"sample:{part}"), count), folder / f"{part}.jsonl")
    return folder


def test_refuses_standard_input_for_several_processes(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    result = CliRunner().invoke(app, ["train", "--train", "-", "--out", "m"])
    assert result.exit_code == 2
    assert "each process reads the data; give files" in result.stderr


@pytest.fixture(scope="module")
def trained(data):
    """Model folder, and the output of the command."""
    arguments = ["train", "--train", data / "train.jsonl", "--dev", data / "dev.jsonl"]
    arguments += ["--test", data / "test.jsonl", "--out", data / "model", "--epochs", "6", *SMALL]
    arguments += ["--batch-size", "8", "--seed", "3", "--json", data / "run.json"]
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return data / "model", result


def test_train_shows_epochs_and_test_scores_and_saves_all(trained, data):
    folder, result = trained
    assert "boundary-smoothing on scratch: 6 epochs over 250 sentences" in result.stderr
    assert sum(line.startswith("epoch ") for line in result.stderr.splitlines()) == 6
    assert "Development scores" in result.stdout
    assert "Strict scores on the test data" in result.stdout
    (line,) = re.findall(r"^calibration: .*", result.stdout, re.MULTILINE)
    numbers = r"temperature \d+\.\d\d, shift -?\d+\.\d\d; ECE on the development data 0\.\d{3} -> 0\.\d{3}"
    assert re.fullmatch(f"calibration: {numbers}", line)
    assert f"the model is in {folder}" in result.stdout
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.json", "model.safetensors", "metrics.json", "metrics.jsonl", "README.md"}
    assert not names & {"checkpoints"}
    content = json.loads((data / "run.json").read_text())
    assert content["settings"]["training"]["batch_size"] == 8
    assert content["settings"]["training"]["seed"] == 3
    assert len(content["epochs"]) == 6
    assert content["kept"]["dev_f1"] == max(epoch["dev_f1"] for epoch in content["epochs"]) > 0.3
    assert content["calibration"] == json.loads((folder / "metrics.json").read_text())["calibration"]
    assert content["test"]["support"] == sum(len(s.entities) for s in read(data / "test.jsonl"))


def test_explains_why_there_is_no_calibration():
    nothing = {"temperature": 1.0, "shift": 0.0, "dev_ece_before": None, "dev_ece_after": None}
    assert (
        _describe_calibration(nothing)
        == "calibration: none, because the model predicts no entities in the development data"
    )


def test_evaluate_equals_the_test_scores_of_training(run, trained, data):
    folder, _ = trained
    scores = json.loads(run("evaluate", folder, data / "test.jsonl", "--json").stdout)
    at_the_end = json.loads((folder / "metrics.json").read_text())["test"]
    for name in ("precision", "recall", "f1", "support", "by_type", "by_length"):
        assert scores[name] == at_the_end[name]
    assert scores["ece"] == pytest.approx(at_the_end["ece"])
    assert scores["sentences_per_second"] > 0
    assert scores["peak_memory_mb"] > 50
    assert scores["settings"]["encoder"]["name"] == "scratch"
    text = run("evaluate", folder, data / "test.jsonl").stdout
    assert "sentences per second" in text
    assert "peak memory" in text


def test_evaluate_agrees_with_the_files_of_predict(run, trained, data, tmp_path):
    folder, _ = trained
    out = tmp_path / "found.jsonl"
    result = run("predict", folder, "--input", data / "test.jsonl", "--output", out, "--to", "jsonl")
    assert "40 texts, 40 sentences, " in result.stderr
    direct = json.loads(run("evaluate", folder, data / "test.jsonl", "--json").stdout)
    files = run("evaluate", "--gold", data / "test.jsonl", "--predicted", out, "--json")
    assert json.loads(files.stdout)["f1"] == direct["f1"]
    assert json.loads(files.stdout)["ece"] == pytest.approx(direct["ece"])
    xml = tmp_path / "found.xml"
    run("predict", folder, "--input", data / "test.jsonl", "--output", xml, "--quiet")
    assert [s.words for s in read(xml)] == [s.words for s in read(out)]
    piped = run("predict", folder, "--input", data / "test.jsonl", "--output", "-", "--to", "jsonl", "-q")
    assert piped.stdout == out.read_text()


def test_predict_without_output_draws_up_to_the_limit(run, trained, data):
    folder, _ = trained
    text = run("predict", folder, "--input", data / "test.jsonl", "--limit", "2").stdout
    first, second, third = islice(read(data / "test.jsonl"), 3)
    assert first.words[0] in text
    assert second.words[0] in text
    assert " ".join(third.words[:4]) not in text
    assert "╰" in text


def test_only_prediction_settings_can_be_changed(run, trained, data, tmp_path):
    folder, _ = trained
    run("predict", folder, "--input", data / "test.jsonl", "--output", tmp_path / "flat.conll",
        "--set", "predict.select=flat")  # fmt: skip
    refused = run("predict", folder, "--input", data / "test.jsonl", "--output", tmp_path / "all.jsonl",
                  "--set", "method.epsilon=0", code=2)  # fmt: skip
    assert "only prediction settings of a trained model can be changed" in refused.stderr
    refused = run("evaluate", folder, data / "test.jsonl", "--set", "predict.selekt=flat", code=2)
    assert "did you mean predict.select?" in refused.stderr


def test_predictions_that_a_format_cannot_represent_need_an_option(run, trained, data, tmp_path):
    folder, _ = trained
    out = tmp_path / "out.conll"
    refused = run("predict", folder, "--input", data / "test.jsonl", "--output", out, code=2)
    assert "--overlaps" in refused.stderr
    assert not out.exists()
    skipped = run("predict", folder, "--input", data / "test.jsonl", "--output", out, "--skip-invalid")
    assert "sentences skipped: conll cannot represent them" in skipped.stderr
    assert 0 < len(list(read(out))) < 40
    best = ["predict", folder, "--input", data / "test.jsonl", "--output", out, "--overlaps", "best"]
    assert "already exists" in run(*best, code=2).stderr
    result = run(*best, "--force")
    assert "overlapping entities were dropped" in result.stderr
    assert "conll has no place for these fields, so the output lacks them: " in result.stderr
    assert "score" in result.stderr


def test_skip_invalid_skips_a_broken_sentence(run, trained, data, tmp_path):
    folder, _ = trained
    broken = tmp_path / "broken.jsonl"
    lines = (data / "test.jsonl").read_text().splitlines()[:6]
    broken.write_text("\n".join([*lines[:3], '{"words": ["a"], "entities": [{"start": 0', *lines[3:]]) + "\n")
    stopped = run("predict", folder, "--input", broken, "--output", tmp_path / "x.jsonl", code=2)
    assert f"{broken}:4: " in stopped.stderr
    result = run("predict", folder, "--input", broken, "--output", tmp_path / "x.jsonl", "--skip-invalid")
    assert f"{broken}:4: skipped" in result.stderr
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 6
    assert json.loads(run("evaluate", folder, broken, "--skip-invalid", "--json").stdout)["sentences"] == 6


def test_training_without_dev_says_that_it_keeps_the_last_epoch(run, data, tmp_path):
    result = run("train", "--train", data / "dev.jsonl", "--out", tmp_path / "m", "--epochs", 1, *SMALL)
    assert "the last epoch is kept" in result.stderr
    assert json.loads((tmp_path / "m" / "metrics.json").read_text())["dev"] is None
    assert "not been scored" in (tmp_path / "m" / "README.md").read_text()


def test_number_of_epochs_can_be_auto(run, data, tmp_path):
    few = tmp_path / "few.jsonl"
    few.write_text("".join((data / "dev.jsonl").read_text().splitlines(keepends=True)[:4]))
    options = ["train", "--train", few, "--out", tmp_path / "m", *SMALL, "--epochs"]
    refused = run(*options, "many", code=2)
    assert "training.epochs" in refused.stderr
    assert "or be auto" in refused.stderr
    result = run(*options, "auto")
    assert "60 epochs over 4 sentences" in result.stderr


def test_dev_share_holds_out_whole_documents(run, data, tmp_path):
    result = run("train", "--train", data / "train.jsonl", "--dev-share", 0.25, "--out", tmp_path / "m",
                 "--epochs", 1, *SMALL)  # fmt: skip
    training, development = map(
        int, re.search(r"over (\d+) sentences; the best epoch on (\d+) ", result.stderr).groups()
    )
    assert training + development == 250
    assert 62 <= development <= 70  # a quarter, and the rest of a document
    assert json.loads((tmp_path / "m" / "metrics.json").read_text())["dev"]["dev_f1"] >= 0


def test_help_names_every_method(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    text = run("train", "--help").stdout
    assert all(method in text for method in METHODS)


def test_show_config_prints_valid_yaml(run, tmp_path):
    text = run("train", "--set", "method.epsilon=0.3", "--epochs", 7, "--show-config").stdout
    assert yaml.safe_load(text)["method"]["epsilon"] == 0.3
    file = tmp_path / "config.yaml"
    file.write_text(text)
    again = run("train", "--config", file, "--set", "training.seed=9", "--show-config").stdout
    assert again == text.replace("seed: 1\n", "seed: 9\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--train", "sample:train"], "give the training data with --train and the folder"),
        (["--set", "training.epoch=3"], "did you mean training.epochs?"),
        (["--set", "method.epsilon=1.5"], "method.epsilon: should be less than 1, not 1.5"),
        (["--method", "boundary-smothing"], "did you mean boundary-smoothing?"),
        (["--config", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--train", "nowhere.conll", "--out", "m"], "nowhere.conll: cannot be read"),
        (
            ["--train", "sample:dev", "--dev", "sample:dev", "--dev-share", "0.1", "--out", "m"],
            "be used together",
        ),
        (["--train", "sample:dev", "--dev-share", "1.5", "--out", "m"], "between 0 and 1"),
        (["--train", "sample:dev", "--encoder", "no/such", "--out", "m"], "encoder.name: 'no/such' cannot"),
        (["--train", "sample:dev", "--out", "m", "--resume"], "there is no training run to resume here"),
        (["--train", "-", "--test", "-", "--out", "m"], "standard input can be read only once"),
    ],
)
def test_wrong_arguments_exit_with_2_and_a_message(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert message in run("train", *arguments, code=2).stderr


def test_reports_settings_and_types_without_effect(run, data, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text('{"words": ["Ada"], "entities": [{"start": 0, "end": 1, "type": "robot"}]}\n')
    messages = run("train", "--train", data / "dev.jsonl", "--test", other, "--out", tmp_path / "m",
               "--epochs", 1, *SMALL, "--set", "encoder.context=1", "--set", "training.patience=2",
               "--set", "encoder.features.pos=4").stderr  # fmt: skip
    for key in ("encoder.context", "training.patience", "encoder.features.pos"):
        assert f"{key} has no effect" in messages
    assert "types in the test data that are not in the training data: robot" in messages


def test_refuses_a_folder_that_is_not_empty(run, data, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    refused = run("train", "--train", data / "dev.jsonl", "--out", tmp_path, *SMALL, code=2)
    assert "not an empty folder" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["model"], ["model", "data", "--gold", "x"], ["--gold", "x"], ["m", "d", "--predicted", "x"]],
)
def test_evaluate_needs_a_model_and_data_or_two_files(run, arguments):
    assert "fencepost evaluate MODEL DATA" in run("evaluate", *arguments, code=2).stderr


def test_refuses_a_folder_without_a_model(run, data, tmp_path):
    assert "not a model folder" in run("evaluate", tmp_path, data / "test.jsonl", code=2).stderr
    refused = run("predict", tmp_path, "--input", data / "test.jsonl", "--output", "x.jsonl", code=2)
    assert "not a model folder" in refused.stderr


@pytest.mark.parametrize(
    "arguments", [["predict", "--input", "sample:test"], ["evaluate", "sample:test"]], ids=lambda a: a[0]
)
def test_names_missing_pytorch(trained, arguments):
    name, *others = arguments
    code = (
        "import sys; sys.modules['torch'] = None; from fencepost.cli import main; "
        f"sys.argv = ['fencepost', {name!r}, {str(trained[0])!r}, *{others!r}]; main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "pip install 'fencepost[train]'" in result.stderr


@pytest.mark.slow
def test_resumed_training_equals_an_uninterrupted_one(run, trained, data, tmp_path):
    folder, _ = trained
    out = tmp_path / "model"
    arguments = ["train", "--train", data / "train.jsonl", "--dev", data / "dev.jsonl"]
    arguments += ["--test", data / "test.jsonl", "--out", out, "--epochs", 6, *SMALL]
    arguments += ["--batch-size", 8, "--seed", 3]
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", *map(str, arguments)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=heed_ctrl_c,
    )
    deadline = time.monotonic() + 120
    while not any((out / "checkpoints").glob("*/trainer_state.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert "Traceback" not in messages
    assert "interrupted; continue with the same command and --resume" in messages
    assert "--resume" in run(*arguments, code=2).stderr
    run("train", "--train", data / "train.jsonl", "--dev", data / "dev.jsonl", "--test", data / "test.jsonl",
        "--out", out, "--resume")  # fmt: skip
    ended = [json.loads((path / "metrics.json").read_text())["test"] for path in (folder, out)]
    assert ended[0] == ended[1]


def test_language_option_sets_the_language_of_texts(run) -> None:
    assert "language: null" in run("train", "--show-config").stdout  # it is detected in the training data
    assert "language: de" in run("train", "--show-config", "--language", "de").stdout
    text = run("train", "--show-config", "--language", "de", "--set", "text.language=fr").stdout
    assert "language: de" in text  # the option overrides --set


def test_language_option_overrides_the_config(run, tmp_path) -> None:
    config = tmp_path / "german.yaml"
    config.write_text("text: {language: de}\n")
    assert "language: en" in run("train", "--show-config", "--language", "en", "--config", config).stdout
    assert "language: en" in run("train", "--show-config", "--language", "en").stdout
    assert "language: de" in run("train", "--show-config", "--config", config).stdout


def _write_contraction(folder: Path) -> Path:
    """Write a BRAT corpus whose only word is one by German and two by English rules."""
    folder.mkdir()
    (folder / "a.txt").write_text("can't")
    (folder / "a.ann").write_text("T1\tNOUN 0 5\tcan't\n")
    return folder


class _Stop(Exception):
    """Exception that ends a command after its arguments are known."""


@pytest.mark.parametrize(
    ("more", "language", "words"),
    [
        ((), None, 2),
        (("--language", "en"), "en", 2),
        (("--language", "de"), "de", 1),
        (("--set", "text.language=de"), "de", 1),
        (("--set", "text.language=de", "--language", "en"), "en", 2),
    ],
)
@pytest.mark.parametrize("command", ["train", "sweep", "tune"])
def test_corpus_and_texts_are_split_with_the_same_language(
    run, tmp_path, monkeypatch, command, more, language, words
) -> None:
    """The language comes from the option or from the settings."""
    values = {}

    def see(sentences: Sequence[Sentence], settings: Config) -> None:
        values.update(words=len(sentences[0]), language=settings.text.language)
        raise _Stop

    monkeypatch.setattr(
        "fencepost.training.train", lambda settings, sentences, *_, **__: see(sentences, settings)
    )
    monkeypatch.setattr(
        "fencepost.experiments.sweep.Sweep",
        lambda _, settings, __, data, **___: see(data.train, next(iter(settings.values()))),
    )
    monkeypatch.setattr(
        "fencepost.experiments.tuning.Tuning", lambda _, settings, __, data, **___: see(data.train, settings)
    )
    corpus = _write_contraction(tmp_path / "corpus")
    with pytest.raises(_Stop):
        run(command, "--train", corpus, "--dev", corpus, "--out", tmp_path / "out", *more)
    assert values == {"words": words, "language": language}


def test_python_api_uses_the_reading_language_for_texts(tmp_path, monkeypatch) -> None:
    calls = []
    monkeypatch.setattr(
        "fencepost.training.train", lambda settings, sentences, *_, **__: calls.append((settings, sentences))
    )
    corpus = _write_contraction(tmp_path / "corpus")
    fencepost.train(corpus, tmp_path / "out", options=ReadOptions(language="de"))
    fencepost.train(corpus, tmp_path / "out", config={"text": {"language": "de"}})
    assert [(settings.text.language, len(sentences[0])) for settings, sentences in calls] == [("de", 1)] * 2

"""Tunings: pruned, killed and resumed, with trials that fail. Most trials are simulated."""

from __future__ import annotations

import csv
import gc
import json
import multiprocessing
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import optuna
import pytest
import torch

from fencepost.config import Config
from fencepost.data.output import WriteError
from fencepost.errors import DataError, FencepostError, UsageError
from fencepost.experiments import trials as trials_module
from fencepost.experiments import tuning as tuning_module
from fencepost.experiments import tuning_study as study_module
from fencepost.experiments import workers
from fencepost.experiments.tuning import Data, TrialPruned, TrialRecord, Tuning
from fencepost.experiments.tuning_space import (
    Choices,
    Range,
    Space,
    change_config,
    dump_space,
    dump_space_yaml,
    make_default_space,
    parse_searches,
    parse_space,
    read_space,
)
from fencepost.methods.registry import METHODS
from fencepost.training import train
from fencepost.training.run import AfterEpoch
from fencepost.training.trainer import Diverged
from tests.limits import file_size_limit
from tests.training.runs import DEV, LEARNT, STEPS, before_step, config, die, result, run, scripted

DATA = Data(LEARNT, DEV)
LITTLE = {"epochs": 2, "learning_rate": 0.001}
ALL_SPANS = {"predict": {"threshold": 0.0}}  # so that some are correct by chance
SEARCHED = ["training.learning_rate=1e-4..1e-2:log", "method.epsilon=0,0.1,0.2"]


def space(*options: str, settings: Config | None = None) -> Space:
    return parse_space(parse_searches(options or SEARCHED), settings or config())


def tuning(out: Path, settings: Config | None = None, of: Space | None = None, **more: Any) -> Tuning:
    settings = settings or config(ALL_SPANS, **LITTLE)
    return Tuning(out, settings, of or space(settings=settings), more.pop("data", DATA), **more)


def go(whole: Tuning, trials: int, **more: Any) -> list[TrialRecord]:
    with whole:
        return list(whole.run(trials, **more))


def timeless(trials: list[TrialRecord]) -> list[tuple[Any, ...]]:
    return [(one.number, one.state, one.values, one.by_epoch, one.failure) for one in trials]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write studies without waiting for the disk."""

    def connect(path: Path) -> sqlite3.Connection:
        connection = sqlite3.Connection(path)
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    monkeypatch.setattr(study_module.sqlite3, "connect", connect)


# The space


def test_search_options_are_parsed() -> None:
    domains = space(
        "training.learning_rate=1e-4..1e-2:log",
        "training.warmup=0..0.4:0.1",
        "training.batch_size=2..8",
        "encoder.lstm.size=8..32:8",
        "training.patience=null,3",
        "training.schedule=linear,cosine",
        "encoder.name=../a,../b",
    )
    assert domains == {
        "training.learning_rate": Range(1e-4, 1e-2, log=True),
        "training.warmup": Range(0.0, 0.4, step=0.1),
        "training.batch_size": Range(2, 8),
        "encoder.lstm.size": Range(8, 32, step=8),
        "training.patience": Choices((None, 3)),
        "training.schedule": Choices(("linear", "cosine")),
        "encoder.name": Choices(("../a", "../b")),
    }
    assert isinstance(domains["training.batch_size"].to_tree()["low"], int)  # type: ignore[call-overload]


def test_space_file_equals_options_and_its_own_dump(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(
        "training.learning_rate: {low: 1e-4, high: 1e-2, log: true}\n"  # text in YAML
        "method.epsilon: [0, 1e-1, 0.2]\n"
    )
    domains = parse_space(read_space(path), config())
    assert domains == space()
    path.write_text(dump_space_yaml(domains))
    assert path.read_text().splitlines() == [
        "training.learning_rate: {low: 0.0001, high: 0.01, log: true}",
        "method.epsilon: [0.0, 0.1, 0.2]",
    ]
    assert parse_space(read_space(path), config()) == domains


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("encoder", ["minilm", "scratch"])
def test_each_method_has_a_default_space(method: str, encoder: str) -> None:
    settings = Config.compose(changes=[f"method.name={method}", f"encoder.name={encoder}"])
    domains = parse_space(make_default_space(settings), settings)
    assert ("training.encoder_learning_rate" in domains) == (encoder == "minilm")
    assert [key for key in domains if key.startswith("method.")] == [
        f"method.{key}" for key in METHODS[method].settings.searched
    ]
    assert METHODS[method].settings.searched
    for key, domain in domains.items():  # so that the first trial can have the given settings
        value: Any = settings.model_dump(mode="json")
        for part in key.split("."):
            value = value[part]
        assert domain.contains(value) or (key, value) == ("training.encoder_learning_rate", "auto"), key


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training.learning_rat=1..2", "no such key; did you mean training.learning_rate"),
        ("training.learning_rate=0..1:log", "training.learning_rate: should be greater than 0, not 0.0"),
        ("method.epsilon=0.5..1", "method.epsilon: should be less than 1, not 1.0"),
        ("method.epsilon=0,0.5,1", "method.epsilon: should be less than 1, not 1"),
        ("method.epsilon=0.1,0.10", r"method.epsilon: the value 0.1 is given twice"),
        ("method.epsilon=0..0.2:log", "with log, low must be above 0"),
        ("method.epsilon=0.2..0.1", "low must be below high, but 0.2 is not below 0.1"),
        ("encoder.lstm.size=8..32", "encoder.lstm.size: should be a multiple of 2, not 9"),
        ("training.warmup=0..0.5:0.15", "0.5 - 0.0 is not a multiple of 0.15"),
        ("training.epochs=1..5:0.5", "step must be an integer, as the setting is, not '0.5'"),
        ("training.epochs=1..5:0", "step must be a number above 0"),
        ("training.epochs=1..2.5", "training.epochs: should be a valid integer"),
        ("training.schedule=linear,cosin", "should be 'linear', 'cosine' or 'constant', not 'cosin'"),
        ("encoder.features.train_vectors=0..1", "this setting is not a number; give a list of values"),
        ("training.epochs=3", "one value is nothing to search; write a range as LOW..HIGH"),
        ("training.epochs", "write a range as LOW..HIGH"),
        ("method.epsilon=[,2", "a value is not valid YAML"),
        ("training.seed=1,2", "cannot be searched: the best seed is chance"),
        ("method.name=diffusion,boundary-offset", "use fencepost sweep"),
        ("method=1..2", r"method: should be a mapping \(keys: name, "),
    ],
)
def test_refuses_invalid_search_options(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        space(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a search space maps keys to ranges or lists"),
        ("[1]", "a search space maps keys"),
        ("x: [", r"space.yaml:\d: this is not valid YAML"),
        ("training: {learning_rate: {low: 1, high: 2}}", "write keys in full"),
        ("training.epochs: {low: 1}", "give a range, as {low: 0.1, high: 0.5}"),
        ("training.epochs: {low: 1, high: 2, log: maybe}", "log must be true or false, not 'maybe'"),
        ("training.epochs: {low: 1, high: 3, log: true, step: 2}", "log and step cannot be combined"),
        ("training.epochs: [1]", "a list needs at least two values"),
        ("training..epochs: [1, 2]", "not a key"),
    ],
)
def test_refuses_invalid_space_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text)
    with pytest.raises((UsageError, DataError), match=message):
        parse_space(read_space(path), config())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"\xff", r"this file is not UTF-8 \(at byte 0\)"),
        (b"#" * (1 << 20) + b"#", "more than 1,048,576 bytes"),
        (b"[" * 5_000, "this is not valid YAML: .{1,200}$"),
    ],
)
def test_refuses_files_without_a_search_space(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_space(path)


def test_numbers_are_rounded_within_their_range() -> None:
    assert Range(1e-5, 1e-3, log=True).decode(0.000123456) == 0.0001235
    assert Range(0.0, 0.3).decode(0.123456) == 0.1235
    assert Range(0.12343, 0.3).decode(0.123432) == 0.12343
    assert Range(0.0, 0.5, step=0.1).decode(0.1 * 3) == 0.3
    assert Range(10_000.5, 10_002.5, step=0.5).decode(10_001.5) == 10_001.5
    assert Range(1, 5).decode(3.0) == 3


# Trials that are trained


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an uninterrupted tuning of 3 trials."""
    out = tmp_path_factory.mktemp("whole") / "tuning"
    go(tuning(out), 3)
    return out


def results(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "tuning.json").read_text())
    return content


def test_tuning_writes_results_models_and_tables(whole: Path) -> None:
    content = results(whole)
    trials = content["trials"]
    assert [one["state"] for one in trials] == ["complete"] * 3
    assert trials[0]["values"] == {"training.learning_rate": 0.001, "method.epsilon": 0.1}  # as they are
    assert len({one["values"]["training.learning_rate"] for one in trials}) == 3
    assert all(1e-4 <= one["values"]["training.learning_rate"] <= 1e-2 for one in trials)
    best = max(trials, key=lambda one: one["dev_f1"])
    assert content["best"] == {
        "trial": best["trial"],
        "dev_f1": best["dev_f1"],
        "values": best["values"],
        "config": "best.yaml",
        "model": f"trials/{best['trial']:04}",
    }
    for one in trials:
        folder = whole / "trials" / f"{one['trial']:04}"
        scores = [epoch["dev_f1"] for epoch in result(folder)["epochs"]]
        assert one["dev_f1_by_epoch"] == scores
        assert one["dev_f1"] == max(scores)
        assert (folder / "model.safetensors").exists() == (one is best)
        assert not (folder / "checkpoints").exists()
        assert Config.compose(folder / "run.yaml") == change_config(
            config(ALL_SPANS, **LITTLE), one["values"]
        )
    assert content["importance"] is None
    assert content["no_importance"] == "it needs 4 complete trials, but there are 3"
    with (whole / "trials.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [float(row["dev_f1"]) for row in rows] == [one["dev_f1"] for one in trials]
    assert [float(row["method.epsilon"]) for row in rows] == [
        one["values"]["method.epsilon"] for one in trials
    ]


def test_best_settings_reproduce_the_best_score(whole: Path, tmp_path: Path) -> None:
    best = results(whole)["best"]
    outcome = train(Config.compose(whole / "best.yaml"), LEARNT, tmp_path / "model", DEV)
    assert outcome.best is not None
    assert outcome.best["dev_f1"] == best["dev_f1"] > 0


def test_only_the_best_trial_is_scored_on_the_test_data(whole: Path) -> None:
    tested = tuning(whole, data=Data(LEARNT, DEV, DEV))
    with patch.object(tuning_module, "load", wraps=tuning_module.load) as load, tested as t:
        assert list(t.run(3)) == []
        scores = t.score()
    assert scores is not None
    load.assert_called_once_with(whole / results(whole)["best"]["model"], engine="pytorch")
    assert scores.overall.f1 == results(whole)["best"]["dev_f1"]  # it is the same data here
    assert results(whole)["test"]["f1"] == scores.overall.f1


def _search_and_die(out: Path, step: int) -> None:
    torch.set_num_threads(1)
    gc.freeze()
    with before_step(step, die):
        go(tuning(out), 2)


def test_resumes_a_killed_trial_from_its_checkpoint(whole: Path, tmp_path: Path) -> None:
    """The kill is in the second epoch of the first trial."""
    out = tmp_path / "tuning"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fencepost.training", "torch.utils.tensorboard"])
    process = context.Process(target=_search_and_die, args=(out, STEPS + 3))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with tuning(out) as broken_off:
        (running,) = broken_off.trials
    assert (running.state, list(running.by_epoch)) == ("running", [1])
    with patch.object(trials_module, "train", wraps=train) as spy:
        assert [trial.number for trial in go(tuning(out), 2)] == [0, 1]
    assert [call.kwargs["resume"] for call in spy.mock_calls] == [True, False]
    with tuning(out) as one, tuning(whole) as other:
        assert timeless(one.trials) == timeless(other.trials)[:2]


@pytest.mark.parametrize("complete", [True, False])
def test_resumes_after_a_kill_at_the_start_or_end_of_a_training(complete: bool, tmp_path: Path) -> None:
    settings = config(epochs=1, learning_rate=0.001)
    folder = tmp_path / "tuning" / "trials" / "0000"
    with tuning(tmp_path / "tuning", settings) as killed:
        assert killed.study.start_trial() is not None
    if complete:
        run(folder, settings)
    else:
        folder.mkdir(parents=True)
        (folder / "data.json").write_text("{")
    with patch.object(trials_module, "train", wraps=train) as spy:
        (trial,) = go(tuning(tmp_path / "tuning", settings), 1)
    assert spy.call_count == (not complete)
    assert trial.state == "complete"
    assert trial.by_epoch == {1: result(folder)["dev"]["dev_f1"]}


def test_after_epoch_gets_scores_and_can_stop_a_training(tmp_path: Path) -> None:
    epochs = []

    def hook(epoch: int, f1: float) -> None:
        epochs.append((epoch, f1))
        if epoch == 2:
            raise TrialPruned

    with scripted(tmp_path, [0.1, 0.3, 0.2]), pytest.raises(TrialPruned):
        run(tmp_path, after_epoch=hook)
    assert epochs == [(1, 0.1), (2, 0.3)]
    assert not (tmp_path / "metrics.json").exists()
    run(tmp_path, resume=True)
    assert len(result(tmp_path)["epochs"]) == 3


# Simulated trials

Play = Callable[[Config, int], float]


@contextmanager
def played(f1: Play) -> Iterator[list[Config]]:
    """Replace training by a function of the development F1, and collect the settings of all trials."""
    configs: list[Config] = []

    def fake(config: Config, *_: Any, after_epoch: AfterEpoch, **__: Any) -> None:
        configs.append(config)
        for epoch in range(1, config.training.epochs + 1):
            after_epoch(epoch, f1(config, epoch))

    with patch.object(trials_module, "train", fake), patch.object(workers.gc, "collect"):
        yield configs


def by_rate(config: Config, epoch: int) -> float:
    """Return an F1 that depends only on the learning rate and the epoch, and increases with both."""
    return min(1.0, 50 * config.training.learning_rate) * (1 - 0.5**epoch)


def test_trials_below_the_median_are_pruned(tmp_path: Path) -> None:
    settings = config(epochs=4)
    with played(by_rate):
        trials = go(tuning(tmp_path, settings), 12)
    assert {one.state for one in trials} == {"complete", "pruned"}
    for one in trials:
        before = [other for other in trials[: one.number] if other.state == "complete"]
        expected = 4
        if len(before) >= 5:
            for epoch in (2, 3):  # the first quarter is never pruned, and the last epoch is the end anyway
                others = sorted(other.by_epoch[epoch] for other in before)
                middle = (others[(len(others) - 1) // 2] + others[len(others) // 2]) / 2
                if max(list(one.by_epoch.values())[:epoch]) < middle:
                    expected = epoch
                    break
        assert (len(one.by_epoch), one.state) == (expected, "complete" if expected == 4 else "pruned")
    assert results(tmp_path)["best"]["dev_f1"] == max(one.f1 or 0 for one in trials)


def test_pruner_none_completes_all_trials(tmp_path: Path) -> None:
    with played(by_rate):
        trials = go(tuning(tmp_path, config(epochs=4), pruner="none"), 8)
    assert {one.state for one in trials} == {"complete"}
    with pytest.raises(UsageError, match="there is no pruner 'medium'; did you mean median"):
        tuning(tmp_path, pruner="medium")


def test_search_depends_on_seed_and_scores(tmp_path: Path) -> None:
    """The scores have an effect only after the first, random trials."""
    rates = {}
    plays: dict[str, tuple[int, Play]] = {
        "one": (1, by_rate),
        "same": (1, by_rate),
        "other seed": (2, by_rate),
        "other scores": (1, lambda config, epoch: 1 - by_rate(config, epoch)),
    }
    for name, (seed, play) in plays.items():
        with played(play) as configs:
            go(tuning(tmp_path / name, config(seed=seed, epochs=1), startup_trials=3), 6)
        rates[name] = [settings.training.learning_rate for settings in configs]
        assert {settings.training.seed for settings in configs} == {seed}
    assert rates["one"] == rates["same"]
    assert not set(rates["one"][1:]) & set(rates["other seed"][1:])
    assert rates["one"][:3] == rates["other scores"][:3]
    assert rates["one"][3:] != rates["other scores"][3:]


class Killed(BaseException):
    """Exception like a kill: no code handles it."""


def test_interrupted_search_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    few = config(epochs=2)
    with played(by_rate):
        undisturbed = go(tuning(tmp_path / "undisturbed", few), 8)
    calls = 0

    def disturbed(config: Config, epoch: int) -> float:
        nonlocal calls
        calls += 1
        if calls in (4, 8, 14):
            raise Killed if calls == 8 else KeyboardInterrupt
        return by_rate(config, epoch)

    times = 0
    with played(disturbed):
        while True:
            times += 1
            try:
                go(tuning(tmp_path / "disturbed", few), 8)
            except (Killed, KeyboardInterrupt):
                continue
            break
    assert times == 4
    with tuning(tmp_path / "disturbed", few) as again:
        assert timeless(again.trials) == timeless(undisturbed)


@pytest.mark.parametrize("killed_at", [4, 6])  # of three trials with two values each: at random, and by TPE
def test_trial_killed_between_two_values_draws_the_same(
    killed_at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = space("training.learning_rate=1e-4..1e-2:log", "method.epsilon=0..0.3")

    def of(name: str) -> Tuning:
        return tuning(tmp_path / name, of=ranges, startup_trials=2)

    with played(by_rate):
        undisturbed = go(of("undisturbed"), 3)
        suggest, calls = optuna.Trial._suggest, 0

        def suggest_some(*arguments: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == killed_at:
                raise Killed
            return suggest(*arguments)

        monkeypatch.setattr(optuna.Trial, "_suggest", suggest_some)
        with pytest.raises(Killed):
            go(of("disturbed"), 3)
        go(of("disturbed"), 3)
    with of("disturbed") as again:
        assert timeless(again.trials) == timeless(undisturbed)


def test_same_folder_continues_with_more_trials(tmp_path: Path) -> None:
    with played(by_rate):
        assert len(go(tuning(tmp_path), 3)) == 3
        assert [one.number for one in go(tuning(tmp_path), 5)] == [3, 4]
        assert go(tuning(tmp_path), 5) == []
        assert go(tuning(tmp_path), 6, minutes=0) == []


def test_trial_that_kills_its_process_3_times_fails(tmp_path: Path) -> None:
    def deadly(config: Config, epoch: int) -> float:
        if config.training.learning_rate == 0.001:
            raise Killed
        return by_rate(config, epoch)

    with played(deadly):
        for _ in range(3):
            with pytest.raises(Killed):
                go(tuning(tmp_path), 3)
        assert [one.number for one in go(tuning(tmp_path), 3)] == [1, 2]
    first = results(tmp_path)["trials"][0]
    assert (first["state"], first["failure"]) == (
        "failed",
        "its process was killed 3 times, perhaps because it ran out of memory",
    )


def test_equal_values_are_not_trained_twice(tmp_path: Path) -> None:
    few = space("method.epsilon=0,0.1,0.2")
    with played(lambda config, _: 0.5 + config.method.epsilon) as configs:  # type: ignore[attr-defined]
        trials = go(tuning(tmp_path, of=few), 8)
    assert len(configs) == len({settings.method.epsilon for settings in configs}) <= 3  # type: ignore[attr-defined]
    assert len(trials) == 8
    for one in trials:
        assert one.f1 == pytest.approx(0.5 + one.values["method.epsilon"])
        if one.same_as is not None:
            assert trials[one.same_as].values == one.values
            assert trials[one.same_as].same_as is None
    best = results(tmp_path)["best"]["trial"]
    assert trials[best].same_as is None  # the trial that has the model


# Failures


def failing(*numbers: int) -> tuple[Play, list[Exception]]:
    """Return a function that fails in trials with these numbers, with varying errors."""
    errors = [
        Diverged("the loss is no number at step 3: the training diverges. The model is in a. Lower the rate"),
        ZeroDivisionError("by hand"),
        FencepostError("there is not enough memory"),
    ]
    count = 0

    def play(config: Config, epoch: int) -> float:
        nonlocal count
        if epoch == 1:
            count += 1
        if count - 1 in numbers and epoch == 2:
            raise errors[numbers.index(count - 1) % 3]
        return by_rate(config, epoch)

    return play, errors


def test_failed_trial_does_not_affect_others(tmp_path: Path) -> None:
    with played(failing(0, 1, 3)[0]):
        trials = go(tuning(tmp_path), 5)
    assert [one.state for one in trials] == ["failed", "failed", "complete", "failed", "complete"]
    assert [one.failure for one in trials] == [
        "the loss is no number at step 3: the training diverges",
        "ZeroDivisionError: by hand",
        None,
        "there is not enough memory",
        None,
    ]
    assert "Traceback" in (tmp_path / "trials" / "0001.error.txt").read_text()
    assert len(list((tmp_path / "trials").glob("*.error.txt"))) == 1
    assert results(tmp_path)["best"]["trial"] in (2, 4)


def test_full_disk_stops_the_search_without_a_failed_trial(tmp_path: Path) -> None:
    """The same command resumes with the same trial."""

    def full(config: Config, epoch: int) -> float:
        if epoch == 2:
            raise WriteError("model.safetensors: cannot be written: No space left on device")
        return by_rate(config, epoch)

    for _ in range(4):
        with played(full), pytest.raises(WriteError, match="No space left"):
            go(tuning(tmp_path / "resumed"), 2)
    with played(by_rate):
        resumed = go(tuning(tmp_path / "resumed"), 2)
        assert timeless(resumed) == timeless(go(tuning(tmp_path / "undisturbed"), 2))
    assert [one.state for one in resumed] == ["complete", "complete"]


def test_reports_a_study_that_cannot_be_written(tmp_path: Path) -> None:
    with played(by_rate):
        go(tuning(tmp_path), 1)
        with (
            file_size_limit(50_000),
            pytest.raises(WriteError, match=r"study.db: the study cannot be"),
        ):
            go(tuning(tmp_path), 3)
        assert [one.state for one in go(tuning(tmp_path), 3)] == ["complete", "complete"]


def test_three_failed_trials_in_a_row_end_the_search(tmp_path: Path) -> None:
    play, _ = failing(1, 2, 3)
    with (
        played(play),
        pytest.raises(FencepostError, match="the search ends because the last 3 trials failed"),
    ):
        go(tuning(tmp_path), 6)
    assert [one["state"] for one in results(tmp_path)["trials"]] == ["complete", *["failed"] * 3]
    assert (tmp_path / "best.yaml").is_file()
    with played(by_rate):
        assert len(go(tuning(tmp_path), 6)) == 2


def test_all_failed_trials_are_reported(tmp_path: Path) -> None:
    with (
        played(failing(0, 1)[0]),
        pytest.raises(
            FencepostError, match=r"no trial is complete; error of the last one \(1\): .*ZeroDivision"
        ),
    ):
        go(tuning(tmp_path), 2)
    assert not (tmp_path / "best.yaml").exists()
    assert results(tmp_path)["best"] is None


def test_incompatible_values_fail_their_trial(tmp_path: Path) -> None:
    settings = Config.compose(changes=["method.name=diffusion", "encoder.name=scratch", "training.epochs=1"])
    of = space("method.size=8,128", "method.heads=4,16", settings=settings)
    with played(by_rate):
        trials = go(tuning(tmp_path, settings, of), 5)
    for one in trials:
        together = one.values["method.size"] % one.values["method.heads"] == 0
        assert (one.failure is None) == together
    assert "size should be a multiple of heads" in str([one.failure for one in trials])


# Importance


def test_importance_finds_the_relevant_setting(tmp_path: Path) -> None:
    of = space("training.learning_rate=1e-4..1e-2:log", "training.warmup=0..0.5", "method.epsilon=0,0.1")
    with played(by_rate):
        go(tuning(tmp_path, config(epochs=1), of, startup_trials=20), 20)
    importance = results(tmp_path)["importance"]
    assert next(iter(importance)) == "training.learning_rate"
    assert importance["training.learning_rate"] > 0.5
    assert list(importance.values()) == sorted(importance.values(), reverse=True)
    assert sum(importance.values()) == pytest.approx(1)


def test_explains_why_there_is_no_importance(tmp_path: Path) -> None:
    with played(lambda *_: 0.5):
        go(tuning(tmp_path / "same", config(epochs=1)), 4)
    with played(by_rate):
        go(tuning(tmp_path / "one", config(epochs=1), space("training.learning_rate=1e-3..1e-2")), 4)
    assert results(tmp_path / "same")["no_importance"] == "all complete trials have the same development F1"
    assert results(tmp_path / "one")["no_importance"].startswith("only one setting is searched")


# Refusals


def test_refuses_another_study(tmp_path: Path) -> None:
    with played(by_rate):
        go(tuning(tmp_path), 1)
    for other, message in (
        (tuning(tmp_path, config(epochs=4)), "training.epochs is 2 there and 4 here"),
        (
            tuning(tmp_path, config(ALL_SPANS, **LITTLE, seed=5)),
            "training.seed is 1 there and 5 here; the search's seed",
        ),
        (
            tuning(tmp_path, of=space("method.epsilon=0,0.1")),
            r"method.epsilon is \[0.0, 0.1, 0.2\] there and",
        ),
        (
            tuning(tmp_path, of=space("method.epsilon=0,0.1")),
            "training.learning_rate is .*there and not here",
        ),
        (tuning(tmp_path, pruner="none"), 'the search\'s pruner is "median" there and "none" here'),
        (tuning(tmp_path, data=Data(LEARNT[1:], DEV)), "it has other training data"),
        (tuning(tmp_path, data=Data(LEARNT, DEV[1:])), "it has other development data"),
    ):
        with pytest.raises(UsageError, match=rf"contains another study; .*{message}"):
            go(other, 2)
    assert [one["trial"] for one in results(tmp_path)["trials"]] == [0]


def test_refuses_two_tunings_in_one_folder(tmp_path: Path) -> None:
    with played(by_rate), tuning(tmp_path) as first:
        next(first.run(2))
        with pytest.raises(UsageError, match="another tuning is running in this folder"):
            go(tuning(tmp_path), 2)
    with played(by_rate):
        assert len(go(tuning(tmp_path), 2)) == 1


def test_refuses_unsuitable_folders(tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("years")
    with pytest.raises(UsageError, match="thesis: already exists and is not a study"):
        go(tuning(tmp_path / "thesis"), 1)
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["thesis.tex"]
    with pytest.raises(UsageError, match="cannot be read: Not a directory"):
        go(tuning(tmp_path / "thesis" / "thesis.tex"), 1)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "study.db").write_text("years " * 1000)
    with pytest.raises(UsageError, match=r"study.db: cannot be read as a study \(file is not a database"):
        go(tuning(tmp_path / "broken"), 1)
    with played(by_rate):  # characters with a meaning in a URL
        assert go(tuning(tmp_path / "a{b}?c=%20#d e"), 1)


def test_needs_development_data_and_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="tuning needs development data"):
        tuning(tmp_path, data=Data(LEARNT))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="runs in one process"):
        tuning(tmp_path)


def test_all_models_can_be_kept(tmp_path: Path) -> None:
    settings = config(epochs=1, learning_rate=0.001)
    go(tuning(tmp_path, settings, keep_models=True), 2)
    assert len(list(tmp_path.glob("trials/*/model.safetensors"))) == 2
    go(tuning(tmp_path, settings), 2)
    assert len(list(tmp_path.glob("trials/*/model.safetensors"))) == 1


def test_results_have_the_space_in_the_file_format(whole: Path) -> None:
    assert (
        results(whole)["space"]
        == dump_space(space())
        == {
            "training.learning_rate": {"low": 0.0001, "high": 0.01, "log": True},
            "method.epsilon": [0.0, 0.1, 0.2],
        }
    )

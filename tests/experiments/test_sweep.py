"""Sweeps: killed and resumed, in several processes, with runs that fail."""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from fencepost.config import Config
from fencepost.data.output import WriteError
from fencepost.errors import DataError, FencepostError, UsageError
from fencepost.experiments import sweep as sweep_module
from fencepost.experiments import trials, workers
from fencepost.experiments.sweep import Data, GridCell, Sweep, Trial, make_cells
from fencepost.experiments.variants import sample_share
from fencepost.experiments.workers import TaskResult, run_in_processes
from fencepost.training import train
from tests.training.runs import DEV, LEARNT, assert_same, before_step, config, die, timeless

DATA = Data(LEARNT, DEV, DEV[:6])
LITTLE = {"epochs": 1, "learning_rate": 0.001}
ALL_SPANS = {"predict": {"threshold": 0.0}}  # so that some are correct by chance
TREE = config(ALL_SPANS, **LITTLE).model_dump(mode="json")
EPSILONS = make_cells(["method.epsilon=0,0.3"])


def settings_of(cells: list[GridCell]) -> dict[GridCell, Config]:
    return {cell: Config.compose(changes=cell.changes, base=TREE) for cell in cells}


def swept(out: Path, cells: list[GridCell] = EPSILONS, seeds: int = 2, **more: Any) -> Sweep:
    return Sweep(out, settings_of(cells), seeds, more.pop("data", DATA), **more)


def go(sweep: Sweep, workers: int = 1) -> list[str]:
    """Run a sweep and return the names of the trained runs."""
    return [ended.task.label for ended in sweep.run(workers)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an uninterrupted sweep with two cells and two seeds each."""
    out = tmp_path_factory.mktemp("whole") / "sweep"
    assert len(go(swept(out))) == 4
    return out


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / "sweep")


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def metrics(out: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(out)): timeless(json.loads(path.read_text()))
        for path in out.rglob("metrics.json")
    }


def assert_same_sweep(one: Path, other: Path) -> None:
    for name in ("sweep.csv", "runs.csv", "sweep.json"):
        assert (one / name).read_text() == (other / name).read_text()
    folders = sorted(path.parent.relative_to(other) for path in other.rglob("metrics.json"))
    for folder in folders:
        assert_same(one / folder, other / folder)
    assert sorted(path.parent.relative_to(one) for path in one.rglob("metrics.json")) == folders


# Runs and results


def test_run_equals_train_with_the_same_settings(whole: Path, tmp_path: Path) -> None:
    assert {str(path.relative_to(whole).parent) for path in whole.rglob("run.yaml")} == {
        f"method.epsilon={epsilon}/seed-{seed}" for epsilon in ("0", "0.3") for seed in (1, 2)
    }
    settings = config(ALL_SPANS | {"method": {"epsilon": 0.3}}, seed=2, **LITTLE)
    train(settings, LEARNT, tmp_path / "alone", DATA.dev, DATA.test)
    assert_same(tmp_path / "alone", whole / "method.epsilon=0.3" / "seed-2")


def test_tables_have_mean_and_standard_deviation_of_cells(whole: Path) -> None:
    results = metrics(whole)
    runs = rows(whole / "runs.csv")
    assert [(row["cell"], row["method.epsilon"], row["seed"]) for row in runs] == [
        (f"method.epsilon={epsilon}", epsilon, seed) for epsilon in ("0", "0.3") for seed in ("1", "2")
    ]
    for row in runs:
        result = results[f"{row['folder']}/metrics.json"]
        assert float(row["dev_f1"]) == result["dev"]["dev_f1"]
        assert float(row["test_recall"]) == result["test"]["recall"]
        assert float(row["test_ece_raw"]) == result["calibration"]["test_ece_before"]
        assert float(row["test_ece"]) == result["calibration"]["test_ece_after"] == result["test"]["ece"]
        assert float(row["dev_ece_raw"]) == result["calibration"]["dev_ece_before"]
    for row in rows(whole / "sweep.csv"):
        own = [one for one in runs if one["cell"] == row["cell"]]
        assert row["seeds"] == "2"
        for measure in ("dev_f1", "dev_ece", "test_precision", "test_recall", "test_f1", "test_ece_raw"):
            values = [float(one[measure]) for one in own]
            assert float(row[f"{measure}_mean"]) == pytest.approx(statistics.mean(values))
            assert float(row[f"{measure}_std"]) == pytest.approx(statistics.stdev(values))
    whole_json = json.loads((whole / "sweep.json").read_text())
    assert [cell["seeds"] for cell in whole_json["cells"]] == [2, 2]
    assert whole_json["runs"][3]["dev_f1"] == float(runs[3]["dev_f1"])


def test_one_seed_has_no_deviation_and_missing_data_no_score(tmp_path: Path) -> None:
    sweep = swept(tmp_path, [GridCell()], 1, data=Data(LEARNT, None, DEV[:6]))
    assert go(sweep) == ["as it is, seed 1"]
    (row,) = rows(tmp_path / "sweep.csv")
    assert row["test_f1_mean"]
    assert row["test_ece_raw_mean"]
    assert [row[name] for name in ("test_f1_std", "dev_f1_mean", "dev_ece_mean", "test_ece_mean")] == [""] * 4


def test_share_and_noise_change_only_the_training_data(tmp_path: Path) -> None:
    cells = make_cells([], [0.5, 1], [0, 0.9])
    sweep = swept(tmp_path, cells, 1)
    data: dict[str, tuple[Any, ...]] = {}

    def spy(config: Config, sentences: Any, out: Path, *others: Any, **_: Any) -> None:
        data[out.parent.name] = (sentences, *others)
        raise FencepostError("enough")

    with patch.object(trials, "train", spy):
        go(sweep)
    assert list(data) == [cell.name for cell in cells]
    assert all(others == [DEV, DEV[:6]] for _, *others in data.values())
    half, noisy_half, clean, noisy = (sentences for sentences, *_ in data.values())
    assert clean == LEARNT
    assert [one.words for one in noisy] == [one.words for one in clean] != []
    assert noisy != clean
    assert len(half) == 12
    assert all(one in clean for one in half)
    assert all(one in noisy for one in noisy_half)  # a share has the noise of the whole
    assert [one.words for one in noisy_half] == [one.words for one in half]


# Interrupted


def test_complete_runs_are_not_trained_again(copied: Path, whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in copied.rglob("seed-*/*")}
    sweep = swept(copied)
    assert len(sweep.find_runs("complete")) == 4
    assert go(sweep) == []
    assert {path: path.stat().st_mtime_ns for path in copied.rglob("seed-*/*")} == before
    assert_same_sweep(copied, whole)


def test_runs_of_train_count_as_complete(tmp_path: Path) -> None:
    train(
        config(ALL_SPANS, seed=2, **LITTLE),
        sample_share(LEARNT, 0.5, 2),
        tmp_path / "share=0.5" / "seed-2",
        DEV,
    )
    sweep = swept(tmp_path, make_cells([], [0.5]), 2, data=Data(LEARNT, DEV))
    assert [run.label for run in sweep.find_runs("complete")] == ["share=0.5, seed 2"]


def test_resumes_after_a_kill_in_the_third_run(copied: Path, whole: Path) -> None:
    shutil.rmtree(copied / "method.epsilon=0.3")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fencepost.training", "torch.utils.tensorboard"])
    process = context.Process(target=_die_in_the_next, args=(copied,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert [row["seeds"] for row in rows(copied / "sweep.csv")] == ["2", "0"]
    sweep = swept(copied)
    assert [len(sweep.find_runs(state)) for state in ("complete", "running", "planned")] == [2, 1, 1]
    assert go(sweep) == ["method.epsilon=0.3, seed 1", "method.epsilon=0.3, seed 2"]
    assert_same_sweep(copied, whole)


def _die_in_the_next(out: Path) -> None:
    torch.set_num_threads(1)
    with before_step(5, die):
        go(swept(out))


def test_resumes_after_an_interruption_in_a_run(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "sweep"
    with before_step(7, _interrupt), pytest.raises(KeyboardInterrupt):
        go(swept(out))
    assert len(swept(out).find_runs("running")) == 1
    go(swept(out))
    assert_same_sweep(out, whole)


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_resumes_a_run_killed_before_its_first_files(tmp_path: Path) -> None:
    sweep = swept(tmp_path, [GridCell()], 1)
    folder = tmp_path / "as it is" / "seed-1"
    folder.mkdir(parents=True)
    (folder / "run.yaml").write_text(sweep.runs[0].config.to_yaml())
    (folder / ".fencepost-abcdefgh").mkdir()
    assert go(swept(tmp_path, [GridCell()], 1)) == ["as it is, seed 1"]
    assert not sweep.failed
    assert (folder / "metrics.json").is_file()
    assert not (folder / ".fencepost-abcdefgh").exists()


# Folders that do not fit


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


RUN = Path("method.epsilon=0.3", "seed-1")


@pytest.mark.parametrize("complete", [True, False])
def test_refuses_a_run_with_other_settings(copied: Path, complete: bool) -> None:
    change(copied / RUN / "run.yaml", "epochs: 1", "epochs: 4")
    if not complete:
        (copied / RUN / "metrics.json").unlink()
    with pytest.raises(
        UsageError,
        match=r"epsilon=0.3/seed-1: contains a run with other settings \(training.epochs is 4 there and 1 "
        r"here\); remove the folder to train it again, or give another --out",
    ):
        swept(copied)


@pytest.mark.parametrize("data", [Data(LEARNT[1:], DEV), Data(LEARNT, DEV[1:]), Data(LEARNT)])
def test_refuses_a_run_with_other_data(whole: Path, data: Data) -> None:
    with pytest.raises(
        UsageError, match=r"epsilon=0/seed-1: contains a run with other training or development"
    ):
        swept(whole, data=data)


def test_refuses_a_run_with_other_test_data(whole: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="was not scored on this test data; remove the folder"):
        swept(whole, data=Data(LEARNT, DEV, DEV))
    assert len(swept(whole, data=Data(LEARNT, DEV)).find_runs("complete")) == 4  # its scores are not used
    go(swept(tmp_path, [GridCell()], 1, data=Data(LEARNT, DEV)))
    with pytest.raises(UsageError, match="was not scored on this test data"):
        swept(tmp_path, [GridCell()], 1)


def test_refuses_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "as it is" / "seed-1"
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("years")
    with pytest.raises(UsageError, match="already exists and is not a training run; remove the folder"):
        swept(tmp_path, [GridCell()])


@pytest.mark.parametrize("content", [b'{"dev": 3}', b"[" * 100_000, b"\xff" * 10_000, b""])
def test_reports_unreadable_results(content: bytes, copied: Path) -> None:
    (copied / RUN / "metrics.json").write_bytes(content)
    message = r"seed-1/metrics.json: not the results of a training run \(.{5,200}\); remove"
    with pytest.raises(DataError, match=message):
        swept(copied, data=Data(LEARNT, DEV))


@pytest.mark.parametrize(
    ("data", "name"), [(([],), "training"), ((LEARNT, []), "development"), ((LEARNT, None, []), "test")]
)
def test_refuses_data_without_sentences(data: Any, name: str) -> None:
    with pytest.raises(UsageError, match=f"the {name} data has no sentences"):
        Data(*data)


def test_refuses_two_sweeps_in_one_folder(tmp_path: Path) -> None:
    running = swept(tmp_path).run()
    next(running)
    with pytest.raises(UsageError, match="another sweep is running in this folder"):
        go(swept(tmp_path))
    running.close()  # type: ignore[attr-defined]
    assert len(go(swept(tmp_path, seeds=1))) == 1


# Models


def test_models_are_removed_without_keep_models(copied: Path, whole: Path) -> None:
    shutil.rmtree(copied / RUN)
    (copied / RUN.parent / "seed-2" / "checkpoints").mkdir()  # left by a kill at the end
    assert go(swept(copied, keep_models=False)) == ["method.epsilon=0.3, seed 1"]
    for folder in copied.glob("*/seed-*"):
        names = {path.name for path in folder.iterdir()}
        assert names == {"README.md", "data.json", "metrics.json", "metrics.jsonl", "run.yaml", "tensorboard"}
    assert metrics(copied) == metrics(whole)
    assert go(swept(copied)) == []


# Runs that fail, and several processes


def test_failed_run_does_not_affect_others(tmp_path: Path) -> None:
    cells = make_cells([], [0.25, 0.5, 1])
    sweep = swept(tmp_path, cells, 1)
    with patch.object(sweep_module, "run_trial", _failing):
        assert len(go(sweep)) == 3
    messages = {run.cell.name: failure.message for run, failure in sweep.failed.items()}
    assert messages == {"share=0.25": "the loss is no number", "share=0.5": "ZeroDivisionError: by hand"}
    report = tmp_path / "share=0.5" / "seed-1.error.txt"
    assert "Traceback" in report.read_text()
    assert json.loads((tmp_path / "sweep.json").read_text())["failed"] == {
        f"{name}, seed 1": message for name, message in messages.items()
    }
    assert [row["seeds"] for row in rows(tmp_path / "sweep.csv")] == ["0", "0", "1"]
    again = swept(tmp_path, cells, 1)
    assert go(again) == ["share=0.25, seed 1", "share=0.5, seed 1"]
    assert not again.failed
    assert not report.exists()


def _failing(data: Data, run: Trial) -> None:
    if run.cell.share == 0.25:
        raise FencepostError("the loss is no number")
    if run.cell.share == 0.5:
        raise ZeroDivisionError("by hand")
    trials.run_trial(data, run)


def test_full_disk_stops_the_sweep_without_a_failed_run(tmp_path: Path) -> None:
    sweep, calls = swept(tmp_path), list[str]()

    def full(_: Data, run: Trial) -> None:
        calls.append(run.label)
        raise WriteError("model.safetensors: cannot be written: No space left on device")

    with patch.object(sweep_module, "run_trial", full), pytest.raises(WriteError, match="No space left"):
        go(sweep)
    assert len(calls) == 1
    assert not sweep.failed
    assert len(sweep.find_runs("planned")) == 4


@pytest.fixture
def quick_start() -> Iterator[None]:
    """Start processes from a server that has loaded the libraries, which takes longer than training."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fencepost.training", "torch.utils.tensorboard"])
    with patch.object(workers, "CONTEXT", context):
        yield


@pytest.mark.usefixtures("quick_start")
def test_several_processes_give_the_same_results(whole: Path, tmp_path: Path) -> None:
    sweep = swept(tmp_path)
    assert len(go(sweep, workers=2)) == 4
    assert not sweep.failed
    assert_same_sweep(tmp_path, whole)


@pytest.mark.usefixtures("quick_start")
def test_killed_process_does_not_affect_other_tasks(tmp_path: Path) -> None:
    tasks = ["good", "die", "raise", "leave", "refuse", "last"]
    ended: dict[str, TaskResult[str]] = {
        one.task: one for one in run_in_processes(partial(_act, tmp_path), tasks, 2)
    }
    assert ended.keys() == set(tasks)
    assert {task: one.failure.message for task, one in ended.items() if one.failure} == {
        "die": "its process was killed (SIGKILL), perhaps because it ran out of memory",
        "raise": "ValueError: bad",
        "leave": "its process ended with code 3",
        "refuse": "no",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good", "last"]
    assert not multiprocessing.active_children()


def _act(folder: Path, task: str) -> None:
    match task:
        case "die":
            die()
        case "raise":
            raise ValueError("bad")
        case "leave":
            os._exit(3)
        case "refuse":
            raise FencepostError("no")
        case "full":
            raise WriteError("full")
    (folder / task).touch()
    assert torch.get_num_threads() == 1


@pytest.mark.slow
@pytest.mark.usefixtures("quick_start")
def test_full_disk_stops_all_processes(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="full"):
        list(run_in_processes(partial(_act, tmp_path), ["full", "good"], 2))
    assert not multiprocessing.active_children()


@pytest.mark.slow
@pytest.mark.usefixtures("quick_start")
def test_processes_end_with_the_sweep() -> None:
    running = run_in_processes(_wait, [0.0, 600.0, 600.0], 2)
    next(running)
    running.close()
    assert not multiprocessing.active_children()


def _wait(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.slow
def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    parent = context.Process(target=_lead, args=(tmp_path,))
    parent.start()
    _until(lambda: len(list(tmp_path.glob("*.pid"))) == 2)
    parent.kill()
    parent.join()
    _until(lambda: not any(_is_alive(int(path.stem)) for path in tmp_path.iterdir()))


def _lead(folder: Path) -> None:
    with patch.object(workers, "CONTEXT", multiprocessing.get_context("fork")):  # the fastest start method
        list(run_in_processes(partial(_tell_and_wait, folder), [600.0, 600.0], 2))


def _tell_and_wait(folder: Path, seconds: float) -> None:
    (folder / f"{os.getpid()}.pid").touch()
    time.sleep(seconds)


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_unavailable_device_fails_each_run(tmp_path: Path) -> None:
    """The device of the data reaches the training."""
    data = replace(DATA, device="mps" if torch.cuda.is_available() else "cuda")
    failures = [ended.failure for ended in swept(tmp_path / "sweep", data=data).run() if ended.failure]
    assert failures
    assert all("is not available; this machine has" in failure.message for failure in failures)

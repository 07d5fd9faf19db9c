"""A run that is killed and resumed ends like one without an interruption, to the last bit."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fencepost.analysis.epochs import read_records
from fencepost.data.output import WriteError
from fencepost.errors import DataError, UsageError
from fencepost.runtime.folder import compute_sha256
from fencepost.runtime.pytorch import load_model
from fencepost.training import Outcome, train
from fencepost.training import run as run_module
from fencepost.training.checkpoint import find_last_checkpoint, find_resumable, seal
from tests.limits import file_size_limit
from tests.methods.running import loss_of, predict
from tests.training.runs import (
    DEV,
    LEARNT,
    STEPS,
    Plan,
    assert_same,
    before_step,
    config,
    killed,
    metrics,
    result,
    run,
    scripted,
    start,
)

MIDDLE = STEPS + STEPS // 2  # a step in the middle of the second epoch
PICKLES = {".pt", ".pth", ".bin", ".pkl"}
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "model"
    run(out)
    return out


def checkpoints(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "checkpoints").iterdir())


# Killed


def test_resumes_after_an_external_kill(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    process = start(Plan(out, {}, pause=0.05))
    deadline = time.monotonic() + 60
    while not any(record["step"] > STEPS for record in read_records(out)):  # 20 is in the second epoch
        assert time.monotonic() < deadline
        assert process.is_alive()
        time.sleep(0.01)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert checkpoints(out) == ["checkpoint-12"]
    assert not [path for path in out.rglob("*") if path.suffix in PICKLES]
    run(out, resume=True)
    assert_same(out, undisturbed)


@pytest.mark.parametrize(
    ("training", "dev", "step"),
    [
        pytest.param({}, False, MIDDLE, marks=slow),
        ({"accumulate": 5}, True, 5),  # 3 steps in an epoch
        pytest.param({"accumulate": 5}, False, 8, marks=slow),
        ({"schedule": "cosine", "clip": 0, "seed": 3, "weight_decay": 0.1}, True, 2 * STEPS + 1),
    ],
)
def test_resumes_in_the_middle_of_an_epoch(
    training: dict[str, Any], dev: bool, step: int, tmp_path: Path
) -> None:
    killed(tmp_path / "model", "before step", step, training=training, dev=dev)
    run(tmp_path / "model", config(**training), dev=dev, resume=True)
    run(tmp_path / "undisturbed", config(**training), dev=dev)
    assert_same(tmp_path / "model", tmp_path / "undisturbed")


@pytest.mark.parametrize(
    ("place", "at", "left"),
    [
        ("before step", STEPS // 2, []),  # no checkpoint yet: from the beginning
        pytest.param("before the optimiser is saved", STEPS, ["checkpoint-12"], marks=slow),
        ("before the optimiser is saved", 2 * STEPS, ["checkpoint-12", "checkpoint-24"]),
        pytest.param("while the state is saved", 2 * STEPS, ["checkpoint-12", "checkpoint-24"], marks=slow),
        pytest.param("before the model is saved", 0, ["checkpoint-24", "checkpoint-36"], marks=slow),
        ("before the result is saved", 0, ["checkpoint-24", "checkpoint-36"]),
    ],
)
def test_resumes_after_a_kill_at_any_stage(
    undisturbed: Path, place: str, at: int, left: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "model"
    killed(out, place, at)
    assert len(checkpoints(out)) == len(left)
    assert checkpoints(out)[-1:] == left[-1:]
    run(out, resume=True)
    assert_same(out, undisturbed)


def test_tensorboard_has_each_step_once_after_two_interruptions(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    killed(out, "before step", MIDDLE + 5)
    with before_step(2 * STEPS + 11, _interrupt), pytest.raises(KeyboardInterrupt):
        run(out, resume=True)
    run(out, resume=True)
    assert_same(out, undisturbed)
    scalars = [_scalars(folder / "tensorboard") for folder in (out, undisturbed)]
    assert scalars[0] == scalars[1]


def _interrupt() -> None:
    raise KeyboardInterrupt


def _scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
        if not tag.endswith("_seconds")
    }


def test_tensorboard_restarts_without_a_checkpoint(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    with before_step(STEPS, _interrupt), pytest.raises(KeyboardInterrupt):
        run(out)
    assert [record["step"] for record in read_records(out)] == [10]
    run(out, resume=True)
    assert _scalars(out / "tensorboard") == _scalars(undisturbed / "tensorboard")


def test_resumes_after_ctrl_c(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    with before_step(MIDDLE, _interrupt), pytest.raises(KeyboardInterrupt):
        run(out)
    with pytest.raises(UsageError, match="use --resume to continue, or give another name"):
        run(out)
    run(out, resume=True)
    assert_same(out, undisturbed)


# Killed at the end and at the beginning


@pytest.mark.parametrize(
    "place",
    [pytest.param("before the checkpoints are removed", marks=slow), "while the checkpoints are removed"],
)
def test_killed_while_removing_checkpoints_has_the_complete_result(
    place: str, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    killed(out, place)
    assert (out / "metrics.json").is_file()
    if place.startswith("before"):
        run(out, resume=True)
    else:
        with pytest.raises(UsageError, match="is complete"):
            run(out, resume=True)
    assert_same(out, undisturbed)


def test_resumes_at_the_end_without_training_again(undisturbed: Path, tmp_path: Path) -> None:
    """For example, if the disk was full when the report was written."""
    out, ends = tmp_path / "model", list[Outcome]()
    with pytest.raises(KeyboardInterrupt):
        run(out, at_end=lambda _: _interrupt())
    with before_step(None, _interrupt):  # nothing is trained again
        outcome = run(out, resume=True, at_end=ends.append)
    assert ends == [outcome]
    assert outcome.predicted
    assert_same(out, undisturbed)


def test_resumes_without_fingerprints_of_the_data(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    out.mkdir()
    (out / "run.yaml").write_text(config().to_yaml())
    (out / ".fencepost-abcdefgh").mkdir()
    run(out, resume=True)
    assert_same(out, undisturbed)


def test_folder_with_only_temporary_files_counts_as_empty(undisturbed: Path, tmp_path: Path) -> None:
    (tmp_path / ".fencepost-abcdefgh").mkdir()
    (tmp_path / ".fencepost-abcdefgh" / "run.yaml").write_text("method:")
    run(tmp_path)
    assert_same(tmp_path, undisturbed)


# A full disk


@pytest.mark.parametrize(
    ("limit", "file"),
    [
        (600, r"metrics\.jsonl"),
        (1_000, r"tensorboard/events\.out\.tfevents\.[^/]*"),
        (2_000, r"checkpoints/checkpoint-24"),
        (30_000, r"checkpoints/checkpoint-24/model\.safetensors"),
        (50_000, r"checkpoints/checkpoint-24/optimizer\.safetensors"),
    ],
)
def test_resumes_after_a_full_disk(limit: int, file: str, undisturbed: Path, tmp_path: Path) -> None:
    """Limits that files exceed in the second epoch, and the first file that does."""
    out = tmp_path / "model"
    with ExitStack() as stack:
        stack.enter_context(before_step(STEPS + 3, lambda: stack.enter_context(file_size_limit(limit))))
        with pytest.raises(WriteError) as caught:
            run(out)
    reason = r"(Error while serializing: I/O error: )?File too large( \(os error 27\))?"
    assert re.fullmatch(rf"{out}/{file}: cannot be written: {reason}", str(caught.value))
    run(out, resume=True)
    assert_same(out, undisturbed)


def test_resumes_after_a_full_disk_at_the_end(
    undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model"
    monkeypatch.setattr(run_module, "make_model_card", lambda *_: "x" * 300_000)
    with file_size_limit(200_000), pytest.raises(WriteError, match=r"README.md: cannot be written: "):
        run(out)
    monkeypatch.undo()
    run(out, resume=True)
    assert_same(out, undisturbed)


# State that survives a kill


def test_best_epoch_can_be_before_the_kill(tmp_path: Path) -> None:
    scores = [0.5, 0.1, 0.3, 0.2]
    for name in ("model", "undisturbed"):
        out = tmp_path / name
        if name == "model":
            killed(out, "before step", 3 * STEPS + 2, training={"epochs": 4}, scores=scores)
            assert checkpoints(out) == ["checkpoint-12", "checkpoint-36"]
        with scripted(out, scores):
            run(out, config(epochs=4), resume=name == "model")
    assert result(tmp_path / "model")["kept_epoch"] == 1
    assert_same(tmp_path / "model", tmp_path / "undisturbed")


@pytest.mark.parametrize("place", ["before step", pytest.param("before the model is saved", marks=slow)])
def test_resumes_in_a_moved_folder(place: str, tmp_path: Path) -> None:
    """The checkpoint of the best epoch is found in the new folder."""
    killed(tmp_path / "old", place, MIDDLE, scores=[0.5, 0.1, 0.3])
    (tmp_path / "old").rename(tmp_path / "new")
    with scripted(tmp_path / "new", [0.5, 0.1, 0.3]):
        outcome = run(tmp_path / "new", resume=True)
    assert outcome.best is not None
    assert outcome.best["epoch"] == 1
    assert loss_of(load_model(tmp_path / "new"), DEV) == outcome.best["dev_loss"]


@pytest.mark.parametrize(
    ("place", "at"),
    [("before step", 2 * STEPS + 3), pytest.param("before the model is saved", 0, marks=slow)],
)
def test_patience_is_kept_after_a_kill(place: str, at: int, tmp_path: Path) -> None:
    """Killed when half or all of the patience is used: both runs end after epoch 3."""
    out, training = tmp_path / "model", {"epochs": 6, "patience": 2}
    scores = [0.5, 0.1, 0.3, 0.9, 0.9, 0.9]
    killed(out, place, at, training=training, scores=scores)
    with scripted(out, scores):
        outcome = run(out, config(**training), resume=True)
    assert [epoch["dev_f1"] for epoch in outcome.epochs] == scores[:3]
    with scripted(tmp_path / "undisturbed", scores):
        run(tmp_path / "undisturbed", config(**training))
    assert_same(out, tmp_path / "undisturbed")


# Checkpoints


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run that was interrupted in its third epoch."""
    out = tmp_path_factory.mktemp("interrupted") / "model"
    with before_step(2 * STEPS + 5, _interrupt), pytest.raises(KeyboardInterrupt):
        run(out)
    return out


FILES = (
    "config.json",
    "model.safetensors",
    "optimizer.safetensors",
    "random-0.json",
    "schedule.json",
    "sha256.json",
    "trainer_state.json",
    "vocabulary.json",
)


def test_checkpoint_is_a_model_without_pickles(interrupted: Path) -> None:
    checkpoint = find_last_checkpoint(interrupted / "checkpoints")
    assert checkpoint is not None
    assert checkpoint.name == "checkpoint-24"
    assert predict(load_model(checkpoint), DEV)
    assert sorted(path.name for path in checkpoint.iterdir()) == ["SHA256SUMS", *FILES]


def test_weights_of_a_checkpoint_are_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def noted(path: Path) -> str:
        hashed.append(path.name)
        return compute_sha256(path)

    for module in ("fencepost.runtime.folder", "fencepost.training.checkpoint"):
        monkeypatch.setattr(f"{module}.compute_sha256", noted)
    run(tmp_path / "model", config(epochs=2), dev=False)
    assert hashed.count("model.safetensors") == 3  # of two checkpoints and the model
    assert hashed.count("optimizer.safetensors") == 2


def test_ignores_an_incomplete_checkpoint(
    interrupted: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(interrupted, tmp_path / "model")
    newest = out / "checkpoints" / "checkpoint-24"
    for name in ("optimizer.safetensors", "random-0.json", "trainer_state.json", "sha256.json"):
        (newest / name).unlink()
    assert find_last_checkpoint(out / "checkpoints") == newest.with_name("checkpoint-12")
    run(out, resume=True)
    assert "damaged" not in capsys.readouterr().err  # an incomplete checkpoint is not damaged
    assert_same(out, undisturbed)


def test_last_checkpoint_has_the_most_steps(tmp_path: Path) -> None:
    assert find_last_checkpoint(tmp_path) is None
    assert find_last_checkpoint(tmp_path / "nothing") is None
    for name in ("checkpoint-9", "checkpoint-10", "checkpoint-best", "checkpoint-11", "other"):
        (tmp_path / name).mkdir()
        if name != "checkpoint-11":
            seal(tmp_path / name)
    assert find_last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"


# Damaged checkpoints


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garble(path: Path) -> None:
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :])


def nest(path: Path) -> None:
    path.write_bytes(b"[" * 100_000)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [cut, empty, garble, nest, Path.unlink])
def test_ignores_a_damaged_checkpoint(
    damage: Callable[[Path], None],
    name: str,
    interrupted: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shutil.copytree(interrupted / "checkpoints", tmp_path / "checkpoints")
    older, newer = folder / "checkpoint-12", folder / "checkpoint-24"
    damage(newer / name)
    assert find_resumable(folder) == older
    if not (damage is Path.unlink and name == "sha256.json"):  # then it looks incomplete
        message = f"{newer / name}: damaged; training continues from an earlier checkpoint, {older}"
        assert capsys.readouterr().err == f"{message}\n"


def test_moments_of_other_shapes_count_as_damage(interrupted: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(interrupted / "checkpoints", tmp_path / "checkpoints")
    moments = folder / "checkpoint-24" / "optimizer.safetensors"
    save_file({name: torch.zeros(3, 5) for name in load_file(moments)}, moments)
    assert find_resumable(folder) == folder / "checkpoint-12"


@pytest.mark.parametrize("name", ["optimizer.safetensors", "trainer_state.json"])
def test_resumes_from_an_older_checkpoint_with_the_same_result(
    name: str, interrupted: Path, undisturbed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shutil.copytree(interrupted, tmp_path / "model")
    garble(out / "checkpoints" / "checkpoint-24" / name)
    (out / "metrics.jsonl").write_bytes(b"\xff\n{}\n")  # the checkpoint has all records
    run(out, resume=True)
    assert f"{name}: damaged; training continues from" in capsys.readouterr().err
    assert_same(out, undisturbed)


def test_refuses_to_resume_if_all_checkpoints_are_damaged(interrupted: Path, tmp_path: Path) -> None:
    out = shutil.copytree(interrupted, tmp_path / "model")
    for checkpoint in (out / "checkpoints").iterdir():
        cut(checkpoint / "model.safetensors")
    with pytest.raises(
        DataError, match=r"checkpoint-24/model.safetensors: this file is damaged.* another --out"
    ):
        run(out, resume=True)
    assert checkpoints(out) == ["checkpoint-12", "checkpoint-24"]  # nothing is removed


@pytest.mark.slow
def test_refuses_to_resume_if_the_best_epoch_is_damaged(tmp_path: Path) -> None:
    """The run could continue from the newest checkpoint, but would not have its best model."""
    out, scores = tmp_path / "model", [0.5, 0.1, 0.3]
    killed(out, "before step", 2 * STEPS + 2, scores=scores)
    garble(out / "checkpoints" / "checkpoint-12" / "model.safetensors")
    with pytest.raises(DataError, match=r"checkpoint-12/model.safetensors: this file is damaged"):
        run(out, resume=True)


def test_reports_a_best_epoch_damaged_during_the_run(tmp_path: Path) -> None:
    out, scores = tmp_path / "model", [0.5, 0.1, 0.3]
    best = out / "checkpoints" / "checkpoint-12" / "config.json"
    with (
        scripted(out, scores),
        before_step(2 * STEPS + 5, lambda: cut(best)),
        pytest.raises(DataError, match=r"checkpoint-12/config.json: this file of the best epoch"),
    ):
        run(out)


@pytest.mark.parametrize("damage", [cut, nest, Path.unlink])
def test_reports_damaged_fingerprints(
    damage: Callable[[Path], None], interrupted: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(interrupted, tmp_path / "model")
    damage(out / "data.json")
    with pytest.raises(DataError, match=r"data.json: (this file is (not valid JSON|nested)|cannot be read)"):
        run(out, resume=True)


def test_records_after_the_checkpoint_are_replaced(interrupted: Path, tmp_path: Path) -> None:
    out = shutil.copytree(interrupted, tmp_path / "model")
    with (out / "metrics.jsonl").open("a") as stream:
        stream.write('{"step": 30, "epoch": 2.5, "loss": 1.0}\n{"step": 36, "epo')
    run(out, resume=True)
    assert [record["step"] for record in metrics(out)] == [10, 12, 12, 20, 24, 24, 30, 36, 36]


# What cannot be resumed


def test_refuses_to_resume_without_a_run(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(UsageError, match=r"no training run to resume.*start a new run without --resume"):
            run(folder, resume=True)
    assert not list(tmp_path.iterdir())


def test_refuses_to_resume_a_complete_run(undisturbed: Path) -> None:
    with pytest.raises(UsageError, match=r"is complete.*give another folder"):
        run(undisturbed, resume=True)


def test_refuses_to_resume_with_other_settings(interrupted: Path) -> None:
    settings = config({"method": {"epsilon": 0.3}}, epochs=7)
    with pytest.raises(
        UsageError,
        match=r"other settings; resume it with the same settings, which are in .*run.yaml \("
        r"method.epsilon is 0.1 there and 0.3 here; training.epochs is 3 there and 7 here\)",
    ):
        run(interrupted, settings, resume=True)


@pytest.mark.parametrize(
    ("training", "dev"),
    [(LEARNT[1:], DEV), (LEARNT[::-1], DEV), (LEARNT, DEV[1:]), (LEARNT, None), (DEV, LEARNT)],
)
def test_refuses_to_resume_with_other_data(training: Any, dev: Any, interrupted: Path) -> None:
    with pytest.raises(UsageError, match="other training or development data; resume it with the same"):
        train(config(), training, interrupted, dev, resume=True)
    assert find_last_checkpoint(interrupted / "checkpoints") is not None


# Several processes


def test_several_processes_train_one_model(tmp_path: Path) -> None:
    """They are started like torchrun does; each has its share of the data, one writes."""
    out = tmp_path / "model"
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = str(server.getsockname()[1])
    together = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        start(
            Plan(
                out,
                {"epochs": 2},
                environment={**together, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                log=f"{rank}.log",
            )
        )
        for rank in range(2)
    ]
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    assert [record["step"] for record in metrics(out)] == [6, 6, 10, 12, 12]
    assert result(out)["kept_epoch"] in (1, 2)
    assert predict(load_model(out), DEV)
    assert json.loads((out / "data.json").read_text())["train"]["sentences"] == len(LEARNT)

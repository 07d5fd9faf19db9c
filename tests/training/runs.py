"""Small training runs: in this process, and in others that die when a test chooses."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import load_file

from fencepost.analysis.epochs import read_records
from fencepost.config import Config, merge_trees
from fencepost.data import read
from fencepost.evaluation import evaluate
from fencepost.evaluation.strict import Score
from fencepost.training import Outcome, checkpoint, scoring, train
from fencepost.training.folder import remove_checkpoints
from fencepost.training.trainer import Trainer

LEARNT = list(read("sample:train"))[:24]
DEV = list(read("sample:dev"))[:12]
STEPS = 12  # in an epoch, of the settings below

SETTINGS: dict[str, Any] = {
    "method": {"size": 16, "width_size": 4, "dropout": 0.1},
    "encoder": {
        "name": "scratch",
        "lstm": {"size": 16, "dropout": 0.1},
        "scratch": {"word_size": 16, "character_size": 8, "character_output": 8},
    },
    "training": {"epochs": 3, "batch_size": 2, "learning_rate": 0.01},
}


def config(changes: dict[str, Any] | None = None, **training: Any) -> Config:
    return Config.parse(merge_trees(merge_trees(SETTINGS, changes or {}), {"training": training}))


def run(out: Path, settings: Config | None = None, *, dev: bool = True, **more: Any) -> Outcome:
    return train(settings or config(), LEARNT, out, DEV if dev else None, **more)


# Results of a run


def timeless(value: Any) -> Any:
    """Remove the fields that say how long something took."""
    if isinstance(value, dict):
        return {key: timeless(inner) for key, inner in value.items() if not key.endswith("_seconds")}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def metrics(out: Path) -> list[dict[str, Any]]:
    return timeless(read_records(out))


def result(out: Path) -> dict[str, Any]:
    return timeless(json.loads((out / "metrics.json").read_text()))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same_weights(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def assert_same(one: Path, other: Path) -> None:
    """Assert that two runs have the same result, bit for bit."""
    assert metrics(one) == metrics(other)
    assert result(one) == result(other)
    assert same_weights(weights(one), weights(other))
    for name in ("README.md", "config.json", "run.yaml", "data.json"):
        assert (one / name).read_text() == (other / name).read_text()
    assert sorted(path.name for path in one.iterdir()) == sorted(path.name for path in other.iterdir())


# Interference


@contextmanager
def scripted(out: Path, scores: Sequence[float]) -> Iterator[None]:
    """Replace the development F1 of each epoch by the one in `scores`."""

    def scored(gold: Any, predicted: Any) -> Any:
        epoch = sum("dev_f1" in record for record in read_records(out))
        f1 = scores[epoch]
        return replace(evaluate(gold, predicted), overall=Score(f1, f1, f1, 0, 0, 0))

    with patch.object(scoring, "evaluate", scored):
        yield


@contextmanager
def before_step(number: int | None, act: Callable[[], None]) -> Iterator[None]:
    """Call `act` before the forward pass of a step (counted from 1; None: of each step)."""
    compute_loss = Trainer.compute_loss

    def interfering(self: Trainer, *args: Any) -> Any:
        if number in (None, self.step + 1):
            act()
        return compute_loss(self, *args)

    with patch.object(Trainer, "compute_loss", interfering):
        yield


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _die_with_half_a_state(folder: Path, *_: Any) -> None:
    (folder / "trainer_state.json").write_text('{"step": 24, "records": [{"epo')
    die()


def _die_while_removing(out: Path) -> None:
    with patch("shutil.rmtree", die):
        remove_checkpoints(out)


# Runs in other processes


@dataclass(frozen=True)
class Plan:
    """A run in another process, and where in it SIGKILL strikes, if at all."""

    out: Path
    training: dict[str, Any]
    dev: bool = True
    scores: Sequence[float] | None = None
    dies: str = ""
    at: int = 0
    pause: float = 0.0  # before each step, so that there is time to kill the process
    quiet: bool = True
    environment: dict[str, str] | None = None
    log: str = "log"  # beside `out`, for the output of the process


def start(plan: Plan) -> BaseProcess:
    """Start it from a server that has loaded the libraries: loading takes longer than training."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fencepost.training", "torch.utils.tensorboard"])
    process = context.Process(target=_carry_out, args=(plan,))
    process.start()
    return process


def elsewhere(plan: Plan) -> int | None:
    """Carry out the plan in another process and return its exit code."""
    process = start(plan)
    process.join(60)
    return process.exitcode


def killed(out: Path, dies: str, at: int = 0, **plan: Any) -> None:
    training = plan.pop("training", {})
    assert elsewhere(Plan(out, training, dies=dies, at=at, **plan)) == -signal.SIGKILL


def _carry_out(plan: Plan) -> None:
    torch.set_num_threads(1)
    gc.freeze()
    log = os.open(plan.out.with_name(plan.log), os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(plan.environment or {})
    with ExitStack() as stack:
        if plan.scores is not None:
            stack.enter_context(scripted(plan.out, plan.scores))
        if plan.pause:
            stack.enter_context(before_step(None, lambda: time.sleep(plan.pause)))
        if plan.dies:
            stack.enter_context(_deaths(plan))
        run(plan.out, config(**plan.training), dev=plan.dev, quiet=plan.quiet)


def _deaths(plan: Plan) -> Any:
    """Return the patch that makes the process die at that place."""
    folder = plan.out / "checkpoints" / f"checkpoint-{plan.at}"

    def only_there(act: Callable[..., None], method: Callable[..., Any]) -> Callable[..., Any]:
        def patched(*args: Any) -> Any:
            return act(*args) if any(Path(str(arg)).is_relative_to(folder) for arg in args) else method(*args)

        return patched

    match plan.dies:
        case "before step":
            return before_step(plan.at, die)
        case "before the optimiser is saved":
            save = checkpoint.save_optimizer
            return patch.object(checkpoint, "save_optimizer", only_there(die, save))
        case "while the state is saved":
            save = checkpoint.save_state
            return patch.object(checkpoint, "save_state", only_there(_die_with_half_a_state, save))
        case "before the model is saved":
            return patch("fencepost.training.run._finish", die)
        case "before the result is saved":
            return patch("fencepost.training.run.make_model_card", die)
        case "before the checkpoints are removed":
            return patch("fencepost.training.run.remove_checkpoints", die)
        case "while the checkpoints are removed":
            return patch("fencepost.training.run.remove_checkpoints", _die_while_removing)
    raise ValueError(plan.dies)

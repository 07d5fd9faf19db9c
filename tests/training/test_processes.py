"""Several processes train like one whose batch is as large as theirs together.

These comparisons have no dropout, since each process has its own random numbers. Where a method draws
(noise, negative examples), every sentence gets the same noise, or all examples.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor, nn

from fencepost.config import Config, merge_trees
from fencepost.data import read, write
from fencepost.errors import UsageError
from fencepost.methods.diffusion import network as diffusion
from fencepost.methods.model import Model
from fencepost.runtime.folder import read_saved_config
from fencepost.training import train
from fencepost.training.processes import Share, apply_launch_precision, choose_precision, keep_freed_memory
from tests.training.runs import (
    assert_same,
    before_step,
    config,
    metrics,
    result,
    run,
    same_weights,
    weights,
)

LEARNT = list(read("sample:train"))[:21]  # in batches of 4, the last one is of one sentence
DEV = LEARNT[:12]  # in which entities are predicted after a few steps
ROOT = Path(__file__).parents[2]

TINY: dict[str, dict[str, Any]] = {
    "boundary-smoothing": {"size": 16, "width_size": 4, "dropout": 0},
    "boundary-offset": {"size": 16, "dropout": 0},
    "locate-and-label": {
        "lengths": [1, 2],
        "size": 16,
        "dropout": 0,
        "classifier_gamma": 2.0,  # so that it soon predicts entities, with all negative examples
        "extra_negatives": 1_000_000,
    },
    "diffusion": {
        "spans": 12,
        "size": 16,
        "layers": 1,
        "heads": 2,
        "feed_forward": 16,
        "pointer_size": 8,
        "dropout": 0,
    },
}
ENCODER = {
    "name": "scratch",
    "lstm": {"size": 16, "layers": 1, "dropout": 0},
    "scratch": {"word_size": 16, "character_size": 8, "character_output": 8, "word_dropout": 0},
}


def settings_of(method: str, changes: dict[str, Any] | None = None, **training: Any) -> Config:
    tree = {
        "method": {"name": method, **TINY[method]},
        "encoder": ENCODER,
        "training": {"epochs": 2, "learning_rate": 0.01, **training},
    }
    return Config.parse(merge_trees(tree, changes or {}))


class SameForAll:
    """Replacement of `torch` that draws the same numbers for all sentences of a batch."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def _one(self, draw: Any, *args: Any) -> Tensor:
        *before, shape = args
        one: Tensor = draw(*before, shape[1:], generator=torch.Generator().manual_seed(len(shape)))
        return one.expand(shape)

    def rand(self, shape: Any, **_: Any) -> Tensor:
        return self._one(torch.rand, shape)

    def randn(self, shape: Any, **_: Any) -> Tensor:
        return self._one(torch.randn, shape)

    def randint(self, high: int, shape: Any, **_: Any) -> Tensor:
        return self._one(torch.randint, high, shape)


@contextmanager
def without_chance() -> Iterator[None]:
    """Make training independent of which sentences are in a batch together."""
    build = Model.build

    def built(*args: Any) -> Model:
        model = build(*args)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0  # of a pretrained encoder
        return model

    with patch.object(diffusion, "torch", SameForAll()), patch.object(Model, "build", built):
        yield


# The gradient of the processes


class Recorder:
    """Accelerator for processes that run one after another: a first pass counts, a second one reduces."""

    device = torch.device("cpu")

    def __init__(self, processes: int) -> None:
        self.num_processes = processes
        self.counts: list[list[float]] = [[] for _ in range(processes)]
        self.process, self.reductions = 0, 0
        self.counting = True

    def reduce(self, count: Tensor, how: str) -> Tensor:
        assert how == "sum"
        if self.counting:
            self.counts[self.process].append(float(count))
            return count
        whole = sum(of_process[self.reductions] for of_process in self.counts)
        self.reductions += 1
        return torch.tensor(whole)


def largest(numbers: Tensor) -> float:
    return max(map(abs, numbers.flatten().tolist()), default=0.0)


def gradients(model: Model) -> dict[str, Tensor]:
    by_name = {
        name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None
    }
    model.zero_grad()
    return by_name


def of_processes(model: Model, sentences: Sequence[Any], processes: int) -> tuple[dict[str, Tensor], float]:
    """Return the mean gradient and loss of processes that have every n-th sentence each."""
    accelerator = Recorder(processes)
    share = Share(accelerator)
    model.network.reduce_count = share.mean_count
    losses = []
    for counting in (True, False):
        accelerator.counting, losses = counting, []
        for process in range(processes):
            accelerator.process, accelerator.reductions = process, 0
            own = sentences[process::processes]
            share.empty = not own
            loss = model(model.collate(own or sentences[:1]))["loss"] * bool(own)
            losses.append(loss.item())
            if not counting:
                (loss / processes).backward()
    model.network.reduce_count = None
    return gradients(model), sum(losses) / processes


VARIANTS = [
    ("boundary-smoothing", {}),
    ("boundary-offset", {"mean_over": "sentences"}),
    ("boundary-offset", {"mean_over": "cells"}),
    ("boundary-offset", {"mean_over": "batch", "type_inputs": "embedding"}),
    ("locate-and-label", {}),
    ("locate-and-label", {"filter": False, "classifier_gamma": 1.0}),
    ("diffusion", {}),
    ("diffusion", {"targets": "pad", "none_weight": 0.3}),
]


@pytest.mark.parametrize(("method", "changes"), VARIANTS)
@pytest.mark.parametrize(("sentences", "processes"), [(6, 2), (5, 2), (7, 3), (2, 3), (1, 2)])
def test_mean_gradient_of_processes_equals_that_of_one_batch(
    method: str, changes: dict[str, Any], sentences: int, processes: int
) -> None:
    torch.manual_seed(1)
    with without_chance():
        model = Model.build(settings_of(method, {"method": changes}), LEARNT).train()
        batch = LEARNT[3 : 3 + sentences]
        loss = model(model.collate(batch))["loss"]
        loss.backward()
        whole = gradients(model)
        shared, mean = of_processes(model, batch, processes)
    assert mean == pytest.approx(loss.item(), rel=1e-5)
    scale = max(map(largest, whole.values()))
    assert shared.keys() == whole.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(
            shared[name],
            gradient,
            rtol=1e-4,
            atol=1e-5 * scale,
            msg=lambda text, name=name: f"{name}: {text}",
        )


def test_development_loss_is_computed_by_one_process() -> None:
    """One process computes the loss of a batch of development data, without a reduction."""
    model = Model.build(settings_of("boundary-smoothing"), LEARNT).eval()
    expected = model(model.collate(LEARNT[:3]))["loss"]
    model.network.reduce_count = lambda _: pytest.fail("asked")
    assert torch.equal(model(model.collate(LEARNT[:3]))["loss"], expected)


# Two processes


def train_beside(
    out: Path, tree: dict[str, Any], rank: int, port: int, dies_at: int, more: dict[str, Any]
) -> None:
    """Run one of two processes, as torchrun would start it."""
    torch.set_num_threads(1)
    log = os.open(out.with_name(f"{out.name}-{rank}.log"), os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ |= {
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
    }
    with ExitStack() as stack:
        if not tree["method"]["dropout"]:
            stack.enter_context(without_chance())
        if dies_at:
            stack.enter_context(before_step(dies_at, lambda: os.kill(os.getpid(), signal.SIGKILL)))
        train(Config.parse(tree), LEARNT, out, DEV, **more)


def two(out: Path, settings: Config, *, dies_at: int = 0, **more: Any) -> list[int | None]:
    """Train with two processes and return their exit codes."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fencepost.training", "torch.utils.tensorboard"])
    tree = settings.model_dump(mode="json")
    processes = [
        context.Process(target=train_beside, args=(out, tree, rank, port, dies_at, more)) for rank in (0, 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)  # for a busy machine
        process.kill()
    return [process.exitcode for process in processes]


def assert_near(one: Path, other: Path, *, weight: float = 1e-4, score: float = 1e-4) -> None:
    """Assert that the weights, losses and scores of two runs are equal up to rounding.

    The bias of attention's keys has no effect, since softmax does not see it: its gradient is rounding alone,
    and the optimiser, which uses only the direction, moves it at random.
    """
    mine, theirs = weights(one), weights(other)
    assert mine.keys() == theirs.keys()
    assert max(largest(mine[name] - theirs[name]) for name in mine if not name.endswith("key.bias")) < weight
    records, others = metrics(one), metrics(other)
    assert [list(record) for record in records] == [list(record) for record in others]
    for record, same in zip(records, others, strict=True):
        assert record == {
            key: None if value is None else pytest.approx(value, rel=score, abs=1e-6)
            for key, value in same.items()
        }
    assert result(one)["kept_epoch"] == result(other)["kept_epoch"]


@pytest.mark.slow
def test_two_processes_train_like_one_with_the_doubled_batch(tmp_path: Path) -> None:
    """Including a batch of one sentence, where the second process has none."""
    training: dict[str, Any] = {"epochs": 15, "learning_rate": 0.03, "warmup": 0}
    changes = {"predict": {"batch_size": 2}}  # so that both have something to predict
    settings = [settings_of("boundary-smoothing", changes, batch_size=size, **training) for size in (2, 4)]
    assert two(tmp_path / "two", settings[0]) == [0, 0]
    with without_chance():
        train(settings[1], LEARNT, tmp_path / "one", DEV)
    last = metrics(tmp_path / "one")[-1]
    assert last["step"] == 90
    assert last["dev_f1"] > 0.3
    assert_near(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
def test_two_processes_accumulate_and_log_like_one(tmp_path: Path) -> None:
    training = {"epochs": 2, "accumulate": 4}  # 6 batches in an epoch
    assert two(tmp_path / "two", settings_of("locate-and-label", batch_size=2, **training)) == [0, 0]
    with without_chance():
        train(settings_of("locate-and-label", batch_size=4, **training), LEARNT, tmp_path / "one", DEV)
    assert {"filter_loss", "regressor_loss", "classifier_loss"} <= metrics(tmp_path / "one")[0].keys()
    assert_near(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
def test_two_killed_processes_resume_bit_for_bit(tmp_path: Path) -> None:
    settings = config(batch_size=2)  # with dropout: each process has its own random state, and restores it
    killed, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    assert two(killed, settings, dies_at=9) == [-signal.SIGKILL] * 2
    checkpoint = killed / "checkpoints" / "checkpoint-6"
    states = [json.loads((checkpoint / f"random-{rank}.json").read_text())["torch"] for rank in (0, 1)]
    assert states[0] != states[1]
    shutil.copytree(killed, tmp_path / "alone")
    with pytest.raises(
        UsageError, match="this training run has 2 processes and cannot continue with 1; resume it with"
    ):
        train(settings, LEARNT, tmp_path / "alone", DEV, resume=True)
    assert two(killed, settings, resume=True) == [0, 0]
    assert two(undisturbed, settings) == [0, 0]
    assert_same(killed, undisturbed)


# Precision


def test_uses_and_saves_the_precision_of_accelerate_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    run(tmp_path / "model", config(epochs=1, batch_size=12), dev=False)
    assert Config.compose(tmp_path / "model" / "run.yaml").training.precision == "bfloat16"
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert apply_launch_precision(config(precision="bfloat16")).training.precision == "bfloat16"
    assert apply_launch_precision(config()) == config()


@pytest.mark.parametrize("instructions", ["avx512_bf16", "amx_bf16"])
def test_auto_is_bfloat16_for_pretrained_encoders_on_processors_that_have_it(
    instructions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, instructions: True})
    assert choose_precision("auto", cpu, pretrained=True) == "bfloat16"
    assert choose_precision("auto", cpu, pretrained=False) == "float32"
    assert choose_precision("auto", gpu, pretrained=True) == "float32"
    assert choose_precision("float32", cpu, pretrained=True) == "float32"
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, instructions: False})
    assert choose_precision("auto", cpu, pretrained=True) == "float32"
    assert choose_precision("bfloat16", cpu, pretrained=False) == "bfloat16"
    monkeypatch.delattr(torch.cpu, "get_capabilities")  # as in earlier versions of PyTorch
    assert choose_precision("auto", cpu, pretrained=True) == "float32"


def test_auto_computes_in_the_precision_that_it_stands_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for precision in ("float32", "bfloat16"):
        run(tmp_path / precision, config(epochs=1, batch_size=12, precision=precision), dev=False)
    run(tmp_path / "auto", config(epochs=1, batch_size=12), dev=False)  # an encoder from scratch
    monkeypatch.setattr("fencepost.training.trainer.choose_precision", lambda *_, **__: "bfloat16")
    run(tmp_path / "half", config(epochs=1, batch_size=12), dev=False)
    for name, precision in (("auto", "float32"), ("half", "bfloat16")):
        assert same_weights(weights(tmp_path / name), weights(tmp_path / precision))
        assert Config.compose(tmp_path / name / "run.yaml").training.precision == "auto"
        saved = read_saved_config(tmp_path / name).parse_config()
        assert saved.training.precision == precision
    assert not same_weights(weights(tmp_path / "auto"), weights(tmp_path / "half"))


def test_resumed_training_keeps_its_precision_on_another_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    run(tmp_path / "whole", config(precision="bfloat16"))
    monkeypatch.setattr("fencepost.training.trainer.choose_precision", lambda *_, **__: "bfloat16")
    with before_step(20, interrupt), pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts")
    monkeypatch.undo()
    run(tmp_path / "parts", resume=True)
    assert same_weights(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert read_saved_config(tmp_path / "parts").parse_config().training.precision == "bfloat16"


@pytest.mark.parametrize("precision", ["fp16", "fp8"])
def test_refuses_an_unsupported_launch_precision(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", precision)
    with pytest.raises(
        UsageError, match=f"ACCELERATE_MIXED_PRECISION={precision}: this precision is not supported"
    ):
        run(tmp_path / "model")
    assert not (tmp_path / "model").exists()


# With torchrun


LAUNCHED = """
import os, signal, sys
from fencepost.cli import main
from tests.training.runs import before_step
from tests.training.test_processes import without_chance

dies_at = int(os.environ.get("DIES_AT", "0")) if os.environ.get("RANK") == "1" else 0
with without_chance(), before_step(dies_at, lambda: os.kill(os.getpid(), signal.SIGKILL)):
    main()
"""


def launch(
    folder: Path, processes: int, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `fencepost train` with no random differences, alone or by torchrun."""
    script = folder / "launched.py"
    script.write_text(LAUNCHED)
    torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    torchrun += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    return subprocess.run(
        [sys.executable, *(torchrun if processes > 1 else []), str(script), "train", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def prepared(folder: Path, settings: Config, sentences: int = 35) -> tuple[str, ...]:
    """Write settings and sentences (the last batch of 8 has only 3) and return the arguments."""
    (folder / "settings.yaml").write_text(settings.to_yaml())
    write(islice(read("sample:train"), sentences), folder / "train.jsonl")
    write(islice(read("sample:train"), sentences // 2), folder / "dev.jsonl")
    return ("--train", "train.jsonl", "--dev", "dev.jsonl", "--config", "settings.yaml", "--no-report")


def compared(tmp_path: Path, settings: Config, sentences: int = 35) -> tuple[Path, Path]:
    """Train with two processes with batches of 4 each, and with one with batches of 8."""
    data = prepared(tmp_path, settings, sentences)
    for name, processes, size in (("two", 2, 4), ("one", 1, 8)):
        process = launch(tmp_path, processes, *data, "--out", name, "--batch-size", str(size))
        assert process.returncode == 0, process.stderr
    return tmp_path / "two", tmp_path / "one"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "sentences", "epochs", "rate", "far"),
    [
        ("boundary-smoothing", 35, 12, 0.02, 1e-4),
        ("boundary-offset", 35, 15, 0.01, 1e-4),
        ("locate-and-label", 99, 10, 0.02, 1e-4),
        (
            "diffusion",
            35,
            15,
            0.01,
            1e-3,
        ),  # which span is matched to which entity may depend on the last digit
    ],
)
def test_torchrun_trains_like_one_process_with_the_doubled_batch(
    method: str, sentences: int, epochs: int, rate: float, far: float, tmp_path: Path
) -> None:
    """Epochs suffice to predict entities, at rates at which differences of rounding stay small.

    At higher rates they grow, also in one process whose batches have another order.
    """
    settings = settings_of(method, epochs=epochs, learning_rate=rate, warmup=0.1)
    together, alone = compared(tmp_path, settings, sentences)
    assert max(record["dev_f1"] for record in result(alone)["epochs"]) > 0.02
    assert_near(together, alone, weight=far, score=far)


@pytest.mark.slow
def test_torchrun_trains_a_pretrained_encoder_like_one_process(tmp_path: Path) -> None:
    settings = settings_of("boundary-smoothing", {"encoder": {"name": "minilm"}}, epochs=12)
    together, alone = compared(tmp_path, settings)
    assert max(record["dev_f1"] for record in result(alone)["epochs"]) > 0.02
    assert_near(together, alone)


@pytest.mark.slow
def test_torchrun_in_bfloat16_has_similar_losses(tmp_path: Path) -> None:
    """Numbers have three digits, so runs differ, but only slightly in their losses."""
    together, alone = compared(tmp_path, settings_of("boundary-smoothing", precision="bfloat16"))
    losses = [[record["dev_loss"] for record in result(out)["epochs"]] for out in (together, alone)]
    assert losses[0] == pytest.approx(losses[1], rel=0.05)
    assert losses[0][1] < losses[0][0]


@pytest.mark.slow
def test_torchrun_fails_if_a_process_dies_and_can_be_resumed(tmp_path: Path) -> None:
    """The other process does not wait for it."""
    settings = settings_of("boundary-smoothing")
    data = (*prepared(tmp_path, settings), "--batch-size", "4", "--out", "model")
    dead = launch(tmp_path, 2, *data, environment={"DIES_AT": "8"})
    assert dead.returncode != 0
    assert not (tmp_path / "model" / "metrics.json").exists()
    process = launch(tmp_path, 2, *data, "--resume")
    assert process.returncode == 0, process.stderr
    assert [record["epoch"] for record in result(tmp_path / "model")["epochs"]] == [1, 2]


@pytest.mark.slow
def test_torchrun_reports_missing_data(tmp_path: Path) -> None:
    process = launch(tmp_path, 2, "--train", "nothing.conll", "--out", "model")
    assert process.returncode != 0
    assert "nothing.conll" in process.stderr
    assert not (tmp_path / "model").exists()


class CLibrary:
    """The options of a C library's memory, in place of the real one, which need not have an effect."""

    def __init__(self) -> None:
        self.options = {
            -1: 128 * 1024,
            -4: 65_536,
        }  # M_TRIM_THRESHOLD and M_MMAP_MAX
        self.trims = 0

    def mallopt(self, option: int, value: int) -> None:
        assert option in self.options
        self.options[option] = value

    def malloc_trim(self, pad: int) -> None:
        self.trims += 1


@pytest.mark.parametrize("error", [None, KeyboardInterrupt])
def test_freed_memory_is_kept_only_in_training(monkeypatch, error) -> None:
    library = CLibrary()
    before = dict(library.options)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    with suppress(KeyboardInterrupt), keep_freed_memory():
        assert library.options == {-1: 2**31 - 1, -4: 0}
        assert not library.trims
        if error:
            raise error
    assert library.options == before
    assert library.trims == 1


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_other_c_libraries_keep_their_options(monkeypatch, platform) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    with keep_freed_memory():
        pass

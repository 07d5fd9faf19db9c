"""`fencepost sweep`, as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from fencepost.cli import app
from fencepost.cli.progress import format_duration
from fencepost.data import read, write
from fencepost.data.entity import Sentence
from fencepost.experiments import sweep as sweep_module
from fencepost.experiments import trials
from fencepost.runtime.pytorch import load_model
from fencepost.training import hold_out
from tests.cli.conftest import Run, heed_ctrl_c

SMALL = [
    "--encoder=scratch",
    "--epochs=1",
    "--batch-size=4",
    "--set=encoder.lstm.size=16",
    "--set=encoder.scratch.word_size=8",
    "--set=method.size=8",
    "--set=predict.threshold=0",
    "--quiet",
]


@pytest.fixture(autouse=True, scope="module")
def one_core():
    """The number of threads decides the last digits of a result."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for part, count in (("train", 24), ("dev", 10), ("test", 10)):
        write(islice(read(f"sample:{part}"), count), folder / f"{part}.jsonl")
    return folder


def arguments(data: Path, out: Path, *more: str) -> list[str]:
    parts = [f"--{part}={data / part}.jsonl" for part in ("train", "dev", "test")]
    return ["sweep", *parts, f"--out={out}", *SMALL, *more]


GRID = ["--grid", "method.epsilon=0,0.3", "--seeds", "2"]


@pytest.fixture(scope="module")
def swept(data: Path) -> tuple[Path, Result]:
    """Folder of a sweep, and the output of the command."""
    command = arguments(data, data / "sweep", *GRID, "--json", str(data / "told.json"))
    command.remove("--quiet")
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return data / "sweep", result


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_prints_plan_runs_and_table(swept: tuple[Path, Result], data: Path) -> None:
    out, result = swept
    plan, *lines = result.stderr.splitlines()
    assert plan == "2 cells x 2 seeds = 4 runs"
    line = r"1/4 method\.epsilon=0, seed 1: dev F1 \d+\.\d\d, test F1 \d+\.\d\d, \d+ s; about \d+ s left"
    assert re.fullmatch(line, lines[0])
    assert re.fullmatch(r"4/4 method\.epsilon=0\.3, seed 2: dev F1 .*, \d+ s", lines[-1])
    assert len(lines) == 4
    header, *cells = [line for line in result.stdout.splitlines() if "F1" in line or "epsilon" in line]
    assert re.split(r"\s{2,}", header.strip()) == [
        "seeds", "dev F1", "test precision", "recall", "F1", "ECE, raw", "ECE"
    ]  # fmt: skip
    for row, cell in zip(rows(out / "sweep.csv"), cells, strict=True):
        name, seeds, dev, *_ = re.split(r"\s{2,}", cell.strip())
        assert (name, seeds) == (row["cell"], "2")
        assert dev == f"{100 * float(row['dev_f1_mean']):.2f} ± {100 * float(row['dev_f1_std']):.2f}"
    assert f"table as CSV: {out / 'sweep.csv'}" in result.stdout
    content = json.loads((data / "told.json").read_text())
    assert content["sweep"] == str(out)
    assert [cell["settings"] for cell in content["cells"]] == [
        {"method.epsilon": value} for value in ("0", "0.3")
    ]
    assert load_model(out / "method.epsilon=0.3" / "seed-2").config.method.epsilon == 0.3  # type: ignore[attr-defined]


def test_same_command_adds_a_seed(run: Run, swept: tuple[Path, Result], data: Path, tmp_path: Path) -> None:
    out = shutil.copytree(swept[0], tmp_path / "sweep")
    command = [one for one in arguments(data, out, *GRID) if one != "--quiet"]
    assert "4 already complete" in run(*command).stderr
    more = run(*command[:-1], "3", "--no-keep-models").stderr.splitlines()
    assert more[0] == "2 cells x 3 seeds = 6 runs; 4 already complete"
    assert [line.split(":")[0] for line in more[1:]] == [
        "5/6 method.epsilon=0, seed 3",
        "6/6 method.epsilon=0.3, seed 3",
    ]
    assert [row["seeds"] for row in rows(out / "sweep.csv")] == ["3", "3"]
    assert not list(out.rglob("*.safetensors"))


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_and_the_sweep_resumes(run: Run, data: Path, tmp_path: Path) -> None:
    """Ctrl-C is sent to all processes, like in a terminal; the same command resumes."""
    out = tmp_path / "sweep"
    command = [*arguments(data, out, *GRID[:2], "--workers=2"), "--epochs=8"]
    process = subprocess.Popen(
        [sys.executable, "-m", "fencepost", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    )
    _until(lambda: any(out.glob("*/*/checkpoints/*/trainer_state.json")))
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130, messages
    assert (
        messages == "fencepost: interrupted; run the same command again to continue; complete runs are kept\n"
    )
    _until(lambda: not _is_alive(process.pid))
    command = [one for one in command if one != "--quiet"]
    assert re.match(r"2 cells x 1 seed = 2 runs; [12] to continue\n", run(*command, "--workers=1").stderr)
    run(*command, "--workers=1", f"--out={tmp_path / 'undisturbed'}")
    assert (out / "runs.csv").read_text() == (tmp_path / "undisturbed" / "runs.csv").read_text()


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _is_alive(group: int) -> bool:
    """Return whether any process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_failed_run_does_not_stop_the_others(run: Run, data: Path, tmp_path: Path) -> None:
    """Word vectors are missing in one cell; the other cell is trained."""
    grid = ["--grid", "encoder.features.vectors=null,nowhere/vectors.txt"]
    result = run(*arguments(data, tmp_path, *grid), code=1)
    assert "1 of 2 runs failed; correct the cause and run the same command again" in result.stderr
    assert "encoder.features.vectors=nowhere/vectors.txt, seed 1: nowhere/vectors.txt" in result.stderr
    complete, failed = rows(tmp_path / "sweep.csv")
    assert (complete["seeds"], failed["seeds"]) == ("1", "0")
    assert "encoder.features.vectors=null" in result.stdout
    assert [path.name[:38] for path in tmp_path.glob("*/seed-1")] == ["seed-1"]


def test_refuses_wrong_arguments_before_training(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "train", lambda *_, **__: pytest.fail("it trains"))
    for more, message in [
        (
            ["--grid", "method.epsilom=0,0.1"],
            "method.epsilom: there is no such key; did you mean method.epsilon?",
        ),
        (["--grid", "method.epsilon=0,0.1,7"], "in the cell method.epsilon=7: method.epsilon: "),
        (["--also", "method.epsilon=0 training.epoch=3"], "did you mean training.epochs?"),
        (["--also", "method.epsilon"], "--also method.epsilon: write it as KEY=VALUE,VALUE"),
        (["--grid", "training.epochs=1,2"], "training.epochs is in the grid and given as an option"),
        (["--grid", "training.seed=1,2"], "give the number of seeds with --seeds"),
        (["--share", "0.5,x"], "--share 0.5,x: give numbers separated by commas"),
        (["--share", "0,1"], "give shares above 0 and at most 1, not 0"),
        (["--boundary-noise", "2"], "--boundary-noise: give probabilities between 0 and 1, not 2"),
        (["--dev-share", "0.1"], "--dev and --dev-share cannot be used together"),
        (["--recipe", "nothing"], "there is no recipe 'nothing'"),
    ]:
        assert message in run(*arguments(data, tmp_path / "out", *more), code=2).stderr
    assert (
        "give the training data with --train" in run("sweep", "--grid", "method.epsilon=0,1", code=2).stderr
    )
    assert "given twice" in run("sweep", "--train=-", "--dev=-", "--out=x", code=2).stderr
    assert not (tmp_path / "out").exists()


def _planned(run: Run, *command: str) -> list[str]:
    """Return the cells that would be trained."""
    return [cell["cell"] for cell in json.loads(run(*command, "--json", code=1).stdout)["cells"]]


def _refuse(*_: object, **__: object) -> None:
    raise RuntimeError


@pytest.mark.usefixtures("refusing")
def test_all_notations_of_a_grid_are_equal(run: Run, data: Path, tmp_path: Path) -> None:
    cells = [f"method.epsilon={e} method.smoothing_size={d}" for e in ("0", "0.1") for d in ("1", "2")]
    one = ["--grid", "method.epsilon=0,0.1", "method.smoothing_size=1,2"]
    two = ["--grid", "method.epsilon=0,0.1", "--grid", "method.smoothing_size=1,2"]
    three = ["--grid=method.epsilon=0,0.1", "method.smoothing_size=1,2"]
    for way in (one, two, three):
        assert _planned(run, *arguments(data, tmp_path, *way)) == cells


@pytest.mark.usefixtures("refusing")
def test_also_adds_cells_to_the_grid(run: Run, data: Path, tmp_path: Path) -> None:
    also = ["--also", "method.epsilon=0 method.label_smoothing=0.1,0.2", "--also=method.epsilon=0.3"]
    assert _planned(run, *arguments(data, tmp_path, *also, "--share=1")) == [
        "share=1",
        "method.epsilon=0 method.label_smoothing=0.1 share=1",
        "method.epsilon=0 method.label_smoothing=0.2 share=1",
        "method.epsilon=0.3 share=1",
    ]
    again = [*also, "--grid", "method.epsilon=0.2,0.3"]
    assert _planned(run, *arguments(data, tmp_path, *again))[1:3] == [
        "method.epsilon=0.3",
        "method.epsilon=0 method.label_smoothing=0.1",
    ]


@pytest.mark.usefixtures("refusing")
def test_grid_can_have_several_methods(run: Run, data: Path, tmp_path: Path) -> None:
    grid = ["--grid", "method.name=boundary-smoothing,boundary-offset"]
    assert len(_planned(run, *arguments(data, tmp_path, *grid))) == 2


@pytest.mark.usefixtures("refusing")
def test_names_settings_without_effect_and_their_cells(run: Run, data: Path, tmp_path: Path) -> None:
    command = [
        one for one in arguments(data, tmp_path, "--grid", "encoder.window=null,100") if one != "--quiet"
    ]
    messages = run(*command, "--set=training.frozen_epochs=1", code=1).stderr
    assert "for pretrained encoders, not for scratch (in encoder.window=100)\n" in messages
    assert "training.frozen_epochs has no effect: the encoder scratch has no pretrained weights\n" in messages


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run fail."""
    monkeypatch.setattr(sweep_module, "run_trial", _refuse)


def test_development_data_is_the_same_for_all_seeds(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: dict[str, tuple[list[Sentence], list[Sentence]]] = {}

    def spy(
        config: Any, training: list[Sentence], out: Path, dev: list[Sentence], *_: Any, **__: Any
    ) -> None:
        parts[str(out.relative_to(tmp_path))] = (training, dev)
        raise RuntimeError

    monkeypatch.setattr(trials, "train", spy)
    command = [one for one in arguments(data, tmp_path) if not one.startswith("--dev")]
    run(*command, "--dev-share=0.2", "--seeds=2", "--share=0.5,1", "--boundary-noise=0.5", code=1)
    training, development = hold_out(list(read(data / "train.jsonl")), 0.2, 1)
    assert [(name, len(training)) for name, (training, _) in parts.items()] == [
        (f"share={share:g} boundary-noise=0.5/seed-{seed}", round(share * len(training)))
        for share in (0.5, 1)
        for seed in (1, 2)
    ]
    assert all(dev == development for _, dev in parts.values())


@pytest.mark.usefixtures("refusing")
def test_commands_of_the_documentation_have_valid_cells(
    run: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The settings of their cells exist."""
    text = (Path(__file__).parents[2] / "docs" / "sweeps.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns("sweep")))
    planned = {}
    for block in blocks:
        _, *command = shlex.split(block.replace("\\\n", " ").replace(".conll", ".jsonl"))
        planned[command[command.index("--out") + 1]] = _planned(run, *command, "--quiet")
    assert {name: len(cells) for name, cells in planned.items()} == {
        "epsilons": 2,
        "smoothing": 10,
        "offsets": 9,
        "curve": 8,
        "noise": 4,
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (360000, "100 h 0 min")],
)
def test_durations_are_formatted(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text

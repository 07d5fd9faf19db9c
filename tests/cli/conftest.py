from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fencepost.cli import app
from fencepost.data import read
from fencepost.runtime.pytorch import load_model

Run = Callable[..., Result]


def heed_ctrl_c() -> None:
    """Restore Ctrl-C in a child process: background jobs of a shell and their children ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run() -> Run:
    """Run `fencepost` in this process; an unexpected exception fails the test."""

    def invoke(*arguments: object, code: int = 0, stdin: bytes | str | None = None) -> Result:
        result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return invoke


@pytest.fixture(scope="session")
def exported_model(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small model with graphs."""
    from fencepost.runtime.export import export

    folder = tmp_path_factory.mktemp("exported") / "model"
    shutil.copytree(small_model, folder)
    export(load_model(folder), folder)
    return folder


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Model without graphs that predicts nested entities in its training data, the start of the sample."""
    from fencepost.config import Config
    from fencepost.training import train

    settings = {
        "method": {"size": 32, "width_size": 8, "dropout": 0.0},
        "encoder": {"name": "scratch", "lstm": {"size": 64, "dropout": 0.0}},
        "training": {"epochs": 15, "batch_size": 4, "learning_rate": 0.01},
    }
    folder = tmp_path_factory.mktemp("small") / "model"
    train(Config.parse(settings), list(islice(read("sample:train"), 40)), folder)
    return folder

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from fencepost.cli.frame import app

Run = Callable[..., Result]


def heed_ctrl_c() -> None:
    """For a child process: a shell's background jobs, and so their children, would ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run() -> Run:
    """Runs `fencepost` in this process; an unexpected exception fails the test."""

    def invoke(*arguments: object, code: int = 0, stdin: bytes | str | None = None) -> Result:
        result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return invoke

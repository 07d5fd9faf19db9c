from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from fencepost.cli.frame import app

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Runs `fencepost` in this process; an unexpected exception fails the test."""

    def invoke(*arguments: object, code: int = 0, stdin: bytes | str | None = None) -> Result:
        result = CliRunner().invoke(app, [str(a) for a in arguments], input=stdin, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return invoke

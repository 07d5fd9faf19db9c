"""Spinning of PyTorch's threads: short, unless the user has chosen otherwise."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
IMPORTS = {
    "package": "import fencepost, torch",
    "training": "import fencepost; fencepost.train",
    "engine": "import fencepost.runtime.pytorch",
    "command line": "import fencepost.cli, fencepost.training",
    "worker of a sweep": "import fencepost.experiments.workers",
    "worker of Ray": "import fencepost.integrations.ray, torch",
}


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        check=True,
    )


def spin_count(program: str, **variables: str) -> str:
    """Return the spin count that OpenMP itself reports when PyTorch loads it."""
    output = run(program, OMP_DISPLAY_ENV="verbose", **variables).stderr
    match = re.search(r"GOMP_SPINCOUNT = '(\w+)'", output)
    if match is None:
        pytest.skip("this PyTorch has another OpenMP than GNU's")
    return match[1]


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, id=name, marks=() if name in ("package", "training") else pytest.mark.slow)
        for name, program in IMPORTS.items()
    ],
)
def test_threads_spin_shortly(program: str) -> None:
    assert spin_count(program) == "10000"


def test_keeps_wait_settings_of_the_user() -> None:
    program = IMPORTS["package"]
    assert spin_count(program, GOMP_SPINCOUNT="77") == "77"
    usual = spin_count("import torch", OMP_WAIT_POLICY="passive")
    assert spin_count(program, OMP_WAIT_POLICY="passive") == usual


def test_spin_count_is_set_before_pytorch_is_imported() -> None:
    program = "import os, sys, fencepost; print(os.environ['GOMP_SPINCOUNT'], 'torch' in sys.modules)"
    assert run(program).stdout == "10000 False\n"

"""The tools that are compared, the corpora, and the environments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT, say

SETTINGS = {"epochs": 8, "batch_size": 16, "learning_rate": 1e-4}
SENTENCES = 1000
"""Number of training sentences."""

REQUIREMENTS = Path(__file__).parent / "requirements"


@dataclass(frozen=True)
class Tool:
    """A tool: its title, its worker (also its environment), and whether it can represent nested entities."""

    title: str
    worker: str
    nested: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    confidences: bool = True

    @property
    def environment(self) -> str:
        return self.worker


TOOLS = {
    "fencepost": Tool("Fencepost, boundary smoothing", "fencepost", nested=True),
    "biaffine": Tool(
        "biaffine spans (Fencepost, `method.epsilon=0`)",
        "fencepost",
        nested=True,
        options={"config": {"method": {"name": "boundary-smoothing", "epsilon": 0.0}}},
    ),
    "token-classification": Tool("Hugging Face token classification", "token_classification", nested=False),
    "span-marker": Tool("SpanMarker", "span_marker", nested=False),
    "spancat": Tool("spaCy `spancat`", "spacy", nested=True, options={"component": "spancat"}),
    "spacy-ner": Tool("spaCy `ner`", "spacy", nested=False, options={"component": "ner"}, confidences=False),
}


def select_standard(lines: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the results with the default settings; the others are not in the tables."""
    standard = {**SETTINGS, "sentences": SENTENCES}
    return [line for line in lines if standard.items() <= line.items()]


def get_python(name: str, folder: Path) -> Path:
    return folder / name / "bin" / "python"


def make_environment(name: str, folder: Path) -> None:
    """Make the environment of a tool, if it does not exist."""
    environment = folder / name
    ready = environment / "ready"
    python = get_python(name, folder)
    if not ready.is_file():
        say(f"making the environment {environment}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS / f"{name}.txt"],
            cwd=ROOT,
            check=True,
        )
        ready.touch()


def measure_size(environment: Path) -> int:
    """Return the size of what is installed, in MB, without compiled files and pip's own."""
    packages = next((environment / "lib").glob("python*")) / "site-packages"
    own = {"pip", "setuptools", "_distutils_hack", "pkg_resources"}
    return round(
        sum(
            path.stat().st_size
            for path in packages.rglob("*")
            if path.is_file()
            and path.suffix != ".pyc"
            and path.relative_to(packages).parts[0].split("-")[0] not in own
        )
        / 1e6
    )

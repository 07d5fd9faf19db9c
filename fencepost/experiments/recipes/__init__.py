"""The papers' settings, ready to run: one YAML file for each paper and corpus.

A file has what the paper says, and in `notes` what it leaves open and what stands here instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fencepost.errors import UsageError
from fencepost.settings import Tree, parsed

METHODS = ("boundary-smoothing", "boundary-offset", "locate-and-label", "diffusion")
"""The folders with recipes, in the order in which they are listed."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a paper did on one corpus: its settings, and the F1 that it reports for them, in percent."""

    name: str
    paper: str
    table: str
    """Where in the paper the F1 stands."""
    corpus: str
    f1: float
    notes: tuple[str, ...]
    """What the paper leaves open, and what was taken instead."""
    config: Tree
    text: str
    """The file."""

    @property
    def encoder(self) -> str:
        name: str = self.config["encoder"]["name"]
        return name


def recipe(name: str) -> Recipe:
    """The recipe `method/corpus`."""
    found = _texts()
    if name not in found:
        raise UsageError.unknown("recipe", name, found)
    return _read(name, found[name])


def recipes() -> list[Recipe]:
    """All recipes, by method."""
    return [_read(name, text) for name, text in _texts().items()]


@cache
def _texts() -> dict[str, str]:
    """The files by the names of their recipes."""
    return {
        f"{method}/{file.name.removesuffix('.yaml')}": file.read_text(encoding="utf-8")
        for method in METHODS
        for file in sorted((files(__name__) / method).iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    }


def _read(name: str, text: str) -> Recipe:
    tree = parsed(text)
    return Recipe(
        name=name,
        paper=tree["paper"],
        table=tree["table"],
        corpus=tree["corpus"],
        f1=tree["f1"],
        notes=tuple(tree["notes"]),
        config=tree["config"],
        text=text,
    )

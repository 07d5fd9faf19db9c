"""Settings of the papers: one YAML file for each paper and corpus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fencepost.errors import UsageError
from fencepost.settings import Tree, parse_yaml

METHODS = ("boundary-smoothing", "boundary-offset", "locate-and-label", "diffusion")
"""Folders with recipes, in the order of the list."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a paper for one corpus, and the F1 that it reports for them, in percent.

    `table` is the source of the F1 in the paper, `notes` are settings that the paper leaves open and the
    values used instead, and `text` is the content of the file.
    """

    name: str
    paper: str
    table: str
    corpus: str
    f1: float
    notes: tuple[str, ...]
    config: Tree
    text: str

    @property
    def encoder(self) -> str:
        name: str = self.config["encoder"]["name"]
        return name


def recipe(name: str) -> Recipe:
    """Return the recipe `method/corpus`; raise `UsageError` if there is none."""
    texts = _read_files()
    if name not in texts:
        raise UsageError.unknown("recipe", name, texts)
    tree = parse_yaml(texts[name])
    return Recipe(name=name, text=texts[name], **{**tree, "notes": tuple(tree["notes"])})


def recipes() -> list[Recipe]:
    """Return all recipes, by method."""
    return [recipe(name) for name in _read_files()]


@cache
def _read_files() -> dict[str, str]:
    """Return the contents of the files by recipe name."""
    return {
        f"{method}/{file.name.removesuffix('.yaml')}": file.read_text(encoding="utf-8")
        for method in METHODS
        for file in sorted((files(__name__) / method).iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    }

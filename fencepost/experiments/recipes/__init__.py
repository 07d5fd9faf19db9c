"""The papers' settings, ready to run: one YAML file for each paper and corpus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fencepost.errors import UsageError
from fencepost.settings import Tree, parse_yaml

METHODS = ("boundary-smoothing", "boundary-offset", "locate-and-label", "diffusion")
"""The folders with recipes, in the order in which they are listed."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a paper on one corpus, and the F1 that it reports for them, in percent.

    `table` is where in the paper the F1 is, `notes` what the paper leaves open and what is used instead, and
    `text` the file.
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
    """Return the recipe `method/corpus`."""
    texts = _texts()
    if name not in texts:
        raise UsageError.unknown("recipe", name, texts)
    tree = parse_yaml(texts[name])
    return Recipe(name=name, text=texts[name], **{**tree, "notes": tuple(tree["notes"])})


def recipes() -> list[Recipe]:
    """Return all recipes, by method."""
    return [recipe(name) for name in _texts()]


@cache
def _texts() -> dict[str, str]:
    """Return the files by the names of their recipes."""
    return {
        f"{method}/{file.name.removesuffix('.yaml')}": file.read_text(encoding="utf-8")
        for method in METHODS
        for file in sorted((files(__name__) / method).iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    }

"""`fencepost recipes`: the papers' settings that `fencepost train --recipe` runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.frame import Json, check_json_target, command, output_result

if TYPE_CHECKING:
    from fencepost.experiments.recipes import Recipe

Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Print this recipe, as boundary-smoothing/conll2003.")
]


@command("recipes")
def recipes(name: Name = None, json: Json = None) -> None:
    """List the papers' settings for each corpus, with the F1 that they report; or print one of them.

    Example: fencepost recipes boundary-smoothing/conll2003
    """
    check_json_target(json)
    from fencepost.experiments.recipes import recipe
    from fencepost.experiments.recipes import recipes as list_recipes

    if name is not None:
        chosen = recipe(name)
        result, text = _description(chosen), chosen.text
    else:
        listed = list_recipes()
        result, text = {"recipes": [_description(one) for one in listed]}, _table(listed)
    output_result(result, json, lambda: typer.echo(text, nl=False))


def _description(recipe: Recipe) -> dict[str, Any]:
    tree = asdict(recipe)
    del tree["text"]
    return tree


def _table(listed: list[Recipe]) -> str:
    """Return columns as wide as their texts, whatever the terminal: the names are to be copied."""
    rows = [("recipe", "paper", "corpus", "encoder", "F1")]
    rows += [(one.name, one.paper, one.corpus, one.encoder, f"{one.f1:.2f}") for one in listed]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
    return "".join(f"{line}\n" for line in lines)

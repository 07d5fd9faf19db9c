"""`fencepost recipes`: the papers' settings that `fencepost train --recipe` runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.frame import Json, check_json_target, command, write_json

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
    from fencepost.experiments import recipes as stored

    if name is not None:
        chosen = stored.recipe(name)
        result, shown = _told(chosen), chosen.text
    else:
        listed = stored.recipes()
        result, shown = {"recipes": [_told(one) for one in listed]}, _table(listed)
    if json is not None:
        write_json(result, json)
    if json is None or str(json) != "-":
        typer.echo(shown, nl=False)


def _told(recipe: Recipe) -> dict[str, Any]:
    return {
        "name": recipe.name,
        "paper": recipe.paper,
        "table": recipe.table,
        "corpus": recipe.corpus,
        "f1": recipe.f1,
        "notes": list(recipe.notes),
        "config": recipe.config,
    }


def _table(listed: list[Recipe]) -> str:
    """Columns as wide as what they hold, whatever the terminal: names are there to be copied."""
    rows = [("recipe", "paper", "corpus", "encoder", "F1")]
    rows += [(one.name, one.paper, one.corpus, one.encoder, f"{one.f1:.2f}") for one in listed]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
    return "".join(f"{line}\n" for line in lines)

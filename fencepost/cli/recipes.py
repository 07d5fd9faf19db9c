"""`fencepost recipes`: list the settings of the papers for `fencepost train --recipe`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from fencepost.cli.frame import Json, check_json_target, command, output_result
from fencepost.cli.groups import argument

if TYPE_CHECKING:
    from fencepost.experiments.recipes import Recipe


@command("recipes")
def recipes(
    name: str | None = argument(
        "[NAME]", "Recipe to print, for example boundary-smoothing/conll2003. Default: list all.", None
    ),
    json: Json = None,
) -> None:
    """List the settings of the papers for each corpus, with the F1 that they report, or print one of them.

    Example: fencepost recipes boundary-smoothing/conll2003
    """
    check_json_target(json)
    from fencepost.experiments.recipes import recipe
    from fencepost.experiments.recipes import recipes as list_recipes

    if name is not None:
        selected = recipe(name)
        result, text = _to_dict(selected), selected.text
    else:
        every = list_recipes()
        result, text = {"recipes": [_to_dict(one) for one in every]}, _format_table(every)
    output_result(result, json, lambda: typer.echo(text, nl=False))


def _to_dict(recipe: Recipe) -> dict[str, Any]:
    tree = asdict(recipe)
    del tree["text"]
    return tree


def _format_table(recipes: list[Recipe]) -> str:
    """Return a table that is not fitted to the terminal, so that names can be copied."""
    rows = [("recipe", "paper", "corpus", "encoder", "F1")]
    rows += [(one.name, one.paper, one.corpus, one.encoder, f"{one.f1:.2f}") for one in recipes]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
    return "".join(f"{line}\n" for line in lines)

"""Hooks of the documentation site: pages that stand elsewhere, and the command reference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

ROOT = Path(__file__).parent.parent
ELSEWHERE = {"contributing.md": "CONTRIBUTING.md", "english-model.md": "fencepost/models/english/README.md"}
PLACE = "<!-- the commands -->"
_CELL = str.maketrans({"|": "\\|", "<": "&lt;", "\n": " "})


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by MkDocs with all files: some pages of the repository stand outside of its folder."""
    for name, path in ELSEWHERE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Called by MkDocs for each page: links to those pages lead to where they are on the site."""
    if page.file.src_uri in ELSEWHERE:
        markdown = markdown.replace("](docs/", "](")
    for name, path in ELSEWHERE.items():
        markdown = markdown.replace(f"](../{path}", f"]({name}")
    return markdown.replace(PLACE, command_reference()) if PLACE in markdown else markdown


def command_reference() -> str:
    """All commands with all their options, as Markdown."""
    from fencepost.cli import app

    root = typer.main.get_command(app)
    return "\n".join(_lines(root, "fencepost"))


def _lines(command: Any, path: str) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for name in sorted(command.commands):
            yield from _lines(command.commands[name], f"{path} {name}")
        return
    yield from (f"## {path}", "", *_description(command), "", "```text", _usage(command, path), "```", "")
    arguments = [one for one in command.params if isinstance(one, TyperArgument) and not one.hidden]
    if arguments:
        yield from ("| argument | meaning |", "|---|---|")
        yield from (f"| `{_name(one)}` | {_cell(one.help)} |" for one in arguments)
        yield ""
    panels: dict[str, list[TyperOption]] = {}
    for one in command.params:
        if isinstance(one, TyperOption) and not one.hidden:
            panels.setdefault(one.rich_help_panel or "Options", []).append(one)
    for title, options in panels.items():
        yield from (f"{title}:", "", "| option | meaning | default |", "|---|---|---|")
        yield from (f"| {_option(one)} | {_cell(one.help)} | {_default(one)} |" for one in options)
        yield ""


def _description(command: TyperCommand) -> Iterator[str]:
    """The help, with examples as blocks of code."""
    for paragraph in (command.help or "").split("\n\n"):
        text = " ".join(paragraph.split()).removeprefix("Example: ")
        yield from ("", f"    {text}", "") if text.startswith("fencepost ") else (text, "")


def _usage(command: TyperCommand, path: str) -> str:
    arguments = [_name(one) for one in command.params if isinstance(one, TyperArgument)]
    return " ".join([path, "[OPTIONS]", *arguments])


def _name(argument: TyperArgument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _option(option: TyperOption) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names
    kind = option.type_descriptor.annotation
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    value = "|".join(choices) or option.metavar or getattr(kind, "__name__", "text").upper()
    return f"{names} {_cell(value)}"


def _default(option: TyperOption) -> str:
    value = option.default
    if value is None or value is False or value == [] or callable(value) or option.show_default is False:
        return ""
    return f"`{value}`" if value is not True else "yes"


def _cell(text: str | None) -> str:
    return (text or "").translate(_CELL)

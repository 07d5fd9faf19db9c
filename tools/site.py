"""Hooks of the documentation site: pages outside of `docs/`, and the command reference."""

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
    """Add the pages outside of `docs/`; MkDocs calls this with all files."""
    for name, path in ELSEWHERE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Return a page with corrected links to the added pages, and the commands; MkDocs calls this for each."""
    if page.file.src_uri in ELSEWHERE:
        markdown = markdown.replace("](docs/", "](")
    for name, path in ELSEWHERE.items():
        markdown = markdown.replace(f"](../{path}", f"]({name}")
    return markdown.replace(PLACE, command_reference()) if PLACE in markdown else markdown


def command_reference() -> str:
    """Return all commands with all their options, as Markdown."""
    from fencepost.cli import app

    root = typer.main.get_command(app)
    return "\n".join(_describe(root, "fencepost"))


def _describe(command: Any, path: str) -> Iterator[str]:
    if isinstance(command, TyperGroup):
        for name in sorted(command.commands):
            yield from _describe(command.commands[name], f"{path} {name}")
        return
    yield from (f"## {path}", "", *_show_help(command), "", "```text", _show_usage(command, path), "```", "")
    arguments = [one for one in command.params if isinstance(one, TyperArgument) and not one.hidden]
    if arguments:
        yield from ("| argument | meaning |", "|---|---|")
        yield from (f"| `{_get_name(one)}` | {_escape(one.help)} |" for one in arguments)
        yield ""
    panels: dict[str, list[TyperOption]] = {}
    for one in command.params:
        if isinstance(one, TyperOption) and not one.hidden:
            panels.setdefault(one.rich_help_panel or "Options", []).append(one)
    for title, options in panels.items():
        yield from (f"{title}:", "", "| option | meaning | default |", "|---|---|---|")
        for one in options:
            yield f"| {_show_option(one)} | {_escape(one.help)} | {_show_default(one)} |"
        yield ""


def _show_help(command: TyperCommand) -> Iterator[str]:
    """Yield the lines of the help, with examples as code blocks."""
    for paragraph in (command.help or "").split("\n\n"):
        text = " ".join(paragraph.split()).removeprefix("Example: ")
        yield from ("", f"    {text}", "") if text.startswith("fencepost ") else (text, "")


def _show_usage(command: TyperCommand, path: str) -> str:
    arguments = [_get_name(one) for one in command.params if isinstance(one, TyperArgument)]
    return " ".join([path, "[OPTIONS]", *arguments])


def _get_name(argument: TyperArgument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _show_option(option: TyperOption) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    if option.is_flag:
        return names
    kind = option.type_descriptor.annotation
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    value = "|".join(choices) or option.metavar or getattr(kind, "__name__", "text").upper()
    return f"{names} {_escape(value)}"


def _show_default(option: TyperOption) -> str:
    value = option.default
    if value is None or value is False or value == [] or callable(value) or option.show_default is False:
        return ""
    return f"`{value}`" if value is not True else "yes"


def _escape(text: str | None) -> str:
    return (text or "").translate(_CELL)

"""Hooks of the documentation site: pages from outside `docs/`, and the generated references."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import annotated_types
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

ROOT = Path(__file__).parent.parent
OUTSIDE_PAGES = {
    "contributing.md": "CONTRIBUTING.md",
    "mentions-model.md": "fencepost-models/fencepost_models/mentions/README.md",
    "names-model.md": "fencepost/models/names/README.md",
}
"""Pages of the site whose files are not in `docs/`."""

_CELL = str.maketrans({"|": "\\|", "<": "&lt;", "\n": " "})
_TYPE_NAMES = {int: "integer", float: "number", str: "text", bool: "boolean", Path: "path"}
_BOUNDS = {
    annotated_types.Ge: ("≥ {}", "ge"),
    annotated_types.Gt: ("> {}", "gt"),
    annotated_types.Le: ("≤ {}", "le"),
    annotated_types.Lt: ("< {}", "lt"),
    annotated_types.MultipleOf: ("a multiple of {}", "multiple_of"),
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages whose files are outside `docs/`; MkDocs calls this with all files."""
    for name, path in OUTSIDE_PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Correct the links to pages outside `docs/`, and insert the generated references and quoted files."""
    if page.file.src_uri in OUTSIDE_PAGES:
        markdown = markdown.replace("](docs/", "](")
    for name, path in OUTSIDE_PAGES.items():
        markdown = markdown.replace(f"](../{path}", f"]({name}")
    for mark, generate in GENERATED.items():
        if mark in markdown:
            markdown = markdown.replace(mark, generate())
    return re.sub(r"<!-- (deploy/[\w.]+) -->", lambda match: _quote_file(match[1]), markdown)


def command_reference() -> str:
    """Return all commands with all their options, as Markdown."""
    from fencepost.cli import app

    root = typer.main.get_command(app)
    return "\n".join(_describe_command(root, "fencepost"))


def settings_reference() -> str:
    """Return all settings with their types, defaults and descriptions, as Markdown."""
    from fencepost.config import Config
    from fencepost.methods.registry import METHODS
    from fencepost.methods.settings import PredictSettings

    config = Config.compose()
    parts: list[tuple[str, str, type[BaseModel]]] = [
        ("Encoder", "encoder", type(config.encoder)),
        ("Training", "training", type(config.training)),
        ("Prediction", "predict", PredictSettings),
        ("Text", "text", type(config.text)),
    ]
    lines: list[str] = []
    for title, prefix, model in parts:
        lines += (f"## {title}", "", *_settings_table(model, prefix))
    for name, method in METHODS.items():
        config = Config.compose(changes=[f"method.name={name}"])
        changes = ", ".join(f"`{key}={_value(value)}`" for key, value in _flatten(method.defaults))
        lines += (f"## Method `{name}`", "", f"Other defaults with this method: {changes or 'none'}.", "")
        lines += _settings_table(type(config.method), "method", skip={"name"})
        if set(type(config.predict).model_fields) > (shared := set(PredictSettings.model_fields)):
            lines += _settings_table(type(config.predict), "predict", skip=shared)
    return "\n".join(lines)


GENERATED: dict[str, Callable[[], str]] = {
    "<!-- the commands -->": command_reference,
    "<!-- the settings -->": settings_reference,
}
"""By the comment that a generated reference replaces, the function that generates it."""


def _quote_file(path: str) -> str:
    """Return a file of the repository as a code block."""
    language = {".yaml": "yaml", ".service": "ini"}.get(Path(path).suffix, "dockerfile")
    return f'```{language} title="{path}"\n{(ROOT / path).read_text(encoding="utf-8")}```'


def _settings_table(model: type[BaseModel], prefix: str, skip: Collection[str] = ()) -> Iterator[str]:
    yield from ("| key | type | default | description |", "|---|---|---|---|")
    for key, field in _fields(model, prefix, skip):
        default = field.get_default(call_default_factory=True)
        text = "none" if default is None else f"`{_value(default)}`"
        yield f"| `{key}` | {_describe_type(field)} | {text} | {_cell(field.description)} |"
    yield ""


def _fields(model: type[BaseModel], prefix: str, skip: Collection[str]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields of a model by key, with those of nested models in place of the model."""
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if name in skip:
            continue
        if isinstance(default, BaseModel):
            yield from _fields(type(default), f"{prefix}.{name}", ())
        else:
            yield f"{prefix}.{name}", field


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _value(value: Any) -> str:
    return json.dumps(value).replace('"', "")


def _describe_type(field: FieldInfo) -> str:
    bounds = [
        text.format(getattr(bound, name))
        for bound in field.metadata
        for kind, (text, name) in _BOUNDS.items()
        if isinstance(bound, kind)
    ]
    return _cell(", ".join([_type_name(field.annotation), *bounds]))


def _type_name(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_type_name(one) for one in arguments if one is not NoneType)
    if origin is tuple:
        return f"list of {_type_name(arguments[0])}"
    if origin is dict:
        return f"{_type_name(arguments[1])} for each type"
    return _TYPE_NAMES.get(annotation, "mapping")


def _describe_command(command: Any, path: str) -> Iterator[str]:
    """Yield the lines about a command, or about each command of a group."""
    if isinstance(command, TyperGroup):
        for name in sorted(command.commands):
            yield from _describe_command(command.commands[name], f"{path} {name}")
        return
    yield from (f"## {path}", "", *_help_lines(command), "", "```text", _usage(command, path), "```", "")
    arguments = [one for one in command.params if isinstance(one, TyperArgument) and not one.hidden]
    if arguments:
        yield from ("| argument | meaning |", "|---|---|")
        yield from (f"| `{_argument_name(one)}` | {_cell(one.help)} |" for one in arguments)
        yield ""
    panels: dict[str, list[TyperOption]] = {}
    for one in command.params:
        if isinstance(one, TyperOption) and not one.hidden:
            panels.setdefault(one.rich_help_panel or "Options", []).append(one)
    for title, options in panels.items():
        yield from (f"{title}:", "", "| option | meaning | default |", "|---|---|---|")
        yield from (f"| {_option_name(one)} | {_cell(one.help)} | {_default(one)} |" for one in options)
        yield ""


def _help_lines(command: TyperCommand) -> Iterator[str]:
    """Yield the help of a command, with its examples as code blocks."""
    for paragraph in (command.help or "").split("\n\n"):
        text = " ".join(paragraph.split()).removeprefix("Example: ")
        yield from ("", f"    {text}", "") if text.startswith("fencepost ") else (text, "")


def _usage(command: TyperCommand, path: str) -> str:
    arguments = [_argument_name(one) for one in command.params if isinstance(one, TyperArgument)]
    return " ".join([path, "[OPTIONS]", *arguments])


def _argument_name(argument: TyperArgument) -> str:
    name = argument.metavar or (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _option_name(option: TyperOption) -> str:
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

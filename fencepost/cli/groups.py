"""Groups of options that several commands share; `--help` shows each group under its own title."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

import typer
from typer.models import OptionInfo, ParameterInfo

T = TypeVar("T")
REQUIRED: Any = ...
"""Default of an option that must be given."""

_INFO = "typer"
"""Key of the metadata of a field with what Typer needs to know about it."""


def option(default: T, text: str, *names: str, panel: str | None = None, **more: Any) -> T:
    """Return the default of a field or parameter that is an option, with its help text.

    `names` are by default that of the parameter, as in `--batch-size`; `panel` is the title in `--help`.
    """
    info = typer.Option(default, *names, help=text, rich_help_panel=panel, **more)
    return field(default=default, metadata={_INFO: info})


def argument(metavar: str, text: str, default: Any = REQUIRED) -> Any:
    """Return the default of a parameter that is an argument, with its help text."""
    return field(default=default, metadata={_INFO: typer.Argument(default, metavar=metavar, help=text)})


@dataclass(frozen=True, kw_only=True)
class OptionGroup:
    """Group of options that a command takes as one parameter, as in `def inspect(reading: ReadingOptions)`.

    The fields of a subclass are the options, as in `count: int = option(1, ...)`. A class that
    inherits from several groups has the options of all of them.
    """

    title: ClassVar[str | None] = None
    """Title in `--help` of the options that the class itself declares."""

    @classmethod
    def parameters(cls) -> Iterator[inspect.Parameter]:
        """Yield the options as function parameters: those of the class first, then inherited ones."""
        options = {one.name: one for one in fields(cls)}
        hints = get_type_hints(cls, include_extras=True)
        for owner in cls.__mro__:
            for name in inspect.get_annotations(owner):
                if name in options:
                    title = getattr(owner, "title", None)
                    yield _make_parameter(name, hints[name], options.pop(name), title)


def _make_parameter(name: str, hint: Any, default: Any, title: str | None = None) -> inspect.Parameter:
    """Return a parameter as Typer needs it, under this title in `--help` unless the option has its own.

    Its default is that of `option` or `argument`, or its type is `Annotated` with an option.
    """
    if isinstance(default, Field):
        default = default.metadata.get(_INFO, default.default)
    if isinstance(default, ParameterInfo):
        default = info = copy.copy(default)
        if isinstance(info, OptionInfo):
            info.param_decls = info.param_decls or (f"--{name.replace('_', '-')}",)
    else:
        info = copy.copy(hint.__metadata__[0])
        hint = Annotated[hint.__origin__, info]
    info.rich_help_panel = info.rich_help_panel or title
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def expand_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with each group replaced by one parameter per option, as Typer needs it."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, type[OptionGroup]] = {}
    own: list[inspect.Parameter] = []
    shared: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        hint = hints[name]
        if isinstance(hint, type) and issubclass(hint, OptionGroup):
            groups[name] = hint
            shared += hint.parameters()
        else:
            own.append(_make_parameter(name, hint, parameter.default))

    parameters = own + shared

    @functools.wraps(function)
    def run(**arguments: Any) -> None:
        for name, group in groups.items():
            arguments[name] = group(**{field.name: arguments.pop(field.name) for field in fields(group)})
        function(**arguments)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run

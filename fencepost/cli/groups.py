"""Groups of options that several commands share; `--help` shows each group under its own title."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, get_type_hints

import typer


def option(name: str, text: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option with a help text; `panel` is its title in `--help`."""
    return typer.Option(name, help=text, rich_help_panel=panel, **more)


def argument(metavar: str, text: str) -> Any:
    """Return an argument with a help text."""
    return typer.Argument(metavar=metavar, help=text)


@dataclass(frozen=True, kw_only=True)
class OptionGroup:
    """Group of options that a command takes as one parameter, as in `def inspect(reading: ReadingOptions)`.

    The fields of a subclass are the options, as in `count: Annotated[int, option(...)] = 1`. A class that
    inherits from several groups has the options of all of them.
    """

    title: ClassVar[str | None] = None
    """Title in `--help` of the options that the class itself declares."""

    @classmethod
    def parameters(cls) -> Iterator[inspect.Parameter]:
        """Yield the options as function parameters: those of the class first, then inherited ones."""
        defaults = {field.name: field.default for field in fields(cls)}
        hints = get_type_hints(cls, include_extras=True)
        for owner in cls.__mro__:
            for name in inspect.get_annotations(owner):
                if name in defaults:
                    info = copy.copy(hints[name].__metadata__[0])
                    info.rich_help_panel = info.rich_help_panel or getattr(owner, "title", None)
                    yield inspect.Parameter(
                        name,
                        inspect.Parameter.KEYWORD_ONLY,
                        default=defaults.pop(name),
                        annotation=Annotated[hints[name].__origin__, info],
                    )


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
            own.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hint))

    parameters = own + shared

    @functools.wraps(function)
    def run(**arguments: Any) -> None:
        for name, group in groups.items():
            arguments[name] = group(**{field.name: arguments.pop(field.name) for field in fields(group)})
        function(**arguments)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run

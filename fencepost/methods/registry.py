"""Methods and their decoders by name, also those that other packages bring."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib.metadata import EntryPoints, entry_points
from typing import Any, TypeVar

from fencepost.errors import UsageError, describe_error

C = TypeVar("C")


class Registry(MutableMapping[str, type[C]]):
    """Classes by name: our own, and those that packages bring as entry points of a group.

    Those of packages are looked for when a name is asked for that is not known yet: so they cost nothing
    to others, cannot replace a name that is there, and one that is broken is told of only then.
    """

    def __init__(self, kind: str, base: type[Any], known: dict[str, type[C]]) -> None:
        self._kind, self._base, self._known = kind, base, known

    def __getitem__(self, name: str) -> type[C]:
        if name not in self._known:
            self._known[name] = self._brought(name)
        return self._known[name]

    def __setitem__(self, name: str, class_: type[C]) -> None:
        self._known[name] = class_

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._known or name in self._entry_points().names

    def __iter__(self) -> Iterator[str]:
        yield from self._known
        yield from sorted(self._entry_points().names - self._known.keys())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _entry_points(self) -> EntryPoints:
        return entry_points(group=f"fencepost.{self._kind}s")

    def _brought(self, name: str) -> type[C]:
        found = list(self._entry_points().select(name=name))
        if not found:
            raise KeyError(f"there is no {self._kind} {name!r}; is the package that brings it installed?")
        packages = " and ".join(sorted(point.dist.name if point.dist else "?" for point in found))
        told = f"the {self._kind} {name} of the package {packages}"
        if len(found) > 1:
            raise UsageError(f"{told}: which of them is meant? Uninstall the others")
        try:
            class_ = found[0].load()
        except Exception as error:
            reason = f"{type(error).__name__}: {describe_error(error)}"
            raise UsageError(f"{told} cannot be imported ({reason}); repair or uninstall it") from error
        if not (isinstance(class_, type) and issubclass(class_, self._base)):
            raise UsageError(f"{told} is no subclass of {self._base.__name__}: {found[0].value}")
        return class_

"""Methods by name: ours, and those that other packages bring as entry points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoints, entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from fencepost.errors import UsageError, describe_error
from fencepost.methods.decoder import Decoder, Report
from fencepost.methods.settings import MethodSettings, PredictSettings

if TYPE_CHECKING:
    from fencepost.methods.network import Network

GROUP = "fencepost.methods"
"""The group of entry points in which packages declare their methods."""


@dataclass(frozen=True, eq=False)
class Method:
    """All parts of a method. Only its network needs PyTorch, and is imported when it is needed."""

    settings: type[MethodSettings]
    decoder: type[Decoder[Any]]
    network: str | type[Network[Any]]
    """The `Network`, or where it is as `package.module:Class`, so that prediction need not import PyTorch."""
    predict: type[PredictSettings] = PredictSettings
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Where the paper's encoder or training differs from our defaults: a part of a config."""
    reports: Mapping[str, type[Report]] = field(default_factory=dict)
    """By name, the reports that `fencepost analyze method` shows."""

    def load_network(self) -> type[Network[Any]]:
        """Import the network."""
        network: type[Network[Any]] = (
            resolve_name(self.network) if isinstance(self.network, str) else self.network
        )
        return network


class Registry(MutableMapping[str, Method]):
    """Methods by name.

    Those of other packages are looked up when a name is used that is not known yet: so they cost nothing
    to others, cannot replace a name that exists, and a broken one is reported only when it is used.
    """

    def __init__(self, known: Mapping[str, Method | str]) -> None:
        """`known` has methods, or where they are as `package.module:NAME`."""
        self._known = dict(known)

    def __getitem__(self, name: str) -> Method:
        method = self._known.get(name)
        if method is None:
            method = self._load_entry_point(name)
        elif isinstance(method, str):
            method = resolve_name(method)
        self._known[name] = method
        return method

    def __setitem__(self, name: str, method: Method) -> None:
        self._known[name] = method

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
        return entry_points(group=GROUP)

    def _load_entry_point(self, name: str) -> Method:
        points = list(self._entry_points().select(name=name))
        if not points:
            raise KeyError(f"there is no method {name!r}; is the package that brings it installed?")
        packages = " and ".join(sorted(point.dist.name if point.dist else "?" for point in points))
        subject = f"the method {name} of the package {packages}"
        if len(points) > 1:
            raise UsageError(f"{subject}: which of them is meant? Uninstall the others")
        try:
            method = points[0].load()
        except Exception as error:
            reason = f"{type(error).__name__}: {describe_error(error)}"
            raise UsageError(f"{subject} cannot be imported ({reason}); repair or uninstall it") from error
        if not isinstance(method, Method):
            raise UsageError(f"{subject} is not a fencepost.methods.registry.Method: {points[0].value}")
        return method


METHODS = Registry(
    {
        "boundary-smoothing": "fencepost.methods.boundary_smoothing:METHOD",
        "boundary-offset": "fencepost.methods.boundary_offset:METHOD",
        "locate-and-label": "fencepost.methods.locate_and_label:METHOD",
        "diffusion": "fencepost.methods.diffusion:METHOD",
    }
)

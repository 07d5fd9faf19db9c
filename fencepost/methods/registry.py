"""Registry of methods: those of Fencepost, and those that other packages declare as entry points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoints, entry_points
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from fencepost.errors import UsageError, describe_error
from fencepost.methods.decoder import Decoder, Report
from fencepost.methods.settings import MethodSettings, PredictSettings

if TYPE_CHECKING:
    from fencepost.methods.network import Network

GROUP = "fencepost.methods"
"""Group of entry points in which packages declare methods."""


@dataclass(frozen=True, eq=False)
class Method:
    """The parts of a method. Only the network needs PyTorch; it is imported when it is needed."""

    settings: type[MethodSettings]
    decoder: type[Decoder[Any]]
    network: str | type[Network[Any]] | None
    """The `Network`, or its location as `package.module:Class`, to import PyTorch only when needed.

    None for a method that is not trained.
    """
    predict: type[PredictSettings] = PredictSettings
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Part of a configuration that replaces general defaults of the encoder and of training."""
    reports: Mapping[str, type[Report]] = field(default_factory=dict)
    """Reports for `fencepost analyze method`, by name."""

    def load_network(self) -> type[Network[Any]]:
        """Import and return the class of the network; raise `UsageError` if the method is not trained."""
        if self.network is None:
            name = self.settings.model_fields["name"].default
            raise UsageError(f"method.name: {name} cannot be trained; it is made from trained models")
        network: type[Network[Any]] = (
            resolve_name(self.network) if isinstance(self.network, str) else self.network
        )
        return network


class Registry(MutableMapping[str, Method]):
    """Methods by name.

    Methods of other packages are loaded when an unknown name is used. So they do not slow down other methods,
    cannot replace an existing name, and are reported as broken only when they are used.
    """

    def __init__(
        self, known: Mapping[str, Method | str], untrained: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Create a registry of methods, or of their locations as `package.module:NAME`.

        Methods that are not trained can be looked up, but are not listed.
        """
        self._known = dict(known)
        self._untrained = untrained

    def __getitem__(self, name: str) -> Method:
        method = self._known.get(name)
        if method is None and name in self._untrained:
            return cast(Method, resolve_name(self._untrained[name]))
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
        return name in self._known or name in self._untrained or name in self._entry_points().names

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
            raise KeyError(f"there is no method {name!r}; is the package that provides it installed?")
        packages = " and ".join(sorted(point.dist.name if point.dist else "?" for point in points))
        subject = f"the method {name} of the package {packages}"
        if len(points) > 1:
            raise UsageError(f"{subject} is ambiguous: several packages declare it; uninstall all but one")
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
    },
    untrained={"combination": "fencepost.methods.combination:METHOD"},
)

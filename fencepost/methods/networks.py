"""The networks of methods, by name."""

from typing import Any

from fencepost.methods.boundary_offset.network import BoundaryOffset
from fencepost.methods.boundary_smoothing.network import BoundarySmoothing
from fencepost.methods.diffusion.network import Diffusion
from fencepost.methods.locate_and_label.network import LocateAndLabel
from fencepost.methods.network import Method
from fencepost.methods.registry import Registry

METHODS = Registry[Method[Any]](
    "method",
    Method,
    {
        "boundary-smoothing": BoundarySmoothing,
        "boundary-offset": BoundaryOffset,
        "locate-and-label": LocateAndLabel,
        "diffusion": Diffusion,
    },
)

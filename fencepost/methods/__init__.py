"""Word vectors to entities: one file per paper."""

from typing import Any

from fencepost.decoders import PredictSettings, Registry
from fencepost.methods.boundary_offset import BoundaryOffset
from fencepost.methods.boundary_smoothing import BoundarySmoothing
from fencepost.methods.diffusion import Diffusion
from fencepost.methods.locate_and_label import LocateAndLabel
from fencepost.methods.method import Gold, Graph, Method, MethodSettings, Report, Row

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

__all__ = ["METHODS", "Gold", "Graph", "Method", "MethodSettings", "PredictSettings", "Report", "Row"]

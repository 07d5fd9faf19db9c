"""Entities in raw text, by exported graphs: what most users ever touch, without PyTorch."""

from fencepost.runtime.exported import ExportedModel, Precision
from fencepost.runtime.recogniser import Annotated, Part, Prepared, Recogniser, Span

__all__ = ["Annotated", "ExportedModel", "Part", "Precision", "Prepared", "Recogniser", "Span"]

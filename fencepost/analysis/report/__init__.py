"""The report on a model: one HTML file that needs nothing else, for a person who decides about it."""

from fencepost.analysis.epochs import Epoch
from fencepost.analysis.report.contents import Contents, Speed
from fencepost.analysis.report.folder import run_contents
from fencepost.analysis.report.page import MARK, render

__all__ = ["MARK", "Contents", "Epoch", "Speed", "render", "run_contents"]

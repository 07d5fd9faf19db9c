"""The report on a model: one HTML file that needs nothing else."""

from fencepost.analysis.epochs import Epoch
from fencepost.analysis.report.contents import Contents, Speed, run_contents
from fencepost.analysis.report.page import MARK, render

__all__ = ["MARK", "Contents", "Epoch", "Speed", "render", "run_contents"]

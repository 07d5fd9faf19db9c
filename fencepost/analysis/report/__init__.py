"""Report on a model as one self-contained HTML file."""

from fencepost.analysis.report.contents import Contents, Speed, read_contents
from fencepost.analysis.report.page import MARK, render

__all__ = ["MARK", "Contents", "Speed", "read_contents", "render"]

"""HTTP server of a model, which computes concurrent requests together, and a web page to try it."""

from fencepost.server.app import make_app
from fencepost.server.batching import Batcher
from fencepost.server.request import Limits

__all__ = ["Batcher", "Limits", "make_app"]

"""HTTP server of a model: requests that come together are computed together, and a page to try it on."""

from fencepost.server.app import make_app
from fencepost.server.batching import Batcher
from fencepost.server.request import Limits

__all__ = ["Batcher", "Limits", "make_app"]

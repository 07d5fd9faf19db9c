"""Network pieces that two or more methods share."""

from fencepost.modules.feed_forward import FeedForward

__all__ = ["FeedForward"]

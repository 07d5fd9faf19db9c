"""Network pieces that methods share, or that are a matter of their own."""

from fencepost.modules.attention import Attention, Source, sinusoids
from fencepost.modules.convolution import DepthwiseConvolution
from fencepost.modules.feed_forward import FeedForward

__all__ = ["Attention", "DepthwiseConvolution", "FeedForward", "Source", "sinusoids"]

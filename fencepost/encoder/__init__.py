"""Words to vectors: a pretrained transformer or one from scratch, extra features, a BiLSTM."""

from fencepost.encoder.embedder import Batch
from fencepost.encoder.encoder import Encoder, Words
from fencepost.inputs import EncoderSettings

__all__ = ["Batch", "Encoder", "EncoderSettings", "Words"]

"""Words to vectors: a pretrained transformer or one from scratch, extra features, a BiLSTM."""

from fencepost.encoder.config import EncoderSettings, Settings
from fencepost.encoder.embedder import Batch
from fencepost.encoder.encoder import Encoder, Words

__all__ = ["Batch", "Encoder", "EncoderSettings", "Settings", "Words"]

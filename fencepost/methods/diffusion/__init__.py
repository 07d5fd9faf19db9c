"""Diffusion: Shen et al., "DiffusionNER: Boundary Diffusion for Named Entity Recognition", ACL 2023.

The boundaries of an entity are two numbers. Training adds noise to them and learns to remove it (section 4.1,
`process.py`, `network.py`). The denoiser reads the words of the noisy spans (the proposals), all proposals
together and the sentence, and points at the first and last words of entities (section 4.2, `denoiser.py`).
The loss compares the proposals with the entities that they are matched to (appendix A, `loss.py`). Prediction
starts from random spans and denoises them in a few steps (section 4.3, `decode.py`).
"""

from fencepost.methods.diffusion.decode import DiffusionDecoder
from fencepost.methods.diffusion.report import DiffusionReport
from fencepost.methods.diffusion.settings import DiffusionPredict, DiffusionSettings
from fencepost.methods.registry import Method

METHOD = Method(
    settings=DiffusionSettings,
    decoder=DiffusionDecoder,
    network="fencepost.methods.diffusion.network:Diffusion",
    predict=DiffusionPredict,
    defaults={
        "encoder": {"lstm": {"size": 256, "layers": 2, "dropout": 0.2}},
        "training": {"batch_size": 8, "warmup": 0.1},
    },
    reports={"stages": DiffusionReport},
)

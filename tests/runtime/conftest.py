"""A model that knows a few words, in PyTorch and as graphs."""

from pathlib import Path

import pytest

from fencepost.runtime.loading import load
from fencepost.runtime.recogniser import Recogniser
from tests.methods.running import recogniser_of
from tests.runtime import models


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """Folder of a trained model that was exported to both precisions."""
    return models.saved(models.trained(), tmp_path_factory.mktemp("trained"), int8=True)


@pytest.fixture(scope="session")
def pytorch() -> Recogniser:
    return recogniser_of(models.trained())


@pytest.fixture(scope="session")
def onnx(folder) -> Recogniser:
    return load(folder, engine="onnx")

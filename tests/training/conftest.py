"""Trainings on one core: the number of threads decides the last digits of a result."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_core() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    gc.freeze()  # accelerate looks through all objects at the start of each training: the libraries', too
    yield
    gc.unfreeze()
    torch.set_num_threads(before)

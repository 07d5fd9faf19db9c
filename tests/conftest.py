"""Settings of all tests: hypothesis without deadlines, and the folder of the real corpora."""

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The tests run in as many processes as there are cores; threads of PyTorch in each would only wait for
# each other. Subprocesses of tests inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile(
    "fencepost",
    deadline=None,  # a busy machine is not a bug
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", parent=settings.get_profile("fencepost"), max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fencepost"))

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of the real corpora: `FENCEPOST_DATA`, or `../shared/data` beside the repository."""
    folder = Path(os.environ.get("FENCEPOST_DATA", BESIDE))
    if not folder.is_dir():
        pytest.skip(f"no real corpora at {folder}; set FENCEPOST_DATA")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the tests without garbage collections: what they import stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def freeze_objects() -> None:
    """Leave older objects out of garbage collections, of which accelerate makes one for each training."""
    gc.collect()
    gc.freeze()

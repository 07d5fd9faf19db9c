"""Small files, written where a test needs them and read in one word."""

import pytest

from fencepost.data import Reader, ReadOptions


@pytest.fixture
def reading(tmp_path):
    """Writes `content` to a file and gives the reader of it, whose sentences are still to come."""

    def reader_of(content, format_=None, *, name="corpus", on_invalid=None, **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return Reader(path, format_, ReadOptions(**options), on_invalid)

    return reader_of


@pytest.fixture
def skipping(reading):
    """As `reading`, but everything is read: the reader, the sentences, and what was rejected."""

    def read_all(content, format_=None, **options):
        rejected = []
        reader = reading(content, format_, on_invalid=rejected.append, **options)
        return reader, list(reader), rejected

    return read_all

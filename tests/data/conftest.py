"""Small files that tests write and read."""

import pytest

from fencepost.data import Reader, ReadOptions


@pytest.fixture
def reading(tmp_path):
    """Write `content` to a file and return its reader, which has not read anything yet."""

    def reader_of(content, format_=None, *, name="corpus", on_invalid=None, **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return Reader(path, format_, ReadOptions(**options), on_invalid)

    return reader_of


@pytest.fixture
def skipping(reading):
    """Like `reading`, but read the file and return reader, sentences and rejections."""

    def read_all(content, format_=None, **options):
        rejected = []
        reader = reading(content, format_, on_invalid=rejected.append, **options)
        return reader, list(reader), rejected

    return read_all

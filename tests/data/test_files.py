"""Small files are read whole, up to the limit of their kind."""

import os
import tracemalloc
from pathlib import Path

import pytest

from fencepost.data.files import read_json, read_json_object, read_text
from fencepost.errors import DataError


def test_reads_a_file_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("äb")
    assert read_text(path, limit=3) == "äb"
    with pytest.raises(DataError, match=r"a\.yaml: this file has more than 2 bytes"):
        read_text(path, limit=2)


def test_refuses_an_endless_file_in_limited_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="/dev/zero: this file has more than 1,048,576 bytes"):
            read_text(Path("/dev/zero"), limit=1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", r"not UTF-8 \(at byte 0\)"),
        (b"{", r"not valid JSON \(.*line 1, column 2\)"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"1" * 5000, "digits"),
    ],
)
def test_refuses_invalid_json(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=rf"a\.json: this file is .*{reason}"):
        read_json(path)


def test_refuses_json_that_is_not_an_object(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[1]")
    assert read_json(path) == [1]
    with pytest.raises(DataError, match="does not contain a JSON object"):
        read_json_object(path)


def test_names_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    for path in (tmp_path / "missing.json", tmp_path, loop):
        with pytest.raises(DataError, match=rf"{path.name}: cannot be read: \w+") as caught:
            read_json(path)
        assert os.linesep not in str(caught.value)

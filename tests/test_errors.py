"""Descriptions of errors of other libraries: one bounded line without the content of files."""

import errno
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import describe_error, quote, shorten

SECRET = "the patient's name " * 1000


def _error_of(function, *arguments) -> Exception:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it raises
        function(*arguments)
    return caught.value


@pytest.mark.parametrize(
    ("error", "description"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "model.bin"), "No space left on device: model.bin"),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (OSError("told otherwise"), "told otherwise"),
        (_error_of(b"ab\xff".decode, "utf-8"), "not UTF-8 (at byte 2)"),
        (_error_of(json.loads, "{}}"), "not valid JSON (Extra data, line 1, column 3)"),
        (_error_of(json.loads, "[" * 100_000), "nested too deeply"),
        (KeyError("types"), "'types' is missing"),
        (KeyError(), "KeyError"),
        (ValueError("first line\nsecond line"), "first line"),
        (ValueError("\n"), "ValueError"),
    ],
)
def test_describe_error_says_what_is_wrong(error: Exception, description: str) -> None:
    assert describe_error(error) == description


def test_describe_error_does_not_quote_the_file() -> None:
    error = _error_of((SECRET.encode() + b"\xff").decode, "utf-8")
    assert "patient" in repr(error)
    assert "patient" not in describe_error(error)


@given(st.text(), st.sampled_from([ValueError, KeyError, OSError, RuntimeError]))
def test_describe_error_returns_one_bounded_line(text: str, kind: type[Exception]) -> None:
    description = describe_error(kind(text * 100))
    assert 0 < len(description) <= 220
    assert len(description.splitlines()) == 1


def test_quote_is_bounded_in_length_and_depth() -> None:
    bomb: list = ["x"]
    for _ in range(60):  # like aliases of YAML: its plain `repr` would have 10**18 characters
        bomb = [bomb, bomb]
    assert len(quote(bomb)) < 1000
    assert len(quote(SECRET)) < 200
    assert len(quote(10**5000)) < 200
    assert quote({"size": [1, 2]}) == "{'size': [1, 2]}"


def test_shorten_changes_only_long_texts() -> None:
    assert shorten("abc", 3) == "abc"
    assert shorten("abcdef", 5) == "ab..."

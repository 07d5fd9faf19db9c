"""Escape sequences of WebAnno TSV, for reserved characters of values and control characters of texts."""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_JAVA_ESCAPE = re.compile(r"\\(u+[0-9a-fA-F]{4}|.)", re.DOTALL)
_RESERVED = re.compile(r"[\\\[\]|_;\t\n*]|->")
_CONTROL = re.compile(r"[\x00-\x0a\x0c-\x1f\\]")
_LETTERS = {"\t": "t", "\n": "n", "\f": "f", "\r": "r", "\b": "b"}
_CHARACTERS = {letter: character for character, letter in _LETTERS.items()}


def unescape(text: str, *, java: bool = False) -> str:
    """Return a text or value without escapes; with `java`, these include the codes of characters."""
    if "\\" not in text:
        return text
    if not java:
        return _ESCAPE.sub(lambda match: _CHARACTERS.get(match[1], match[1]), text)
    plain = _JAVA_ESCAPE.sub(_decode_java_escape, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # joins surrogate pairs


def _decode_java_escape(match: re.Match[str]) -> str:
    code = match[1]
    return _CHARACTERS.get(code, code) if len(code) == 1 else chr(int(code[-4:], 16))


def escape_text(text: str) -> str:
    return _CONTROL.sub(_escape, text)


def escape_value(value: str) -> str:
    return _RESERVED.sub(_escape, value)


def _escape(match: re.Match[str]) -> str:
    return "\\" + _LETTERS.get(match[0], match[0])

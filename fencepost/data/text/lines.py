"""Line breaks of raw text: decide which of them end a sentence; the others are spaces.

A blank line always ends a sentence. Other line breaks depend on the mode: with `break` each of them ends a
sentence, with `join` none, and with `auto` those before list marks, after colons, between the rows of a
table, at the start and end of a quotation, and in blocks of short lines (forms, addresses, poems).
In a paragraph that was wrapped at some width, a line break is a space. A line was wrapped if the first word
of the next line would not have fitted into that width, which is the width of the longest lines of the block.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, get_args

from fencepost.errors import UsageError

Lines = Literal["auto", "break", "join"]

LINE_BREAK = re.compile("[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")  # those of `str.splitlines`

_BLOCK = 100  # lines that are analysed together, so that a text need not be read to its end
_NARROWEST, _NARROW, _WIDEST = 25, 45, 130  # columns of wrapped text; stricter below `_NARROW`
_SEVERAL, _MANY = 3, 6  # number of line breaks from which the starts of the lines of a block are conclusive

_WIDE = r"\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
_WIDE_LETTER = re.compile(rf"[{_WIDE}]")  # takes two columns, and counts as a word
_WORD = re.compile(rf"[{_WIDE}]|[^\s{_WIDE}]+")
_LINE = re.compile(rf"(?!\Z)([^{LINE_BREAK.pattern[1:]}*)(?:\r\n|{LINE_BREAK.pattern}|\Z)")
_QUOTE_MARKS = re.compile(r"\s*(?:>\s?)*")
_RULE = re.compile(r"(?:[-=_*~#+.|:\s]{2,})?")  # a line that separates, such as ----- and |---|---|
_DASHES = ("-", "\N{EN DASH}", "\N{EM DASH}")
_MARK = re.compile(
    rf"([{''.join(_DASHES)}*+•‣◦·▪■]|#{{1,6}})\s|\(?(\d{{1,3}}|[a-z]|[ivx]{{2,5}})[.)]\s", re.IGNORECASE
)
_LABEL = re.compile(r"[^\W\d_][\w./&()' -]{0,30}:(?:\s|\Z)")  # such as `Name:` in a form
_COLUMNS = re.compile(r"\S\t|\S {3,}\S|\|")
_HYPHENATED = re.compile(r"[^\W\d_][-\N{HYPHEN}\N{SOFT HYPHEN}]\Z")


def check_lines(lines: str | None) -> None:
    """Raise `UsageError` for an unknown mode; None stands for the default."""
    if lines is not None and lines not in get_args(Lines):
        raise UsageError.unknown("value of lines", lines, get_args(Lines))


def find_sentence_ends(text: str, mode: Lines = "auto") -> Iterator[int]:
    """Yield the offsets of the lines before which a sentence must end, in order; the text is read lazily."""
    block: list[_TextLine] = []
    for match in _LINE.finditer(text):
        blank = not match[1].strip()
        if mode != "auto":
            if blank or mode == "break":
                yield match.end()
        elif not blank:
            line = _TextLine(match.start(), match[1])
            if block and (line.is_rule or block[-1].is_rule or line.depth != block[-1].depth):
                yield from _LineBlock(block).find_ends()
                yield line.start
                block.clear()
            block.append(line)
            if len(block) > _BLOCK:
                yield from _LineBlock(block).find_ends()
                del block[:-1]
        else:
            if block:
                yield from _LineBlock(block).find_ends()
                block.clear()
            yield match.end()
    yield from _LineBlock(block).find_ends()


class _TextLine:
    """A line that is not blank.

    Its `content` is without white space around it and without the `depth` quotation marks (`>`) before it.
    The content starts after `indent` columns and ends at `width`; its first word has `first_width` columns.
    """

    __slots__ = ("content", "depth", "first_width", "indent", "is_new", "is_rule", "mark", "start", "width")

    def __init__(self, start: int, line: str) -> None:
        before = _QUOTE_MARKS.match(line)
        self.start, self.indent = start, before.end() if before else 0
        self.depth = line.count(">", 0, self.indent)
        self.content = content = line[self.indent :].strip()
        self.width = self.indent + _count_columns(content)
        self.is_rule = _RULE.fullmatch(content) is not None
        mark, word, first = _MARK.match(content), _WORD.match(content), content[:1]
        self.mark = mark and (mark[1] or mark[2].lower())  # the mark of a list item, if any
        self.first_width = _count_columns(word[0]) if word else 0
        self.is_new = not first.isalpha() or first.isupper()  # it may be the start of a sentence


def _count_columns(text: str) -> int:
    return len(text) + (0 if text.isascii() else len(_WIDE_LETTER.findall(text)))


class _LineBlock:
    """Consecutive lines of the same quotation depth, without a blank line or a rule between them."""

    def __init__(self, lines: Sequence[_TextLine]) -> None:
        self.lines = lines
        self.width = _find_wrap_width(lines)
        self.has_several_long = sum(line.width > 0.8 * self.width for line in lines) > 1
        self.marks = Counter(line.mark for line in lines)
        labels = sum(_LABEL.match(line.content) is not None for line in lines)
        self.is_form = labels > 1 and 2 * labels >= len(lines)

    def find_ends(self) -> Iterator[int]:
        """Yield the offsets of the lines before which a sentence must end."""
        item: _TextLine | None = None  # the last list item
        for line, after in pairwise(self.lines):
            item = line if line.mark else item
            if line.content.endswith((":", "\N{FULLWIDTH COLON}")) or self._is_row(line, after):
                yield after.start
            elif _HYPHENATED.search(line.content) and not after.is_new:
                continue
            elif self._is_item(line, after):
                yield after.start
            elif item is not None and after.indent > item.indent and not after.is_new:
                continue  # the line continues the item
            elif not self._is_wrapped(line, after):
                yield after.start

    def _is_row(self, line: _TextLine, after: _TextLine) -> bool:
        """Return whether the second line is a row of a table or a field of a form."""
        is_table = _COLUMNS.search(line.content) and _COLUMNS.search(after.content)
        return bool(is_table or (self.is_form and _LABEL.match(after.content)))

    def _is_item(self, line: _TextLine, after: _TextLine) -> bool:
        """Return whether the second line starts a list item; in wrapped text, a single mark does not."""
        mark = after.mark
        if mark is None:
            return False
        near = {chr(ord(mark) - 1), chr(ord(mark) + 1)} if len(mark) == 1 else set()
        if mark.isdecimal():
            near = {str(int(mark) - 1), str(int(mark) + 1)}
        is_lone = self.marks[mark] == 1 if mark in _DASHES else mark.isalnum() and near.isdisjoint(self.marks)
        return not (is_lone and self._is_full(line, after))

    def _is_full(self, line: _TextLine, after: _TextLine) -> bool:
        """Return whether the first word of the second line would hardly have fitted into the first."""
        return 0 < 0.9 * self.width < line.width + 1 + after.first_width

    def _is_wrapped(self, line: _TextLine, after: _TextLine) -> bool:
        """Return whether the second line continues the first one, which must be full."""
        return self._is_full(line, after) and (
            self.has_several_long
            or not after.is_new
            or line.content.rpartition(" ")[2].islower()
            or len(self.lines) == 2
        )


def _find_wrap_width(lines: Sequence[_TextLine]) -> int:
    """Return the width at which a block was wrapped; 0 if it was not wrapped."""
    breaks = len(lines) - 1
    widths = sorted((line.width for line in lines if _has_several_words(line)), reverse=True)
    if not widths:
        return 0
    # the width of the longest lines; a single longer one, for example with a long address, does not count
    width = next((wide for wide, less in pairwise(widths) if less > 0.9 * wide >= 0.9 * _NARROW), widths[0])
    new = sum(line.is_new for line in lines[1:])
    if width < _NARROW:
        full = sum(line.width + 1 + after.first_width > width for line, after in pairwise(lines))
        return width if width >= _NARROWEST and full == breaks >= _SEVERAL and 2 * new < breaks else 0
    closed = sum(not line.content[-1:].isalnum() for line in lines)
    is_poem = new > 0.9 * breaks and (breaks >= _MANY or (breaks >= _SEVERAL and 2 * closed >= len(lines)))
    is_log = breaks > 1 and not any(line.content[:1].isalpha() for line in lines[1:])
    return 0 if is_poem or is_log or width > _WIDEST else width


def _has_several_words(line: _TextLine) -> bool:
    words = _WORD.finditer(line.content)
    return next(words, None) is not None and next(words, None) is not None

"""Draw texts with their entities below the words, nested ones further down.

The University of Toronto's president
    ╰─ organization ────╯
                  ╰place╯
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.text import Text

from fencepost.data.entity import Entity, Sentence

if TYPE_CHECKING:
    from fencepost.runtime.document import Document

_JOINERS = "\u200c\u200d"  # they join letters and emoji
COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta")


class Palette(dict[str, str]):
    """Colours by entity type, assigned in the order in which types appear."""

    def __missing__(self, type_: str) -> str:
        return self.setdefault(type_, COLOURS[len(self) % len(COLOURS)])


@dataclass(frozen=True, slots=True)
class _EntityBar:
    """Part of an entity in one line, from cell `left` to `right`."""

    left: int
    right: int
    text: str
    type: str


def draw(sentence: Sentence, width: int, palette: Palette) -> Text:
    """Return the sentence in lines of at most `width` cells, with the entities below each line."""
    return _draw_words(sentence.words, [" "] * len(sentence), sentence.entities, width, palette)


def draw_text(annotated: Document, width: int, palette: Palette) -> Text:
    """Return the same for a raw text, with each run of white space shown as one space or line break."""
    words: list[str] = []
    gaps: list[str] = []
    entities: list[Entity] = []
    last_end = 0
    for sentence, offsets in zip(annotated.sentences, annotated.offsets, strict=True):
        first = len(words)
        entities += [replace(e, start=e.start + first, end=e.end + first) for e in sentence.entities]
        for start, end in offsets:
            gap = annotated.text[last_end:start]
            gaps.append("\n" if "\n" in gap else " " * bool(gap))
            words.append(annotated.text[start:end])
            last_end = end
    return _draw_words(words, gaps, entities, width, palette)


def _draw_words(
    words: Sequence[str], gaps: Sequence[str], entities: Sequence[Entity], width: int, palette: Palette
) -> Text:
    """Return the drawing; `gaps[i]` is the space, line break or empty string before `words[i]`."""
    drawing = Text()
    visible = [replace_controls(word) for word in words]
    waiting = sorted(entities, key=lambda entity: (-len(entity), entity.start))
    for first, last in _wrap(visible, gaps, width):
        line, end = "", 0
        cells: list[tuple[int, int]] = []  # start and end of each word
        for index in range(first, last):
            gap = gaps[index] if index > first else ""
            start, end = end + len(gap), end + len(gap) + cell_len(visible[index])
            cells.append((start, end))
            line += gap + visible[index]
        drawing.append(f"{line}\n")
        waiting = [entity for entity in waiting if entity.end > first]
        bars = [_make_bar(entity, first, last, cells, width) for entity in waiting if entity.start < last]
        for row in _arrange_rows(bars):
            drawing.append_text(_draw_line(row, palette))
    return drawing


def replace_controls(word: str) -> str:
    """Return the word with control characters replaced, which could move the cursor of a terminal."""
    return "".join(
        character if character.isprintable() or character in _JOINERS else "\N{REPLACEMENT CHARACTER}"
        for character in word
    )


def _wrap(words: Sequence[str], gaps: Sequence[str], width: int) -> list[tuple[int, int]]:
    """Return the lines as spans of words; words without a gap stay together if they fit."""
    lines: list[tuple[int, int]] = []
    first = together = line_width = 0  # `together` is the first of the words without a gap between them
    for index, word in enumerate(words):
        if gaps[index]:
            together = index
        word_width = cell_len(word) + (len(gaps[index]) if index > first else 0)
        if index > first and (gaps[index] == "\n" or line_width + word_width > width):
            boundary = together if together > first else index
            lines.append((first, boundary))
            first = boundary
            line_width = sum(map(cell_len, words[boundary:index]))
            word_width = cell_len(word)
        line_width += word_width
    return [*lines, (first, len(words))]


def _make_bar(entity: Entity, first: int, last: int, cells: list[tuple[int, int]], width: int) -> _EntityBar:
    left = cells[max(entity.start - first, 0)][0]
    right = cells[min(entity.end, last) - first - 1][1]
    begin = "╰" if entity.start >= first else "┄"
    end = "╯" if entity.end <= last else "┄"
    label = _format_label(entity)
    inside = right - left - 2
    if cell_len(label) + 3 <= inside:
        body = f"{begin}─ {label} {'─' * (inside - cell_len(label) - 3)}{end}"
    elif cell_len(label) <= inside:
        spare = inside - cell_len(label)
        body = f"{begin}{'─' * (spare // 2)}{label}{'─' * (spare - spare // 2)}{end}"
    else:  # too narrow: the label is after the bar, or before it if there is no space
        bar = begin + "─" * inside + end if inside >= 0 else "│"
        body = f"{bar} {label}"
        before = right - cell_len(body)
        if left + cell_len(body) > width and before >= 0:
            left, body = before, f"{label} {bar}"
    return _EntityBar(left, left + cell_len(body), body, entity.type)


def _format_label(entity: Entity) -> str:
    name = replace_controls(entity.type)
    return name if entity.score == 1.0 else f"{name} {entity.score:.2f}"


def _arrange_rows(bars: Sequence[_EntityBar]) -> list[list[_EntityBar]]:
    """Return the bars in rows without overlaps, the longest entities next to the words."""
    rows: list[list[_EntityBar]] = []
    for bar in bars:
        for row in rows:
            if all(bar.right + 1 <= other.left or other.right + 1 <= bar.left for other in row):
                row.append(bar)
                break
        else:
            rows.append([bar])
    return rows


def _draw_line(row: list[_EntityBar], palette: Palette) -> Text:
    line = Text()
    for bar in sorted(row, key=lambda bar: bar.left):
        line.append(" " * (bar.left - cell_len(line.plain)))
        line.append(bar.text, style=palette[bar.type])
    return line.append("\n")

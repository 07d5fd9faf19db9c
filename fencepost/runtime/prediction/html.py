"""Output of predicted texts as one HTML file without scripts or external resources; all text is escaped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from fencepost.runtime.document import Document, Span
    from fencepost.runtime.prediction.results import PredictedText

_COLOURS = ("#1f77b4", "#d1495b", "#2e8b57", "#b8860b", "#7b4fa3", "#008b9a", "#c45a1b", "#5d6d7e")
_LINE, _GAP = 3, 2  # pixels: height of the line under an entity, and distance between two lines
_TEXT_STYLE = """
.fencepost { white-space: pre-wrap; overflow-wrap: anywhere; line-height: 2.2; }
.fencepost mark { background: none; color: inherit; background-repeat: no-repeat;
  -webkit-box-decoration-break: clone; box-decoration-break: clone; }
.fencepost small { font-size: .65rem; font-weight: 600; margin-left: .15em; white-space: nowrap; }
"""
_PAGE_START = f"""<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Entities</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }}
article {{ border-top: 1px solid #8884; padding: .5rem 0; }}
article > header {{ color: #888; font-size: .8rem; line-height: 1.4; }}
{_TEXT_STYLE}</style>
</head>
<body>
"""


def write_html(predicted: Iterable[PredictedText], stream: BinaryIO) -> None:
    """Write each text with its entities underlined, each followed by its type and confidence."""
    stream.write(_PAGE_START.encode())
    colours: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for one in predicted:
        counts.update(span.type for span in one.annotated)
        fields = ", ".join(f"{name}: {value}" for name, value in one.source.fields.items() if value)
        stream.write(_draw_article(one.annotated, colours, fields).encode())
    stream.write(_end_page(counts).encode())


def draw_page(document: Document) -> str:
    """Return a page with one text."""
    return _PAGE_START + _draw_article(document, {}) + _end_page(Counter(span.type for span in document))


def draw_fragment(document: Document) -> str:
    """Return a text with its entities as a part of a page, with the style that it needs."""
    return f"<style>{_TEXT_STYLE}</style>\n{_draw_article(document, {})}"


def _draw_article(document: Document, colours: dict[str, str], heading: str = "") -> str:
    """Return the text with its entities; new types get a colour."""
    for span in document:
        colours.setdefault(span.type, _COLOURS[len(colours) % len(_COLOURS)])
    header = f"<header>{escape(heading)}</header>" if heading else ""
    body = "".join(_underline_entities(document.text, document, colours))
    return f'<article class="fencepost" dir="auto">{header}{body}</article>\n'


def _end_page(counts: Counter[str]) -> str:
    total = ", ".join(f"{escape(name)}: {count:,}" for name, count in counts.most_common())
    return f"<footer><p>{total or 'No entities'}</p></footer>\n</body>\n</html>\n"


def _underline_entities(text: str, spans: Sequence[Span], colours: dict[str, str]) -> Iterator[str]:
    """Yield the segments of a text between boundaries, each with the lines of the entities that cover it."""
    lanes = _assign_lanes(spans)
    starts: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for index, span in enumerate(spans):
        starts.setdefault(span.start, []).append(index)
        ends.setdefault(span.end, []).append(index)
    boundaries = sorted({0, len(text), *starts, *ends})
    covering: set[int] = set()

    def underline(segment: str) -> str:
        if not covering:
            return segment
        return f'<mark style="{_make_style(covering, spans, lanes, colours)}">{segment}</mark>'

    for start, end in zip(boundaries, [*boundaries[1:], len(text)], strict=True):
        for index in sorted(ends.get(start, ()), key=lambda one: -lanes[one]):
            covering.discard(index)
            label = escape(f"{spans[index].type} {spans[index].score:.2f}")
            yield underline(f'<small style="color: {colours[spans[index].type]}">{label}</small>')
        covering.update(starts.get(start, ()))
        yield underline(escape(text[start:end]))


def _assign_lanes(spans: Sequence[Span]) -> list[int]:
    """Return the lane of each entity's line; entities that overlap have different lanes."""
    lanes = [0] * len(spans)
    ends: list[int] = []  # end of the last entity in each lane
    for index in sorted(range(len(spans)), key=lambda one: (spans[one].start, -spans[one].end)):
        span = spans[index]
        lane = next((number for number, end in enumerate(ends) if end <= span.start), len(ends))
        ends[lane : lane + 1] = [span.end]
        lanes[index] = lane
    return lanes


def _make_style(covering: set[int], spans: Sequence[Span], lanes: list[int], colours: dict[str, str]) -> str:
    """Return the style that draws a line for each entity, at the distance of its lane from the text."""
    step = _LINE + _GAP
    height = (max(lanes[index] for index in covering) + 1) * step
    images, positions = [], []
    for index in sorted(covering, key=lambda one: lanes[one]):
        colour = colours[spans[index].type]
        images.append(f"linear-gradient({colour}, {colour})")
        positions.append(f"0 calc(100% - {height - (lanes[index] + 1) * step}px)")
    return (
        f"padding-bottom: {height}px; background-image: {', '.join(images)}; "
        f"background-position: {', '.join(positions)}; background-size: 100% {_LINE}px"
    )

"""Read a report back: check that it is well formed, and return its content."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "input", "br"}


class Page(HTMLParser):
    """Elements and text of a page; fails if tags do not match."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.style = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), f"an attribute twice in <{tag}>"
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> without a beginning"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            self.style += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]

    @property
    def ids(self) -> list[str | None]:
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]


def rows(html: str) -> list[list[str]]:
    """Return the cells of all rows of all tables, as text."""
    lines = []
    for row in re.findall(r"<tr.*?</tr>", html, re.DOTALL):
        cells = re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
        lines.append([" ".join(re.sub(r"<[^>]*>", "", cell).split()) for cell in cells])
    return lines

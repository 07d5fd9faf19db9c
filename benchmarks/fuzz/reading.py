"""Read a damaged file as its own format, and as the format that is detected."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field, replace

from benchmarks.fuzz.mutations import Case
from benchmarks.fuzz.seeds import Parts
from fencepost.data import FORMATS, ReadOptions
from fencepost.data.formats.brat import read_document
from fencepost.data.formats.registry import detect_format
from fencepost.data.source import BYTE_ORDER_MARK, Reading, ReadSentence, Source
from fencepost.data.text import make_splitter
from fencepost.errors import FencepostError


@dataclass
class Outcome:
    """Result of reading a case; not `complete` if a `FencepostError` was raised."""

    format: str
    parts: Parts
    options: ReadOptions
    readings: list[Reading] = field(default_factory=list)
    complete: bool = False

    @property
    def sentences(self) -> list[ReadSentence]:
        return [reading for reading in self.readings if isinstance(reading, ReadSentence)]

    @property
    def lines(self) -> list[str]:
        """Lines of the file, split independently of the library."""
        whole = self.parts[0].removeprefix(BYTE_ORDER_MARK)
        in_columns = self.format in ("conll", "weibo", "conll2012")
        end = rb"\r*\n|\r" if in_columns or b"\n" not in whole else rb"\r?\n"
        return [line.decode("utf-8", "replace") for line in re.split(end, whole)]


def read_case(case: Case) -> list[Outcome]:
    """Read the case as its own format, and as the detected format if that is another."""
    if case.format == "brat":
        return [_read_brat(case)]
    outcomes = [_read_file(case.format, case)]
    with contextlib.suppress(FencepostError):
        detected = detect_format(Source.from_bytes(case.parts[0])).name
        if detected != case.format or case.options != ReadOptions():
            outcomes.append(_read_file(detected, replace(case, options=ReadOptions())))
    return outcomes


def _read_file(name: str, case: Case) -> Outcome:
    outcome = Outcome(name, case.parts, case.options)
    with contextlib.suppress(FencepostError):
        source = Source.from_bytes(case.parts[0])
        for reading in FORMATS[name].read(source, case.options):
            outcome.readings.append(reading)
        outcome.complete = True
    return outcome


def _read_brat(case: Case) -> Outcome:
    outcome = Outcome("brat", case.parts, case.options)
    with contextlib.suppress(FencepostError):
        splitter = make_splitter(case.options.language, pretokenized=case.options.pretokenized)
        source = Source.from_bytes(case.parts[0])
        text = case.parts[1].decode("utf-8", "replace")
        for reading in read_document(text, source, case.options, splitter):
            outcome.readings.append(reading)
        outcome.complete = True
    return outcome

"""The steps of a method, and its scores by prediction setting, on the test data of GENIA.

    python -m benchmarks.method_reports MODEL [--sweep steps=1,2,4,10 ...]

MODEL is a folder that was trained on GENIA (`python -m benchmarks.quality genia --keep FOLDER`). Prints one
JSON object as its last line: the tables of `fencepost analyze method`, and the scores of `fencepost analyze
settings` for each `--sweep`.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import fencepost
from benchmarks.common import corpora, machine, read_corpus, report, say
from fencepost.cli.prediction_sweep import combine_settings, score_settings
from fencepost.evaluation import Score
from fencepost.methods.registry import METHODS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--sweep", action="append", default=[], metavar="KEY=VALUE,...")
    arguments = parser.parse_args()
    if corpora() is None:
        report({"benchmark": "method_reports", "skipped": "no corpora"})
        return
    test = read_corpus("genia")["test"]
    recogniser = fencepost.load(arguments.model)
    reports = recogniser.make_reports(list(METHODS[recogniser.method].reports))
    for _ in recogniser.predict(test, recogniser.watch_reports(reports)):
        pass
    sweeps = {
        sweep: list(score_settings(combine_settings(recogniser, str(arguments.model), [sweep]), test, say))
        for sweep in arguments.sweep
    }
    tables = {
        name: {
            title: {key: asdict(row) if isinstance(row, Score) else dict(row) for key, row in rows.items()}
            for title, rows in one.tables().items()
        }
        for name, one in reports.items()
    }
    report({"benchmark": "method_reports", **machine(), "reports": tables, "sweeps": sweeps})


if __name__ == "__main__":
    main()

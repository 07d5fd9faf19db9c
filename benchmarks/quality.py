"""How good the models get on real corpora: trains them and scores them on the test parts.

    python -m benchmarks.quality --all --seeds 3 [--jobs 2] [--only genia:boundary-smoothing ...]
    python -m benchmarks.quality genia [--method boundary-smoothing] [--seed 1] [--keep FOLDER]

Corpora: genia, gum, weibo, resume, wnut17. GENIA has no development part: its last epoch is kept, unless
`--dev-share` holds out training data. The epochs and the encoder of each corpus are below, all else is the
default; `--set KEY=VALUE` changes settings. With `--all`, each run is a process with one thread, and a line
of `results/quality.jsonl` as soon as it has ended; runs of the same code and settings that are there are not
repeated, nor, with `--since COMMIT`, those of that commit and of later ones: for changes of the package that
change no score. Prints progress and a table to standard error and one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import (
    RESULTS,
    Task,
    code_version,
    corpora,
    draw,
    find_encoder,
    machine,
    percent,
    read_corpus,
    report,
    run_tasks,
    say,
    say_table,
    scores_of,
    summarise,
)

if TYPE_CHECKING:
    from fencepost import Sentence
    from fencepost.config import Config

METHODS = ("boundary-smoothing", "boundary-offset", "locate-and-label", "diffusion")
MINILM = "minilm"
MULTILINGUAL = "paraphrase-multilingual-MiniLM-L12-v2"


@dataclass(frozen=True)
class Corpus:
    """How a corpus is trained unless something else is asked for."""

    epochs: int
    diffusion_epochs: int
    encoder: str = MINILM


CORPORA = {
    "genia": Corpus(12, 20),
    "gum": Corpus(6, 10),
    "weibo": Corpus(20, 30, MULTILINGUAL),
    "resume": Corpus(10, 16, MULTILINGUAL),
    "wnut17": Corpus(8, 14),
}


@dataclass(frozen=True)
class Run:
    """What is trained on what; with a seed and settings, it makes a model."""

    corpus: str
    method: str
    encoder: str

    def __str__(self) -> str:
        own = self.encoder == CORPORA[self.corpus].encoder
        return f"{self.corpus}:{self.method}" + ("" if own else f":{self.encoder}")

    @property
    def settings(self) -> list[str]:
        of_corpus = CORPORA[self.corpus]
        epochs = of_corpus.diffusion_epochs if self.method == "diffusion" else of_corpus.epochs
        return [f"training.epochs={epochs}"]

    @property
    def encoder_name(self) -> str | None:
        """The name or the folder of the encoder; None where it is absent."""
        if self.encoder == MINILM:
            return MINILM
        folder = find_encoder(self.encoder)
        return None if folder is None else str(folder)


ALL = (
    *(Run("genia", method, MINILM) for method in METHODS),
    Run("genia", "boundary-smoothing", "bge-small-en-v1.5"),
    Run("gum", "boundary-smoothing", MINILM),
    *(Run("wnut17", method, MINILM) for method in METHODS),
    Run("weibo", "boundary-smoothing", MULTILINGUAL),
    Run("resume", "boundary-smoothing", MULTILINGUAL),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", choices=CORPORA, nargs="?")
    parser.add_argument("--method", default="boundary-smoothing", choices=METHODS)
    parser.add_argument("--encoder", help="minilm, or a folder beside the corpora's (FENCEPOST_ENCODERS)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="KEY=VALUE")
    parser.add_argument("--dev-share", type=float, help="held out where a corpus has no development part")
    parser.add_argument("--sentences", type=int, help="number of training sentences, drawn at random")
    parser.add_argument("--keep", type=Path, help="save the model in this folder, or models below it")
    several = parser.add_argument_group("all runs")
    several.add_argument("--all", action="store_true")
    several.add_argument("--only", nargs="+", default=["*"], metavar="RUN", help="such as 'genia:*'")
    several.add_argument("--seeds", type=int, default=3, help="number of seeds, from 1")
    several.add_argument("--jobs", type=int, default=1, help="number of runs at a time")
    several.add_argument("--since", metavar="COMMIT", help="results of this commit and later ones count, too")
    several.add_argument("--again", action="store_true", help="repeat runs that are done")
    several.add_argument("--out", type=Path, default=RESULTS / "quality.jsonl")
    arguments = parser.parse_args()
    if arguments.all == (arguments.corpus is not None):
        parser.error("give a corpus, or --all")
    if corpora() is None:
        report({"benchmark": "quality", "skipped": "no corpora"})
    elif arguments.all:
        runs = [run for run in ALL if any(fnmatchcase(str(run), pattern) for pattern in arguments.only)]
        if not runs:
            parser.error(f"--only: the runs are {', '.join(map(str, ALL))}")
        do_all(runs, arguments)
    else:
        encoder = arguments.encoder or CORPORA[arguments.corpus].encoder
        do_one(Run(arguments.corpus, arguments.method, encoder), arguments)


def key_of(run: Run, seed: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what identifies a run of one seed among the results."""
    return {
        "corpus": run.corpus,
        "method": run.method,
        "encoder": run.encoder,
        "seed": seed,
        "settings": [*run.settings, *arguments.changes],
        "sentences": arguments.sentences,
        "dev_share": arguments.dev_share,
        "commit": code_version(),
    }


# One run


def do_one(run: Run, arguments: argparse.Namespace) -> None:
    """Train a model, and report its scores."""
    from fencepost.config import Config

    if run.encoder_name is None:
        report({"benchmark": "quality", "skipped": f"no encoder {run.encoder}"})
        return
    key = key_of(run, arguments.seed, arguments)
    parts = read_parts(run.corpus, arguments.sentences, arguments.dev_share, arguments.seed)
    changes = [f"method.name={run.method}", f"encoder.name={run.encoder_name}", *key["settings"]]
    config = Config.compose(changes=changes, flags={"training": {"seed": arguments.seed}})
    say(f"{run}: {len(parts['train']):,} sentences, {' '.join(key['settings'])}, seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as temporary:
        out = arguments.keep or Path(temporary) / "model"
        scores = train_and_score(config, parts["train"], out, parts.get("dev"), parts["test"])
    report({"benchmark": "quality", **machine(), **key, **scores})


def read_parts(
    corpus: str, sentences: int | None, dev_share: float | None, seed: int
) -> dict[str, list[Sentence]]:
    """Return the parts of a corpus, with this number of training sentences."""
    from fencepost.training import hold_out

    parts = read_corpus(corpus)
    if sentences is not None:
        parts["train"] = draw(parts["train"], sentences, seed=0)
    if dev_share is not None and "dev" not in parts:
        parts["train"], parts["dev"] = hold_out(parts["train"], dev_share, seed)
    return parts


def train_and_score(
    config: Config,
    sentences: Sequence[Sentence],
    out: Path,
    dev: Sequence[Sentence] | None,
    test: Sequence[Sentence],
) -> dict[str, Any]:
    """Train a model in the folder `out`; return its test scores, its development F1, and what it cost."""
    from fencepost.training import train

    start, cpu_start = time.perf_counter(), time.process_time()
    outcome = train(config, sentences, out, dev, test, quiet=False)
    assert outcome.test is not None
    return {
        **scores_of(outcome.test),
        "by_type": outcome.test.to_dict()["by_type"],
        "dev_f1": outcome.best["dev_f1"] if outcome.best else None,
        "kept_epoch": outcome.best["epoch"] if outcome.best else None,
        "seconds": round(time.perf_counter() - start),
        "cpu_seconds": round(time.process_time() - cpu_start),
    }


# All runs


def do_all(runs: Sequence[Run], arguments: argparse.Namespace) -> None:
    """Do what is not done yet, and report mean and standard deviation of each run."""
    here = [run for run in runs if run.encoder_name is not None]
    skipped = [run for run in runs if run not in here]
    for run in skipped:
        say(f"{run} is skipped: there is no encoder {run.encoder}")
    tasks = [
        Task(
            f"{run}, seed {seed}",
            key_of(run, seed, arguments),
            [*arguments_of(run, seed, arguments), *keep_model(run, seed, arguments.keep)],
        )
        for seed in range(1, arguments.seeds + 1)
        for run in here
    ]
    lines, failed = run_tasks(
        tasks, arguments.out, arguments.jobs, again=arguments.again, since=arguments.since
    )
    by_run: dict[str, list[dict[str, Any]]] = {str(run): [] for run in here}
    for line in lines:
        by_run[str(Run(line["corpus"], line["method"], line["encoder"]))].append(line)
    result = {name: summarise_run(of_run) for name, of_run in by_run.items() if of_run}
    say_table(
        ["run", "seeds", "F1", "ECE", "F1 of 3+ words"],
        [
            [name, str(len(row["seeds"])), percent(row["f1"]), decimal(row["ece"]), percent(row["f1_3+"])]
            for name, row in result.items()
        ],
    )
    report(
        {
            "benchmark": "quality",
            **machine(),
            "commits": sorted({line["commit"] for line in lines}),
            "runs": result,
            "skipped": [str(run) for run in skipped],
            "failed": failed,
        }
    )
    if failed:
        sys.exit(1)


def arguments_of(run: Run, seed: int, arguments: argparse.Namespace) -> list[str]:
    """Return the command of a run, after `python`."""
    sizes = {"--dev-share": arguments.dev_share, "--sentences": arguments.sentences}
    options = {"--method": run.method, "--encoder": run.encoder, "--seed": seed, **sizes}
    changes = [("--set", change) for change in arguments.changes]
    pairs = [*((name, value) for name, value in options.items() if value is not None), *changes]
    return ["-m", "benchmarks.quality", run.corpus, *(str(part) for pair in pairs for part in pair)]


def keep_model(run: Run, seed: int, folder: Path | None) -> list[str]:
    """Return the option that keeps the model of a run below a folder, if there is one."""
    return [] if folder is None else ["--keep", str(folder / f"{str(run).replace(':', '-')}-{seed}")]


def summarise_run(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return mean and standard deviation over the seeds, and the F1 of each."""
    rows = [
        {
            **{name: line[name] for name in ("precision", "recall", "f1", "ece", "cpu_seconds")},
            "f1_3+": line["by_length"]["3+"]["f1"],
        }
        for line in lines
    ]
    return {"seeds": {line["seed"]: round(line["f1"], 4) for line in lines}, **summarise(rows)}


def decimal(summary: dict[str, Any] | None) -> str:
    """Return a summarised number as `0.021 ± 0.003`."""
    if summary is None:
        return "-"
    deviation = "" if summary["deviation"] is None else f" ± {summary['deviation']:.3f}"
    return f"{summary['mean']:.3f}{deviation}"


if __name__ == "__main__":
    main()

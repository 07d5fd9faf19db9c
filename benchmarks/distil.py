"""Whether a small model learns more from a teacher's view of raw text than from annotations alone.

    python -m benchmarks.distil --folder MODELS --students bge-6 bge-3 combination-6 [--seeds 3] [--jobs 2]

On GENIA, a third of whose training data is held out as development data. Trains what is missing in `MODELS`
by `benchmarks.quality`, all for 8 epochs: boundary smoothing on MiniLM, which is the baseline, and the
teachers: boundary smoothing on bge-small-en-v1.5 (`bge`), or all four methods on MiniLM, combined
(`combination`). Students are MiniLM with 6 or 3 of its layers, trained for 4 epochs on the annotated and on
four times as many raw sentences. One line of `results/distil.jsonl` for each model, with its scores on the
test data and the CPU time of prediction relative to that of the baseline, which is predicted in turn with it.
Prints one JSON object as its last line.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import (
    RESULTS,
    Task,
    code_version,
    corpora,
    machine,
    read_lines,
    report,
    run_tasks,
    say,
    scores_of,
)
from benchmarks.quality import METHODS, MINILM, Run, arguments_of, key_of, read_parts

if TYPE_CHECKING:
    from fencepost import Recogniser, Sentence

BGE = "bge-small-en-v1.5"
TEACHERS = {
    "bge": (Run("genia", "boundary-smoothing", BGE),),
    "combination": tuple(Run("genia", method, MINILM) for method in METHODS),
}
BASELINE = Run("genia", "boundary-smoothing", MINILM)
STUDENTS = [f"{teacher}-{layers}" for teacher in TEACHERS for layers in (6, 3)]
DEV_SHARE, EPOCHS, STUDENT_EPOCHS = 0.333, 8, 4
TIMED, ROUNDS = 400, 3
"""Number of sentences whose prediction is timed, and how often."""

OUT = RESULTS / "distil.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder of the models")
    parser.add_argument("--students", nargs="+", choices=STUDENTS, default=STUDENTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=1, help="number of training runs at a time")
    parser.add_argument("--since", metavar="COMMIT", help="models of this commit and later ones count, too")
    parser.add_argument("--one", action="store_true", help="train a single student, whose teachers exist")
    arguments = parser.parse_args()
    if corpora() is None:
        report({"benchmark": "distil", "skipped": "no corpora"})
    elif arguments.one:
        report(train_student(arguments.folder, arguments.students[0], arguments.seeds[0]))
    else:
        run_all(arguments)


def run_all(arguments: argparse.Namespace) -> None:
    """Train baselines and teachers, then students; append the lines of baselines, teachers and students."""
    arguments.folder.mkdir(parents=True, exist_ok=True)
    runs = dict.fromkeys([BASELINE, *(run for one in arguments.students for run in get_teachers(one))])
    models = [make_model_task(arguments.folder, run, seed) for seed in arguments.seeds for run in runs]
    lines, failed = run_tasks(
        models, arguments.folder / "models.jsonl", arguments.jobs, since=arguments.since
    )
    for line in lines:
        if line["encoder"] == BGE or line["method"] == BASELINE.method:
            append({"student": None, **line})
    students = [
        Task(
            f"{student}, seed {seed}",
            {"student": student, "seed": seed, "commit": code_version()},
            [
                *("-m", "benchmarks.distil", "--one", "--folder", str(arguments.folder.resolve())),
                *("--students", student, "--seeds", str(seed)),
            ],
        )
        for seed in arguments.seeds
        for student in arguments.students
        if all(is_trained(arguments.folder, run, seed) for run in (BASELINE, *get_teachers(student)))
    ]
    _, failed_students = run_tasks(students, OUT, arguments.jobs, since=arguments.since)
    failed += failed_students
    report({"benchmark": "distil", **machine(), "failed": failed})
    if failed:
        sys.exit(1)


def append(line: dict[str, Any]) -> None:
    """Append a line to the results, unless it is there."""
    if line not in read_lines(OUT):
        with OUT.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def is_trained(folder: Path, run: Run, seed: int) -> bool:
    return (get_folder(folder, run, seed) / "config.json").is_file()


def get_teachers(student: str) -> tuple[Run, ...]:
    return TEACHERS[student.rpartition("-")[0]]


def get_folder(folder: Path, run: Run, seed: int) -> Path:
    return folder / f"{run.method}-{run.encoder}-{seed}"


def make_model_task(folder: Path, run: Run, seed: int) -> Task:
    """Return the training of a baseline or of a teacher."""
    values = argparse.Namespace(changes=[f"training.epochs={EPOCHS}"], sentences=None, dev_share=DEV_SHARE)
    keep = ["--keep", str(get_folder(folder, run, seed).resolve())]
    return Task(f"{run}, seed {seed}", key_of(run, seed, values), [*arguments_of(run, seed, values), *keep])


def train_student(folder: Path, student: str, seed: int) -> dict[str, Any]:
    """Train a student; return its scores, and those of its teacher, on the test data."""
    from fencepost.config import Config
    from fencepost.evaluation import evaluate
    from fencepost.runtime.loading import load
    from fencepost.training import distil

    parts = read_parts("genia", None, DEV_SHARE, seed)
    teacher = load(find_teacher(folder, student, seed, parts["dev"]))
    data = corpora()
    assert data is not None
    texts = (data / "genia" / "raw.txt").read_text(encoding="utf-8").splitlines()
    changes = [f"encoder.depth={student.rpartition('-')[2]}", f"training.epochs={STUDENT_EPOCHS}"]
    config = Config.compose(changes=changes, flags={"training": {"seed": seed}})
    start = time.process_time()
    result = distil(
        config,
        teacher,
        (text.split() for text in texts),
        parts["train"],
        folder / f"student-{student}-{seed}",
        parts["dev"],
        parts["test"],
        quiet=False,
    )
    seconds = time.process_time() - start
    assert result.test is not None
    baseline = load(get_folder(folder, BASELINE, seed))
    return {
        **machine(),
        "student": student,
        "seed": seed,
        "settings": changes,
        "sentences": {"annotated": len(parts["train"]), **(result.raw_sentences or {})},
        "teacher": scores_of(evaluate(parts["test"], list(teacher.predict(parts["test"])))),
        **scores_of(result.test),
        "dev_f1": result.best["dev_f1"] if result.best else None,
        "prediction_time": compare_times(
            load(folder / f"student-{student}-{seed}"), baseline, parts["test"][:TIMED]
        ),
        "cpu_seconds": round(seconds),
    }


def find_teacher(folder: Path, student: str, seed: int, dev: list[Sentence]) -> Path:
    """Return the folder of a teacher; a combination is made of its members, unless it exists."""
    members = [get_folder(folder, run, seed) for run in get_teachers(student)]
    if len(members) == 1:
        return members[0]
    from fencepost.training import combine

    out = folder / f"combination-{seed}"
    if not (out / "config.json").is_file():
        combine(members, out, dev)
    return out


def compare_times(student: Recogniser, baseline: Recogniser, sentences: list[Sentence]) -> float:
    """Return the student's CPU time of prediction as a share of the baseline's; both are timed in turn."""
    seconds = {"student": [0.0], "baseline": [0.0]}
    for _ in range(ROUNDS):
        for name, model in (("student", student), ("baseline", baseline)):
            start = time.process_time()
            list(model.predict(sentences))
            seconds[name].append(time.process_time() - start)
    say(f"seconds of prediction: {seconds}")
    return round(min(seconds["student"][1:]) / min(seconds["baseline"][1:]), 3)


if __name__ == "__main__":
    main()

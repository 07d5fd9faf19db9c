"""`fencepost.train`: a model from whatever sentences there are, in files, in data sets or in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fencepost.data import Note, Reader, ReadOptions
from fencepost.data.entity import Sentence
from fencepost.data.output import WriteError
from fencepost.data.rows import Rows, use_python_names
from fencepost.errors import UsageError, require_extra
from fencepost.settings import merge_trees

if TYPE_CHECKING:
    from fencepost.config import Config
    from fencepost.runtime.engine import DeviceName
    from fencepost.training import Outcome

Data = str | Path | Iterable[Sentence] | Iterable[Mapping[str, Any]]
"""A file or `sample:train`; sentences; or rows, as a `datasets.Dataset` has them."""

_DEV_SPLITS = ("validation", "dev", "valid")


def train(
    train: Data | Mapping[str, Data],
    out: str | Path,
    dev: Data | None = None,
    test: Data | None = None,
    *,
    method: str | None = None,
    encoder: str | None = None,
    epochs: int | Literal["auto"] | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    config: Config | Mapping[str, Any] | str | Path | None = None,
    recipe: str | None = None,
    dev_share: float | None = None,
    columns: Mapping[str, str] | None = None,
    options: ReadOptions | None = None,
    resume: bool = False,
    quiet: bool = False,
    device: DeviceName = "auto",
    start: str | Path | None = None,
    old_test: Data | None = None,
) -> Outcome:
    """Train a recogniser and save it in the folder `out`, from where `fencepost.load` loads it.

    Data is a file or `sample:train`, sentences, or a data set of the `datasets` library (any rows that are
    dictionaries will do); of a `DatasetDict`, the splits `train`, `validation` and `test` are taken.
    Development data decides which epoch is kept; `dev_share` holds out a share of the training data for it.
    `columns` says where a data set has what, as `{"tokens": "words", "tags": "fine_tags"}`, and `options`
    how to read what data cannot say of itself. `config` are settings: a YAML file, a dictionary, or a
    `Config`; they change those of the `recipe`, and are changed by `method`, `encoder`, `epochs`,
    `batch_size` and `seed`. `resume` continues a run in `out` that was interrupted. `device` is `cpu`, `cuda`
    or `mps`; `auto` is an accelerator if there is one. `start` is the folder of a trained model: the new one
    has its settings, starts with its weights, and adds new types to its own; `old_test` is test data of it,
    on which forgetting is measured.
    """
    with require_extra("train", "training"):
        from fencepost import training
    train, dev, test = _parts(train, dev, test)
    if dev is not None and dev_share is not None:
        raise UsageError("dev and dev_share contradict each other; give one of them, and no validation split")
    flags: dict[str, dict[str, Any]] = {
        "method": {"name": method},
        "encoder": {"name": encoder},
        "training": {"epochs": epochs, "batch_size": batch_size, "seed": seed},
        "text": {} if options is None else {"language": options.language, "lines": options.lines},
    }
    if old_test is not None and start is None:
        raise UsageError("old_test is about start, which is missing")
    if start is not None and (recipe is not None or config is not None):
        raise UsageError("start has settings of its own: leave out recipe and config")
    begin = None if start is None else training.Start(Path(start))
    settings = _settings(
        begin.settings(method) if begin is not None else config, recipe, flags, Path(out) if resume else None
    )
    options = (options or ReadOptions()).with_defaults(settings.text.language, settings.text.lines)

    def read(data: Data, name: str) -> list[Sentence]:
        return _read(data, f"the {name} data", columns, options, quiet=quiet)

    with _for_python():
        training.check_folder(Path(out), resume=resume)
        learnt = read(train, "training")
        held = read(dev, "development") if dev is not None else None
        if dev_share is not None:
            learnt, held = training.held_out(learnt, dev_share, settings.training.seed)
        tested = read(test, "test") if test is not None else None
        for note in (*training.idle_settings(settings, learnt, held), *unknown_types(learnt, held, tested)):
            _say(note, quiet=quiet)
        if begin is not None and old_test is not None:
            begin = replace(begin, test=read(old_test, "old test"))
        return training.train(
            settings, learnt, out, held, tested, resume=resume, quiet=quiet, device=device, start=begin
        )


def unknown_types(
    learnt: Iterable[Sentence], held: Iterable[Sentence] | None, tested: Iterable[Sentence] | None
) -> Iterator[str]:
    """Types that cannot be found since nothing teaches them; their entities count as missed."""
    known = {entity.type for sentence in learnt for entity in sentence.entities}
    for name, part in (("development", held), ("test", tested)):
        others = {entity.type for sentence in part or () for entity in sentence.entities} - known
        if others:
            yield f"types in the {name} data that the training data has not: {', '.join(sorted(others))}"


def _parts(
    train: Data | Mapping[str, Data], dev: Data | None, test: Data | None
) -> tuple[Data, Data | None, Data | None]:
    """The data by its use; what is given by itself comes before a split of the same use."""
    if not isinstance(train, Mapping):
        return train, dev, test
    if "train" not in train:
        there = ", ".join(map(repr, train)) or "none"
        raise UsageError(f"there is no split 'train' in the training data; its splits are {there}")
    of_dev = next((train[name] for name in _DEV_SPLITS if name in train), None)
    return train["train"], of_dev if dev is None else dev, train.get("test") if test is None else test


def _read(
    data: Data,
    name: str,
    columns: Mapping[str, str] | None,
    options: ReadOptions | None,
    *,
    quiet: bool,
) -> list[Sentence]:
    """All sentences; what there is to say about the reading is said."""
    notes: list[Note]
    if isinstance(data, str | Path):
        if columns is not None:
            options = replace(options or ReadOptions(), columns=columns)
        with Reader(data, options=options) as reader:
            found = list(reader)
        notes = [replace(note, kind=use_python_names(note.kind)) for note in reader.notes]
    elif isinstance(data, Mapping) or not isinstance(data, Iterable):
        raise UsageError(
            f"{name} is a file, sentences, or the rows of a data set, not {type(data).__name__}"
            + (": give one of its splits" if isinstance(data, Mapping) else "")
        )
    else:
        found, notes = _gathered(data, name, columns, options)
    for note in notes:
        _say(str(note), quiet=quiet)
    return found


def _gathered(
    data: Iterable[Any], name: str, columns: Mapping[str, str] | None, options: ReadOptions | None
) -> tuple[list[Sentence], list[Note]]:
    if hasattr(data, "features") or hasattr(data, "columns"):
        rows = Rows(data, columns, options, name=name)
        return list(rows), rows.notes
    stream = iter(data)
    first = next(stream, None)
    everything = chain([] if first is None else [first], stream)
    if isinstance(first, Mapping):
        rows = Rows(everything, columns, options, name=name)
        return list(rows), rows.notes
    found = []
    for index, one in enumerate(everything):
        if not isinstance(one, Sentence):
            raise UsageError(
                f"{name}: number {index} is a {type(one).__name__}; sentences are fencepost.Sentence, "
                "and rows of a data set are dictionaries"
            )
        found.append(one)
    return found, []


def _settings(
    config: Config | Mapping[str, Any] | str | Path | None,
    recipe: str | None,
    flags: Mapping[str, Mapping[str, Any]],
    resumed: Path | None,
) -> Config:
    """All settings, those of the recipe first; those of the run that is resumed are its own."""
    from fencepost.config import Config
    from fencepost.experiments import recipes
    from fencepost.training.run import RUN_FILE

    base = recipes.recipe(recipe).config if recipe is not None else None
    given = {
        part: there
        for part, values in flags.items()
        if (there := {key: value for key, value in values.items() if value is not None})
    }
    if isinstance(config, Config):
        if base is not None:
            raise UsageError("recipe and config contradict each other: a Config has all settings already")
        return Config.parse(merge_trees(config.model_dump(mode="json"), given)) if given else config
    if isinstance(config, Mapping):
        return Config.compose(None, (), merge_trees(config, given), base=base)
    file = None if config is None else Path(config)
    if file is None and resumed is not None and (resumed / RUN_FILE).is_file():
        file = resumed / RUN_FILE
    return Config.compose(file, (), given, base=base)


@contextmanager
def _for_python() -> Iterator[None]:
    """Replace the options of the command line in messages."""
    try:
        yield
    except UsageError as error:
        raise UsageError(use_python_names(str(error))) from None
    except WriteError as error:
        when = "when it can be written again (on a full disk, free some space)"
        raise WriteError(f"{error}; {when}, continue with resume=True") from error


def _say(message: str, *, quiet: bool) -> None:
    """A word about the work, on standard error."""
    if not quiet:
        sys.stderr.write(f"{message}\n")

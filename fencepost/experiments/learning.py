"""`fencepost.train`: training on sentences in files, in data sets or in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fencepost.data import ReadOptions
from fencepost.data.collect import Data, collect_sentences
from fencepost.data.entity import Sentence
from fencepost.data.output import WriteError
from fencepost.data.rows import use_python_names
from fencepost.errors import UsageError, check_path, require_extra
from fencepost.settings import Tree, merge_trees

if TYPE_CHECKING:
    from fencepost.config import Config
    from fencepost.runtime.engine import DeviceName
    from fencepost.training import Outcome

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
    """Train a model and save it in the folder `out`, from where `fencepost.load` loads it.

    Data is a file or `sample:train`, sentences, or a data set of the `datasets` library (or any rows that are
    dictionaries); of a `DatasetDict`, the splits `train`, `validation` and `test` are used. The model is that
    of the epoch with the best score on the development data; `dev_share` holds out a share of the training
    data as development data. `columns` maps fields to columns of a data set, such as
    `{"tokens": "words", "tags": "fine_tags"}`, and `options` has further options for reading.

    `config` has settings: a YAML file, a dictionary, or a `Config`. They override those of the `recipe`, and
    are overridden by `method`, `encoder`, `epochs`, `batch_size` and `seed`. `resume` continues an
    interrupted training run in `out`. `device` is `cpu`, `cuda` or `mps`; `auto` is an accelerator if there
    is one. `start` is the folder of a trained model: the new model has its settings, starts with its weights,
    and adds new types to its types; on its test data `old_test`, forgetting is measured.

    Raises `FencepostError` for invalid arguments, settings or data.
    """
    with require_extra("train", "training"):
        from fencepost import training
        from fencepost.experiments import recipes
    out = check_path(out, "out")
    train, dev, test = _choose_parts(train, dev, test)
    if dev is not None and dev_share is not None:
        raise UsageError("dev (or a validation split) and dev_share contradict each other; give one of them")
    overrides: dict[str, dict[str, Any]] = {
        "method": {"name": method},
        "encoder": {"name": encoder},
        "training": {"epochs": epochs, "batch_size": batch_size, "seed": seed},
        "text": {} if options is None else {"language": options.language, "lines": options.lines},
    }
    if old_test is not None and start is None:
        raise UsageError("old_test needs start, the folder of the model to start from")
    if start is not None and (recipe is not None or config is not None):
        raise UsageError("the model in start has its own settings: leave out recipe and config")
    begin = None if start is None else training.Start(check_path(start, "start"))
    if begin is not None:
        config = begin.read_settings(method)
    base = None if recipe is None else recipes.recipe(recipe).config
    settings = compose_settings(config, base, overrides, out if resume else None)
    options = (options or ReadOptions()).with_defaults(settings.text.language, settings.text.lines)

    def read(data: Data, name: str) -> list[Sentence]:
        sentences, notes = collect_sentences(data, f"the {name} data", columns, options)
        for note in notes:
            _print_note(str(note), quiet=quiet)
        return sentences

    with _use_python_names():
        training.check_folder(out, resume=resume)
        train_part = read(train, "training")
        dev_part = read(dev, "development") if dev is not None else None
        if dev_share is not None:
            train_part, dev_part = training.hold_out(train_part, dev_share, settings.training.seed)
        test_part = read(test, "test") if test is not None else None
        for note in (
            *training.find_idle_settings(settings, train_part, dev_part),
            *find_unknown_types(train_part, dev_part, test_part),
        ):
            _print_note(note, quiet=quiet)
        if begin is not None and old_test is not None:
            begin = replace(begin, test=read(old_test, "old test"))
        return training.train(
            settings,
            train_part,
            out,
            dev_part,
            test_part,
            resume=resume,
            quiet=quiet,
            device=device,
            start=begin,
        )


def find_unknown_types(
    train: Iterable[Sentence], dev: Iterable[Sentence] | None, test: Iterable[Sentence] | None
) -> Iterator[str]:
    """Yield a message for each part with types that are not in the training data, so not predicted."""
    known = {entity.type for sentence in train for entity in sentence.entities}
    for name, part in (("development", dev), ("test", test)):
        others = {entity.type for sentence in part or () for entity in sentence.entities} - known
        if others:
            yield f"types in the {name} data that are not in the training data: {', '.join(sorted(others))}"


def _choose_parts(
    train: Data | Mapping[str, Data], dev: Data | None, test: Data | None
) -> tuple[Data, Data | None, Data | None]:
    """Return training, development and test data; `dev` and `test` take precedence over splits."""
    if not isinstance(train, Mapping):
        return train, dev, test
    if "train" not in train:
        splits = ", ".join(map(repr, train)) or "none"
        raise UsageError(f"there is no split 'train' in the training data; its splits are {splits}")
    dev_split = next((train[name] for name in _DEV_SPLITS if name in train), None)
    return train["train"], dev_split if dev is None else dev, train.get("test") if test is None else test


def compose_settings(
    config: Config | Mapping[str, Any] | str | Path | None,
    base: Tree | None,
    overrides: Mapping[str, Mapping[str, Any]],
    resumed: Path | None,
    changes: Sequence[str] = (),
) -> Config:
    """Return all settings: of the recipe `base`, `config`, `changes` and the overrides that are not None.

    Later ones take precedence. Without `config`, a resumed training run has those in its folder.
    """
    from fencepost.config import Config
    from fencepost.training.folder import RUN_FILE

    flags = {
        section: values
        for section, arguments in overrides.items()
        if (values := {key: value for key, value in arguments.items() if value is not None})
    }
    if isinstance(config, Config):
        if base is not None:
            raise UsageError("recipe and config contradict each other: a Config already has all settings")
        return Config.parse(merge_trees(config.model_dump(mode="json"), flags)) if flags else config
    if isinstance(config, Mapping):
        return Config.compose(None, changes, merge_trees(config, flags), base=base)
    file = None if config is None else check_path(config, "config, if it is not a dictionary or a Config,")
    if file is None and resumed is not None and (resumed / RUN_FILE).is_file():
        file = resumed / RUN_FILE
    return Config.compose(file, changes, flags, base=base)


@contextmanager
def _use_python_names() -> Iterator[None]:
    """Replace command-line options in error messages by the arguments of `train`."""
    try:
        yield
    except UsageError as error:
        raise UsageError(use_python_names(str(error))) from None
    except WriteError as error:
        when = "when it can be written again (on a full disk, free some space)"
        raise WriteError(f"{error}; {when}, continue with resume=True") from error


def _print_note(message: str, *, quiet: bool) -> None:
    """Print a message to standard error unless `quiet`."""
    if not quiet:
        sys.stderr.write(f"{message}\n")

"""Models on the Hugging Face Hub: fetched, saved as a folder, and uploaded with their card.

Only the files of a model travel: weights as safetensors, graphs, JSON, the card. Nothing that is a program,
and nothing that a run leaves besides (its data's fingerprints, its report with examples).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fencepost.data.files import JSON_BYTES, read_text
from fencepost.data.output import temporary_folder
from fencepost.errors import FencepostError, UsageError, describe_error, require_extra
from fencepost.runtime.card import NAME, add_metadata, has_metadata, make_card
from fencepost.runtime.engine import Predictor
from fencepost.runtime.folder import (
    CARD_FILE,
    CONFIG_FILE,
    FACTS_FILE,
    FILES,
    SUMS_FILE,
    WEIGHTS_FILE,
    compute_sums,
    files_of,
    format_sums,
    is_model_file,
    read_saved_config,
    verify_sums,
)
from fencepost.runtime.loading import load

if TYPE_CHECKING:
    from fencepost.runtime.recogniser import Recogniser

_NEVER = ["*..*", "onnx/*/*"]  # a `*` of the client's patterns matches folders too, which may lead elsewhere
_EITHER = (WEIGHTS_FILE, FACTS_FILE)  # a model has at least one of these
_LOG_IN = "log in with `hf auth login`, or give a token"
_LEAST = {"library_name": "fencepost", "pipeline_tag": "token-classification"}


def from_pretrained(
    name: str | Path,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    **options: Any,
) -> Recogniser:
    """Load the model in a folder, or else on the hub, with the options of `fencepost.load`."""
    try:
        is_folder = Path(name).is_dir()
    except (OSError, ValueError):  # a name that no folder can have
        is_folder = False
    if not is_folder:
        download = {"token": token, "cache_dir": cache_dir, "local_files_only": local_files_only}
        name = fetch(str(name), revision=revision, **download)
    return load(name, **options)


def fetch(name: str, *, revision: str | None = None, **download: Any) -> Path:
    """Return the folder in the cache to which a model on the hub has been downloaded.

    Its config is downloaded first: nothing else is, unless it is a model of ours. Raises `DataError` if a
    file is not the one that was saved, by its SHA-256 sum. `download` are options of `snapshot_download`.
    """
    with _explain_errors(name, "there is no such folder, and "):
        from huggingface_hub import snapshot_download

        download |= {"ignore_patterns": _NEVER}
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=[CONFIG_FILE], **download))
        try:
            read_saved_config(folder)
        except FencepostError:
            raise UsageError(
                f"{name}: this is no fencepost model (its {CONFIG_FILE} is missing, or of another kind); "
                "an encoder is given to fencepost train, as --encoder"
            ) from None
        # the same commit, even if there is a newer one by now
        folder = Path(snapshot_download(name, revision=folder.name, allow_patterns=list(FILES), **download))
        if not any((folder / file).is_file() for file in _EITHER):
            raise UsageError(
                f"{name}: the model is not whole, in the cache ({folder} has neither {_EITHER[0]} nor "
                f"{_EITHER[1]}); load it again while the hub can be reached. If it was reached, the hub has "
                "no weights of this model either"
            )
        verify_sums(folder, name)
        return folder


def save_pretrained(source: Path | None, predictor: Predictor, folder: str | Path) -> None:
    """Write the files of a model, which are in `source` or else in memory, into a new folder."""
    folder = Path(folder)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder}: already exists and is not an empty folder; give another name")
        with _files(source, predictor) as there:
            _copy(there, folder)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from None


def _contents(folder: Path) -> dict[str, Path | bytes]:
    """Return the files of a model by name, the config last; sums and a card are made if they are missing."""
    files: dict[str, Path | bytes] = {name: folder / name for name in files_of(folder)}
    if SUMS_FILE not in files:  # a model of an older version
        files = {SUMS_FILE: format_sums(compute_sums(folder, files)).encode(), **files}
    if CARD_FILE not in files:
        files = {CARD_FILE: make_card(folder).encode(), **files}
    return files


def _copy(source: Path, folder: Path) -> None:
    """Copy all files, or nothing that would be taken for a model."""
    folder.mkdir(parents=True, exist_ok=True)
    files = _contents(source)
    with temporary_folder(folder) as made:
        for name, content in files.items():
            (made / name).parent.mkdir(exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, made / name)
            else:
                (made / name).write_bytes(content)
        for name in files:
            (folder / name).parent.mkdir(exist_ok=True)
            (made / name).replace(folder / name)


@contextmanager
def _files(source: Path | None, predictor: Predictor) -> Iterator[Path]:
    """Yield the folder with the model's files; a temporary one for a model that is only in memory."""
    if source is not None and (source / CONFIG_FILE).is_file():
        verify_sums(source, str(source))
        yield source
    elif predictor.name == "pytorch":
        from fencepost.runtime.pytorch import TorchEngine, save_model

        assert isinstance(predictor.engine, TorchEngine)  # noqa: S101 - by its name
        with tempfile.TemporaryDirectory() as made:
            save_model(predictor.engine.model, made)
            yield Path(made)
    else:
        raise UsageError(f"{source}: the model's files are no longer where it was loaded from")


def push_to_hub(
    source: Path | None,
    predictor: Predictor,
    name: str,
    *,
    private: bool | None = None,
    token: str | bool | None = None,
    branch: str | None = None,
    commit_message: str = "A fencepost model",
    create_pr: bool = False,
    metadata: Mapping[str, Any] | None = None,
) -> str:
    """Upload a model as one commit, and return its address; see `Recogniser.push_to_hub`."""
    if create_pr and branch not in (None, "main"):
        raise UsageError(f"create_pr is for the branch main, not {branch!r}; leave one of them out")
    if not commit_message:
        raise UsageError("commit_message is empty; say what this version of the model is")
    with _files(source, predictor) as folder:
        text = _card(folder, name, {} if metadata is None else metadata)
        with _explain_errors(name):
            from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

            api = HfApi(token=token, library_name="fencepost")
            api.create_repo(name, private=private, exist_ok=True)
            if branch not in (None, "main"):
                api.create_branch(name, branch=branch, exist_ok=True)
            files = {**_contents(folder), CARD_FILE: text.encode("utf-8")}
            operations = [CommitOperationAdd(file, content) for file, content in files.items()]
            outdated = [  # graphs of other weights, for example, which would be taken for this model's
                CommitOperationDelete(file)
                for file in api.list_repo_files(name, revision=branch)
                if file not in files and is_model_file(file)
            ]
            done = api.create_commit(
                name,
                [*operations, *outdated],
                commit_message=commit_message,
                revision=branch,
                create_pr=create_pr,
            )
            return done.pr_url or done.commit_url


def _card(folder: Path, name: str, metadata: Mapping[str, Any]) -> str:
    """Return the folder's own card, or a new one, with the model's name and this metadata."""
    path = folder / CARD_FILE
    if not isinstance(metadata, Mapping):
        raise UsageError(
            f'metadata is a dictionary, as {{"license": "apache-2.0"}}, not {type(metadata).__name__}'
        )
    text = read_text(path, limit=JSON_BYTES) if path.is_file() else make_card(folder)
    text = text.removeprefix("\ufeff").replace(NAME, name)
    more = dict(metadata) if has_metadata(text) else {**_LEAST, **metadata}
    if not more:
        return text
    try:
        return add_metadata(text, more)
    except ValueError as error:
        raise UsageError(
            f"{path}: the lines at its top, or metadata, are not valid YAML: {describe_error(error)}"
        ) from None


@contextmanager
def _explain_errors(name: str, first: str = "") -> Iterator[None]:
    """Raise errors of the hub's client as a `UsageError`; its message begins with `first`."""
    with require_extra("hub", "the hub"):
        from huggingface_hub import errors
    known: tuple[tuple[type[Exception], str], ...] = (
        (errors.HFValidationError, f"{first}names on the hub are like owner/name"),
        (errors.GatedRepoError, f"it is given on request; ask on its page, then {_LOG_IN}"),
        (
            errors.RepositoryNotFoundError,
            f"{first}the hub has no such model, or does not show it to you; check the name, or {_LOG_IN}",
        ),
        (errors.RevisionNotFoundError, "it has no such revision; give a branch, a tag or a commit of it"),
    )
    try:
        yield
    except FencepostError:
        raise
    except Exception as error:  # noqa: BLE001 - a network and a disk have many ways to fail
        words = next((words for class_, words in known if isinstance(error, class_)), None)
        if isinstance(error, errors.LocalEntryNotFoundError):
            reason = describe_error(error.__cause__) if error.__cause__ else "local_files_only is set"
            words = (
                f"{first}the model is not, or not whole, in the cache, and the hub was not reached ({reason})"
            )
        elif words is None and isinstance(error, errors.HfHubHTTPError):
            refused = error.response.status_code in (401, 403)
            words = f"the hub refuses: {describe_error(error)}" + (f"; {_LOG_IN}" if refused else "")
        words = words or f"the hub was not reached, or its client has failed: {describe_error(error)}"
        raise UsageError(f"{name}: {words}") from None

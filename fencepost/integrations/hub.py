"""Models on the Hugging Face Hub: download, saving as a folder, and upload with a card.

Only the files of a model are transferred: weights as safetensors, graphs, JSON and the card; no code, and no
other files of a training run, such as fingerprints of its data or a report with examples.
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
from fencepost.methods.combination.settings import MOST_MEMBERS
from fencepost.runtime.card import NAME, add_metadata, has_metadata, make_card
from fencepost.runtime.engine import Predictor
from fencepost.runtime.folder import (
    CARD_FILE,
    CONFIG_FILE,
    FACTS_FILE,
    FILES,
    MEMBER_FOLDER,
    SUMS_FILE,
    WEIGHTS_FILE,
    compute_sums,
    files_of,
    format_sums,
    is_model_file,
    list_members,
    read_saved_config,
    verify_sums,
)
from fencepost.runtime.loading import load

if TYPE_CHECKING:
    from fencepost.runtime.recogniser import Recogniser

# `*` in the patterns of the client also matches folders
_IGNORED = ["*..*", "onnx/*/*", "members/*/onnx/*/*"]
_PATTERNS = [*FILES, *(f"{MEMBER_FOLDER}/{n}/{file}" for n in range(1, MOST_MEMBERS + 1) for file in FILES)]
_REQUIRED = (WEIGHTS_FILE, FACTS_FILE)  # a model has at least one of these
_LOG_IN = "log in with `hf auth login`, or give a token"
_DEFAULT_METADATA = {"library_name": "fencepost", "pipeline_tag": "token-classification"}


def from_pretrained(
    name: str | Path,
    *,
    revision: str | None = None,
    token: str | bool | None = None,
    cache_dir: str | Path | None = None,
    local_files_only: bool = False,
    **options: Any,
) -> Recogniser:
    """Load a model from a folder, or else from the hub, with the options of `fencepost.load`."""
    try:
        is_folder = Path(name).is_dir()
    except (OSError, ValueError):  # a name that no folder can have
        is_folder = False
    if not is_folder:
        download = {"token": token, "cache_dir": cache_dir, "local_files_only": local_files_only}
        name = fetch(str(name), revision=revision, **download)
    return load(name, **options)


def fetch(name: str, *, revision: str | None = None, **download: Any) -> Path:
    """Download a model from the hub, and return its folder in the cache.

    The config is downloaded first, and nothing else unless it is that of a fencepost model. `download` are
    options of `snapshot_download`. Raises `DataError` if a file does not have its SHA-256 checksum.
    """
    with _explain_errors(name, "there is no such folder, and "):
        from huggingface_hub import snapshot_download

        download |= {"ignore_patterns": _IGNORED}
        folder = Path(snapshot_download(name, revision=revision, allow_patterns=[CONFIG_FILE], **download))
        try:
            read_saved_config(folder)
        except FencepostError:
            raise UsageError(
                f"{name}: this is not a fencepost model (its {CONFIG_FILE} is missing or of another tool); "
                "for an encoder, use fencepost train --encoder"
            ) from None
        # the same commit, even if there is a newer one now
        folder = Path(snapshot_download(name, revision=folder.name, allow_patterns=_PATTERNS, **download))
        parts = list_members(folder) or [folder]
        if not all(any((part / file).is_file() for file in _REQUIRED) for part in parts):
            raise UsageError(
                f"{name}: the model in the cache is incomplete ({folder} has neither {_REQUIRED[0]} nor "
                f"{_REQUIRED[1]}); load it again with a connection to the hub. If there was one, the model "
                "on the hub has no weights"
            )
        verify_sums(folder, name)
        return folder


def save_pretrained(source: Path | None, predictor: Predictor, folder: str | Path) -> None:
    """Write the files of a model, from the folder `source` or else from memory, into a new folder."""
    folder = Path(folder)
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder}: already exists and is not an empty folder; give another name")
        with _open_folder(source, predictor) as model:
            _copy(model, folder)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written: {error.strerror or error}") from None


def _list_contents(folder: Path) -> dict[str, Path | bytes]:
    """Return the files of a model by name, the config last; missing checksums and cards are added."""
    files: dict[str, Path | bytes] = {name: folder / name for name in files_of(folder)}
    if SUMS_FILE not in files:  # a model of an earlier version
        files = {SUMS_FILE: format_sums(compute_sums(folder, files)).encode(), **files}
    if CARD_FILE not in files:
        files = {CARD_FILE: make_card(folder).encode(), **files}
    return files


def _copy(source: Path, folder: Path) -> None:
    """Copy all files of a model; an interrupted copy has no config."""
    folder.mkdir(parents=True, exist_ok=True)
    files = _list_contents(source)
    with temporary_folder(folder) as temporary:
        for name, content in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, temporary / name)
            else:
                (temporary / name).write_bytes(content)
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).replace(folder / name)


@contextmanager
def _open_folder(source: Path | None, predictor: Predictor) -> Iterator[Path]:
    """Yield the folder with the model's files; it is temporary for a model that is only in memory."""
    if source is not None and (source / CONFIG_FILE).is_file():
        verify_sums(source, str(source))
        yield source
    elif predictor.name == "pytorch":
        from fencepost.runtime.pytorch import TorchEngine, save_model

        assert isinstance(predictor.engine, TorchEngine)  # noqa: S101 - by its name
        with tempfile.TemporaryDirectory() as temporary:
            save_model(predictor.engine.model, temporary)
            yield Path(temporary)
    else:
        raise UsageError(f"{source}: the files of the model are no longer in the folder it was loaded from")


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
    """Upload a model as one commit, and return the URL of the commit; see `Recogniser.push_to_hub`."""
    if create_pr and branch not in (None, "main"):
        raise UsageError(f"create_pr is for the branch main, not {branch!r}; leave out one of them")
    if not commit_message:
        raise UsageError("commit_message is empty; describe this version of the model")
    with _open_folder(source, predictor) as folder:
        text = _prepare_card(folder, name, {} if metadata is None else metadata)
        with _explain_errors(name):
            from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

            api = HfApi(token=token, library_name="fencepost")
            api.create_repo(name, private=private, exist_ok=True)
            if branch not in (None, "main"):
                api.create_branch(name, branch=branch, exist_ok=True)
            files = {**_list_contents(folder), CARD_FILE: text.encode("utf-8")}
            operations = [CommitOperationAdd(file, content) for file, content in files.items()]
            outdated = [  # for example graphs of other weights, which would be used with this model
                CommitOperationDelete(file)
                for file in api.list_repo_files(name, revision=branch)
                if file not in files and is_model_file(file)
            ]
            commit = api.create_commit(
                name,
                [*operations, *outdated],
                commit_message=commit_message,
                revision=branch,
                create_pr=create_pr,
            )
            return commit.pr_url or commit.commit_url


def _prepare_card(folder: Path, name: str, metadata: Mapping[str, Any]) -> str:
    """Return the card in the folder, or a new one, with the model's name and this metadata."""
    path = folder / CARD_FILE
    if not isinstance(metadata, Mapping):
        raise UsageError(
            f'metadata must be a dictionary like {{"license": "apache-2.0"}}, not {type(metadata).__name__}'
        )
    text = read_text(path, limit=JSON_BYTES) if path.is_file() else make_card(folder)
    text = text.removeprefix("\ufeff").replace(NAME, name)
    more = dict(metadata) if has_metadata(text) else {**_DEFAULT_METADATA, **metadata}
    if not more:
        return text
    try:
        return add_metadata(text, more)
    except ValueError as error:
        raise UsageError(
            f"{path}: its metadata, or the given metadata, is not valid YAML: {describe_error(error)}"
        ) from None


@contextmanager
def _explain_errors(name: str, first: str = "") -> Iterator[None]:
    """Raise errors of the hub's client as a `UsageError`, whose message starts with `first`."""
    with require_extra("hub", "the hub"):
        from huggingface_hub import errors
    known: tuple[tuple[type[Exception], str], ...] = (
        (errors.HFValidationError, f"{first}a name on the hub has the form owner/name"),
        (errors.GatedRepoError, f"access must be requested on the model's page; then {_LOG_IN}"),
        (errors.RepositoryNotFoundError, f"{first}the hub has no such model, or it is private; {_LOG_IN}"),
        (errors.RevisionNotFoundError, "there is no such revision; give a branch, a tag or a commit"),
    )
    try:
        yield
    except FencepostError:
        raise
    except Exception as error:  # noqa: BLE001 - errors of the network and the disk are of many classes
        message = next((message for class_, message in known if isinstance(error, class_)), None)
        if isinstance(error, errors.LocalEntryNotFoundError):
            reason = describe_error(error.__cause__) if error.__cause__ else "local_files_only is set"
            message = f"{first}it is not completely in the cache, and the hub cannot be reached ({reason})"
        elif message is None and isinstance(error, errors.HfHubHTTPError):
            is_denied = error.response.status_code in (401, 403)
            message = f"the hub refuses: {describe_error(error)}" + (f"; {_LOG_IN}" if is_denied else "")
        message = message or f"the hub cannot be reached, or its client has failed: {describe_error(error)}"
        raise UsageError(f"{name}: {message}") from None

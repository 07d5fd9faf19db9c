"""spaCy component `fencepost`: nested entities in `doc.spans`, and flat ones in `doc.ents`.

spaCy imports this module for every pipeline, so slow imports are inside functions.
"""

# Without `from __future__ import annotations`: spaCy checks the config by the annotations of the factory.

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

import srsly  # type: ignore[import-untyped]
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc

from fencepost.data.files import SETTINGS_BYTES, read_json_object
from fencepost.data.output import raise_write_errors
from fencepost.errors import DataError, UsageError, describe_error, quote
from fencepost.integrations.spacy_marking import UNALIGNED, Marking
from fencepost.runtime.folder import CONFIG_FILE, files_of, is_model_file

if TYPE_CHECKING:
    from fencepost.runtime.document import Span as Predicted
    from fencepost.runtime.recogniser import Recogniser

_ABOUT_FILE, _MODEL_FOLDER = "fencepost.json", "model"
_MAX_BYTES = 2**32 - 1  # maximum size of a value in MessagePack

ModelFiles = Path | Mapping[str, bytes] | None
"""Folder of a model, or its files by name; None is the model that ships with Fencepost."""


@Language.factory(
    "fencepost",
    assigns=["doc.spans", "doc.ents", "token.ent_iob", "token.ent_type", "span._.fencepost_score"],
)
def make_component(
    nlp: Language,
    name: str,
    model: str | None = None,
    engine: str = "auto",
    min_confidence: float | dict[str, float] = 0.0,
    types: list[str] | None = None,
    settings: dict[str, Any] = {},  # noqa: B006 - spaCy copies it into the config
    threads: int | None = None,
    language: str | None = None,
    lines: str | None = None,
    spans_key: str = "fencepost",
    ents: str | None = "outermost",
    overwrite_ents: bool = False,
    alignment_mode: str = "strict",
) -> "FencepostComponent":
    """Return the component that `nlp.add_pipe("fencepost", config={...})` adds."""
    options = {
        "engine": engine,
        "min_confidence": min_confidence,
        "types": types,
        "settings": settings,
        "threads": threads,
        "language": language,
        "lines": lines,
    }
    marking = Marking(spans_key, ents, overwrite_ents, alignment_mode)
    component = FencepostComponent(name, model, options, marking, awaits_files=_is_being_read(nlp, name))
    if not component.awaits_files:
        component.load()
    return component


_NEW_PIPELINES: WeakSet[Language] = WeakSet()


def _is_being_read(nlp: Language, name: str) -> bool:
    """Return whether this is a saved pipeline that is being read, with its own copy of the model.

    The folder in its config may no longer exist, or be on another machine. spaCy saves the names of all
    components in `_meta`, where they stay until the property `meta` is read.
    """
    if nlp.path is None and nlp not in _NEW_PIPELINES and name in (nlp._meta.get("components") or ()):
        return True
    _NEW_PIPELINES.add(nlp)
    return False


class FencepostComponent(Pipe):
    """Pipeline component that predicts the entities of a document and sets them on its tokens."""

    def __init__(
        self,
        name: str,
        configured: str | None,
        options: Mapping[str, Any],
        marking: Marking,
        *,
        awaits_files: bool,
    ) -> None:
        """Create a component for the model of the config, with `options` of `fencepost.load`."""
        from fencepost.runtime.loading import find_model

        self.name = name
        self.marking = marking
        self._model: ModelFiles = None if configured is None else find_model(configured).absolute()
        self._configured = configured
        self.awaits_files = awaits_files
        self._options = options
        self._has_warned = False
        self._recogniser: Recogniser | None = None
        self._process = os.getpid()
        self._parents: Recogniser | None = None

    @property
    def recogniser(self) -> "Recogniser":
        """Loaded model; each process loads its own."""
        if self._recogniser is not None and self._process != os.getpid():
            self._handle_fork(self._recogniser)
        return self._recogniser or self.load()

    def _handle_fork(self, inherited: "Recogniser") -> None:
        """Replace the model in a forked process, where it would wait for threads of the parent process."""
        self._process = os.getpid()
        if inherited.engine == "pytorch":
            import torch

            torch.set_num_threads(1)
        else:
            self._parents, self._recogniser = inherited, None  # deleting it would also wait for the threads

    def load(self) -> "Recogniser":
        """Load the model and return it."""
        from fencepost.runtime.loading import load

        self._process = os.getpid()
        if isinstance(self._model, Mapping):
            with tempfile.TemporaryDirectory() as folder:
                _write(self._model, Path(folder))
                self._recogniser = load(folder, **self._options)
        else:
            self._recogniser = load(self._model, **self._options)
        return self._recogniser

    @property
    def labels(self) -> tuple[str, ...]:
        """Types of entities; empty while no model is loaded."""
        if self._recogniser is None:
            return ()
        types = self._options["types"]
        return tuple(type_ for type_ in self._recogniser.types if types is None or type_ in types)

    def __call__(self, doc: Doc) -> Doc:
        self._set_entities(doc, self.recogniser(doc.text))
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Yield the documents with their entities; the texts of each batch are predicted together."""
        stream = iter(stream)
        while docs := list(islice(stream, batch_size)):
            yield from self._process_batch(docs)

    def _process_batch(self, docs: Sequence[Doc]) -> Iterator[Doc]:
        """Yield the documents of a batch; after an error, each is tried alone, with spaCy's error handler."""
        predicted: Sequence[list[Predicted] | None]
        try:
            predicted = list(self.recogniser.pipe([doc.text for doc in docs]))
        except Exception:  # noqa: BLE001 - it is raised again for the document that causes it
            predicted = [None] * len(docs)
        for doc, entities in zip(docs, predicted, strict=True):
            try:
                self._set_entities(doc, self.recogniser(doc.text) if entities is None else entities)
            except Exception as error:  # noqa: BLE001 - the handler decides
                self.get_error_handler()(self.name, self, [doc], error)
            else:
                yield doc

    def _set_entities(self, doc: Doc, predicted: Sequence["Predicted"]) -> None:
        unaligned = self.marking(doc, predicted)
        if unaligned and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{self.name}: of the {len(predicted)} entities in a text, {len(unaligned)} do not align "
                f"with its tokens, such as {unaligned[0].text!r}, which starts or ends inside a token. They "
                f"are in doc.spans[{self.marking.spans_key!r}].attrs[{UNALIGNED!r}]; use alignment_mode "
                "'expand' to extend them to whole tokens. (Shown once.)",
                stacklevel=2,
            )

    def _get_files(self) -> Path | Mapping[str, bytes]:
        """Return the files of the model that are saved with the pipeline; empty for the shipped model."""
        if isinstance(self._model, Path) and not (self._model / CONFIG_FILE).is_file():
            raise UsageError(f"{self._model}: the model no longer exists, but is needed to save the pipeline")
        return {} if self._model is None else self._model

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:  # noqa: ARG002
        """Save the component to a folder, with the model unless it is the one that ships with Fencepost."""
        from fencepost import __version__

        path, files = Path(path), self._get_files()
        about = {"fencepost": __version__, "shipped": self._model is None, "model": self._configured}
        _write_file(f"{json.dumps(about)}\n".encode(), path / _ABOUT_FILE)
        _write(files, path / _MODEL_FOLDER)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> Self:  # noqa: ARG002
        """Load the model that was saved in a folder, or else the one in the pipeline's config."""
        about = Path(path) / _ABOUT_FILE
        if about.exists():
            saved = read_json_object(about, limit=SETTINGS_BYTES)
            if not isinstance(saved.get("shipped"), bool):
                message = "this is not a file of Fencepost: shipped is missing; save the pipeline again"
                raise DataError(message, source=str(about))
            if not self._names_another(saved):
                return self._replace(None if saved["shipped"] else Path(path).absolute() / _MODEL_FOLDER)
        return self._replace(self._model)

    def _names_another(self, saved: Mapping[str, Any]) -> bool:
        """Return whether the config has another model than the one that was saved."""
        return self.awaits_files and saved.get("model", self._configured) != self._configured

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:  # noqa: ARG002
        """Return all files of the model, unless it is the one that ships with Fencepost."""
        files = {
            name: content if isinstance(content, bytes) else content.read_bytes()
            for name, content in _list_contents(self._get_files())
        }
        if sum(map(len, files.values())) > _MAX_BYTES:
            raise UsageError(f"{self.name}: the model is too large for bytes; save the pipeline to a folder")
        saved = {"shipped": self._model is None, "model": self._configured, "files": files}
        return bytes(srsly.msgpack_dumps(saved))

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> Self:  # noqa: ARG002
        try:
            saved = srsly.msgpack_loads(data)
            shipped, files, another = saved["shipped"], dict(saved["files"]), self._names_another(saved)
            if not all(is_model_file(name) and isinstance(content, bytes) for name, content in files.items()):
                raise ValueError(f"files are {quote(sorted(map(str, files)))}")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            message = f"these bytes are not a component of Fencepost: {describe_error(error)}"
            raise DataError(message, source=self.name) from None
        return self._replace(self._model if another else None if shipped else files)

    def _replace(self, model: ModelFiles) -> Self:
        """Load another model; if that fails, the component is unchanged."""
        before, self._model = self._model, model
        try:
            self.load()
        except BaseException:
            self._model = before
            raise
        self.awaits_files = False
        return self

    def __reduce__(self) -> tuple[Callable[..., "FencepostComponent"], tuple[dict[str, Any]]]:
        """Leave out the loaded model, since each process loads its own."""
        return _unpickle, ({**vars(self), "name": self.name, "_recogniser": None, "_parents": None},)


def _unpickle(state: dict[str, Any]) -> FencepostComponent:
    component = FencepostComponent.__new__(FencepostComponent)
    for name, value in state.items():
        setattr(component, name, value)
    return component


def _list_contents(model: Path | Mapping[str, bytes]) -> Iterator[tuple[str, Path | bytes]]:
    """Yield the names and contents of the files of a model, in the order in which they are written."""
    if isinstance(model, Mapping):
        yield from sorted(model.items(), key=lambda item: item[0] == CONFIG_FILE)
    else:
        yield from ((name, model / name) for name in files_of(model))


def _write(model: Path | Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a model into a folder, and remove those of an earlier model; other files stay."""
    contents, old = dict(_list_contents(model)), dict(_list_contents(folder))
    parts = {part for name in (*contents, *old) for part in Path(name).parents}  # the folder itself, too
    for part in (folder / part for part in sorted(parts)):
        if part.is_symlink():
            raise UsageError(f"{part}: is a link, which may lead out of the pipeline's folder; remove it")
    if isinstance(model, Path) and folder.exists() and folder.samefile(model):
        return
    (folder / CONFIG_FILE).unlink(missing_ok=True)
    for name, content in contents.items():
        _write_file(content, folder / name)
        old.pop(name, None)
    for name in old:
        (folder / name).unlink(missing_ok=True)


def _write_file(content: Path | bytes, path: Path) -> None:
    """Write a new file and move it to `path`, where an existing file may be a link or in use."""
    with raise_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        if isinstance(content, Path):
            shutil.copyfile(content, temporary)
        else:
            temporary.write_bytes(content)
        temporary.replace(path)

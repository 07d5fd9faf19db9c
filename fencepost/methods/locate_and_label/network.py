"""Sections 2.3, 2.4: a filter, a regressor and a classifier of spans."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from fencepost.encoder.encoder import Words
from fencepost.methods.decoder import IntArray
from fencepost.methods.locate_and_label.loss import Examples, ExampleScores, compute_losses, sample_examples
from fencepost.methods.locate_and_label.settings import LocateAndLabelSettings
from fencepost.methods.locate_and_label.spans import MaximumTable, Spans, enumerate_spans, move_spans
from fencepost.methods.network import Gold, Graph, Network, word_axes


class LocateAndLabel(Network[ExampleScores]):
    """Filter, regressor and classifier of spans. Class 0 is "no entity"; type t is class t + 1."""

    settings: LocateAndLabelSettings

    def __init__(self, settings: LocateAndLabelSettings, width: int, types: Sequence[str]) -> None:
        super().__init__(settings, width, types)

        def head(outputs: int) -> SpanHead:
            parts = 3 + settings.sentence_vector
            return SpanHead(width, parts, settings.size, outputs, settings.dropout)

        self.filter = head(1) if settings.filter else None
        self.regressor = head(2) if settings.regressor else None
        self.classifier = head(1 + len(types))
        # stands for the word before the first and after the last; not in the paper
        self.outside = nn.Parameter(torch.zeros(width)) if settings.regressor else None

    def score(self, words: Words, gold: Gold) -> ExampleScores:
        """Locate (Eq. 1-7), then label (Eq. 8-10) the examples."""
        examples = self.sample(gold, words.lengths)
        seeds, moved, near, offsets = examples.spans, examples.spans, None, None
        table = MaximumTable(words.vectors, torch)

        def run(head: SpanHead, spans: Spans, vectors: Tensor, last: IntArray) -> Tensor:
            one, other = head.compute_views(vectors, words.prompts)
            ends = one[spans.sentence, spans.start], other[spans.sentence, last]
            return head.combine(table.pool(spans), *ends).float()

        if self.filter is not None:
            near = run(self.filter, seeds, words.vectors, seeds.end - 1)[:, 0]
        if self.regressor is not None and self.outside is not None:
            surrounded = _surround(words, self.outside)  # word t is at t + 1
            offsets = run(self.regressor, seeds, surrounded, seeds.end + 1)
            moved = move_spans(seeds, offsets.detach().cpu().numpy(), words.lengths.cpu().numpy())
        labels = run(self.classifier, moved, words.vectors, moved.end - 1)
        return ExampleScores(examples, near, offsets, moved, labels)

    def sample(self, gold: Gold, lengths: Tensor) -> Examples:
        """Section 2.2: return examples, some of them random; in evaluation always the same."""
        seeds = enumerate_spans(self.settings.lengths, lengths.cpu().numpy())
        generator = None if self.training else torch.Generator(lengths.device).manual_seed(0)
        chance = torch.rand(len(seeds.start), generator=generator, device=lengths.device).cpu().numpy()
        return sample_examples(seeds, gold.to_numpy(), chance, len(lengths), self.settings)

    def loss(self, scores: ExampleScores, gold: Gold) -> dict[str, Tensor]:
        """Eq. 11-17: return weighted means over the examples."""
        return compute_losses(scores, self.settings, self.mean_count, gold.annotated)

    def graphs(self, words: Words) -> dict[str, Graph]:
        """Return the filter, for all spans of a batch, and regressor and classifier, for some spans."""
        graphs: dict[str, Graph] = {}
        if self.filter is not None:
            inputs, axes = word_axes(words)
            axes["near"] = ("sentences", None, "words")
            graphs["filter"] = Graph(FilterGraph(self.filter, self.settings.lengths[-1]), inputs, axes)
        some = words.vectors[0]  # in place of vectors of spans, which have the same shape
        sentence = {} if words.prompts is None else {"sentence": words.prompts[0].expand_as(some)}

        def on_spans(module: nn.Module, output: str, *names: str, **others: Tensor) -> Graph:
            inputs = dict.fromkeys(names, some) | others | sentence
            return Graph(module, inputs, dict.fromkeys((*inputs, output), ("spans", None)))

        if self.regressor is not None and self.outside is not None:
            module = RegressorGraph(self.regressor, self.outside)
            at_edge = torch.zeros(len(some), 1, dtype=torch.bool, device=some.device)
            names = ("pooled", "before", "behind")
            graphs["regressor"] = on_spans(module, "offsets", *names, at_start=at_edge, at_end=at_edge)
        graphs["classifier"] = on_spans(self.classifier, "labels", "pooled", "first", "last")
        return graphs


class SpanHead(nn.Module):
    """Two linear layers with GELU between them, on `[max-pool of a span ; a word ; another ; sentence]`."""

    def __init__(self, width: int, parts: int, size: int, outputs: int, dropout: float) -> None:
        """Create a head; `parts` is 4 with a vector of the whole sentence, else 3."""
        super().__init__()
        self.width = width
        self.dropout = nn.Dropout(dropout)
        self.hidden = nn.Linear(parts * width, size)
        self.output = nn.Linear(size, outputs)

    def forward(self, *parts: Tensor) -> Tensor:
        """Map parts `[N, d]` to `[N, outputs]`; used for the few spans of prediction."""
        outputs: Tensor = self.output(functional.gelu(self.hidden(torch.cat(parts, dim=1))))
        return outputs

    def compute_views(self, words: Tensor, sentence: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the words' parts of the first layer, as first and as second word: `[B, T, h]` each.

        So they are computed once for each word `[B, T, d]`, not for each span. The part of the sentence's
        vector `[B, 1, d]` is added to those of the first words.
        """
        _, of_one, of_other, *of_sentence = torch.split(self.hidden.weight, self.width, dim=1)
        words = self.dropout(words)
        one, other = functional.linear(words, of_one), functional.linear(words, of_other)
        if sentence is not None:
            one = one + functional.linear(self.dropout(sentence), *of_sentence)
        return one, other

    def combine(self, pooled: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """Compute `forward`, with dropout, from pooled vectors `[..., d]` and two views `[..., h]`."""
        of_pooled = self.hidden.weight[:, : self.width]
        hidden = functional.linear(self.dropout(pooled), of_pooled, self.hidden.bias) + one + other
        outputs: Tensor = self.output(functional.gelu(hidden))
        return outputs


class FilterGraph(nn.Module):
    """Graph of the filter for all spans up to a length; the decoder ignores those that are too long."""

    def __init__(self, filter_: SpanHead, longest: int) -> None:
        super().__init__()
        self.filter = filter_
        self.longest = longest

    def forward(self, vectors: Tensor, prompts: Tensor | None = None) -> Tensor:
        """Map `[B, T, d]` to logits `[B, longest, T]`, by a span's length and start."""
        words = vectors.shape[1]
        first, last = self.filter.compute_views(vectors, prompts)  # [B, T, h]
        following, last = (functional.pad(of, (0, 0, 0, self.longest)) for of in (vectors, last))
        pooled, near = vectors, []
        present = self.longest if torch.onnx.is_in_onnx_export() else min(self.longest, words)
        for more in range(present):
            pooled = torch.maximum(pooled, following[:, more : more + words])
            near.append(self.filter.combine(pooled, first, last[:, more : more + words])[..., 0])
        near += [torch.zeros_like(near[0])] * (self.longest - present)  # longer than all sentences
        return torch.stack(near, dim=1)


class RegressorGraph(nn.Module):
    """Graph of the regressor for given vectors of spans, with `outside` for words beyond the sentence."""

    def __init__(self, regressor: SpanHead, outside: nn.Parameter) -> None:
        super().__init__()
        self.regressor = regressor
        self.outside = outside

    def forward(
        self, pooled: Tensor, before: Tensor, behind: Tensor, at_start: Tensor, at_end: Tensor, *rest: Tensor
    ) -> Tensor:
        """Return the offsets `[N, 2]`; `at_start` and `at_end` are `[N, 1]`, true for missing words."""
        words = torch.where(at_start, self.outside, before), torch.where(at_end, self.outside, behind)
        offsets: Tensor = self.regressor(pooled, *words, *rest)
        return offsets


def _surround(words: Words, outside: Tensor) -> Tensor:
    """Return the word vectors with `outside` before the first and after the last: `[B, T + 2, d]`."""
    sentences = torch.arange(len(words.lengths), device=words.lengths.device)
    edge = outside.expand(len(sentences), 1, -1)
    surrounded = torch.cat((edge, words.vectors, edge), dim=1)
    surrounded[sentences, words.lengths + 1] = outside.to(surrounded.dtype)
    return surrounded

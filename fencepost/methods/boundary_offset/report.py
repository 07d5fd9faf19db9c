"""The report `offsets` (Table 5): scores of each offset label, and of the entities of each mode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fencepost.data.entity import Sentence
from fencepost.evaluation import Score
from fencepost.methods.boundary_offset.decode import Cells, OffsetDecoder, OffsetScores, decode
from fencepost.methods.boundary_offset.labels import NEARLY_CENTRE, OUT_OF_RANGE, label_cells
from fencepost.methods.boundary_offset.settings import BoundaryOffsetPredict
from fencepost.methods.decoder import GoldArrays, Report, Row


class OffsetReport(Report):
    """Strict scores of the labels of cells in the upper triangle, and of the entities of each mode."""

    MODES = ("centre", "all", "rules")
    decoder: OffsetDecoder
    predict: BoundaryOffsetPredict

    def __init__(self, decoder: OffsetDecoder, predict: BoundaryOffsetPredict) -> None:
        super().__init__(decoder, predict)
        self.labels = np.zeros((3, len(decoder.labels)), dtype=np.int64)  # correct, predicted, gold
        self.modes = np.zeros((3, len(self.MODES)), dtype=np.int64)

    def add(self, sentences: Sequence[Sentence], scores: OffsetScores, gold: GoldArrays) -> None:
        types, names = len(self.decoder.types), len(self.decoder.labels)
        batch, length = len(scores.lengths), scores.length
        cells, entries = scores.cells, label_cells(gold, scores.lengths, self.decoder.labels)
        labelled = Cells._make(column[cells.label != NEARLY_CENTRE] for column in cells)
        of_cells = (batch, length, length, types, names)
        predicted, true = (np.ravel_multi_index(columns, of_cells) for columns in (labelled[:5], entries))
        columns = (labelled.label[np.isin(predicted, true)], labelled.label, entries[4])
        self.labels += [np.bincount(labels, minlength=names) for labels in columns]

        offset = gold.sentence * length
        of_spans = (batch * length, batch * length + 1, types)
        true = np.ravel_multi_index((offset + gold.start, offset + gold.end, gold.type), of_spans)
        support = sum(len({entity.key for entity in sentence.entities}) for sentence in sentences)
        for number, mode in enumerate(self.MODES):
            predict = self.predict.model_copy(update={"mode": mode})
            candidates = decode(cells, scores.lengths, length, self.decoder.labels, predict)
            entities = predict.select_entities(candidates, self.decoder.types, sentences)
            predicted = np.ravel_multi_index((entities.start, entities.end, entities.type), of_spans)
            self.modes[:, number] += (np.isin(predicted, true).sum(), len(predicted), support)

    def tables(self) -> dict[str, dict[str, Row]]:
        of_labels = [Score.of(*counts) for counts in self.labels.T.tolist()]
        of_modes = [Score.of(*counts) for counts in self.modes.T.tolist()]
        names = self.decoder.labels.names
        labels: dict[str, Row] = dict(zip(names, of_labels, strict=True))
        del labels[names[OUT_OF_RANGE]]
        labels["0"] = labels.pop("0")  # last, as in the paper
        return {"labels": labels, "decoding": dict(zip(self.MODES, of_modes, strict=True))}

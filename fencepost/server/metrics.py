"""Metrics of the server for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)
_TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Metrics of one server, in their own registry, so that a process can have several servers."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self.requests = self._make_counter("requests", "Answered requests.", "path", "status")
        self.seconds = self._make_histogram("request_seconds", "Duration of a request.", _SECONDS, "path")
        self.texts = self._make_counter("texts", "Texts whose entities were predicted.")
        self.characters = self._make_counter("characters", "Characters of these texts.")
        self.entities = self._make_counter("entities", "Entities in the answers, by type.", "type")
        self.queue = Gauge("fencepost_queue_texts", "Texts in the queue.", registry=self._registry)
        self.batch_texts = self._make_histogram("batch_texts", "Texts in a batch.", _TEXTS)
        self.batch_seconds = self._make_histogram("batch_seconds", "Duration of a batch.", _SECONDS)
        self.model_errors = self._make_counter("model_errors", "Texts on which the model failed.")

    def _make_counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"fencepost_{name}", text, labels, registry=self._registry)

    def _make_histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"fencepost_{name}", text, labels, buckets=buckets, registry=self._registry)

    def format(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self._registry)

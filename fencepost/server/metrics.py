"""What the server counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """Counters of one server; each has its own, so that several can live in one process."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self.requests = Counter(
            "fencepost_requests", "Answered requests.", ("path", "status"), registry=registry
        )
        self.seconds = Histogram(
            "fencepost_request_seconds",
            "From a request's first byte to its answer.",
            ("path",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.texts = Counter("fencepost_texts", "Texts whose entities were found.", registry=registry)
        self.characters = Counter("fencepost_characters", "Characters of these texts.", registry=registry)
        self.entities = Counter(
            "fencepost_entities", "Entities in the answers, by type.", ("type",), registry=registry
        )
        self.queue = Gauge("fencepost_queue_texts", "Texts that wait.", registry=registry)
        self.batch_texts = Histogram(
            "fencepost_batch_texts",
            "Texts that were computed together.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256),
            registry=registry,
        )
        self.batch_seconds = Histogram(
            "fencepost_batch_seconds", "How long a batch took.", buckets=_SECONDS, registry=registry
        )
        self.model_errors = Counter(
            "fencepost_model_errors", "Texts on which the model failed.", registry=registry
        )

    def page(self) -> bytes:
        """All of them, as Prometheus reads it."""
        return generate_latest(self._registry)

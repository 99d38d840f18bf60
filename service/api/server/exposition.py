"""The server in the text format of Prometheus: what each model stands at, and how requests went.

Nothing is collected but counts of requests. All else is read when somebody scrapes, without waiting for a model that
learns: its figures may then be of the moment before or after its newest example, or of both.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Gauge,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from hinged.service.edge.streams import Streams
from hinged.service.engine.registry import Registry
from hinged.service.engine.roster import COMPILING, LOADING, SERVING
from hinged.service.engine.scheduling.yielding import Yielding
from hinged.service.engine.worker import Worker
from hinged.service.model.metrics import ALL, EXPOSED
from hinged.service.store.times import BOUNDS_S, Seen, Times
from hinged.version import __version__

disable_created_metrics()  # type: ignore[no-untyped-call]  # they double the number of series, and nobody reads them

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS")
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


def support_vectors(worker: Worker) -> int:
    """Points with a coefficient in what was published last."""
    alpha = getattr(worker.published.view, "alpha", None)
    return 0 if alpha is None else int(np.count_nonzero(alpha.any(axis=0)))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


COUNTERS: tuple[tuple[str, str, Callable[[Worker], float]], ...] = (
    ("hinged_examples_learned", "Examples learned.", lambda w: w.model.learned),
    ("hinged_predictions_served", "Examples predicted for clients since the start.", lambda w: w.predictions_served),
    ("hinged_drifts", "Times that the errors of streamed examples rose.", lambda w: w.model.metrics.drift.count),
    ("hinged_snapshots_failed", "Snapshots since the start that were not kept.", lambda w: w.journal.snapshots.failed),
)
GAUGES: tuple[tuple[str, str, Callable[[Worker], float]], ...] = (
    ("hinged_log_position", "Position of the newest event in the model's log.", lambda w: w.published.position),
    ("hinged_classes", "Classes known.", lambda w: len(w.published.labels)),
    ("hinged_points", "Examples that the model holds.", lambda w: w.model.solver.live),
    ("hinged_support_vectors", "Examples that predictions depend on.", support_vectors),
    ("hinged_memory_bytes", "Memory of points, coefficients and kernel rows.", lambda w: w.model.memory_bytes()),
    ("hinged_points_max", "Examples that the model may hold.", lambda w: w.model.configuration.points_max or 0),
    ("hinged_pool_candidates", "Candidates in the pool.", lambda w: len(w.model.pool)),
    (
        "hinged_pool_leased",
        "Candidates that somebody works on.",
        lambda w: w.model.pool.leased(_now_ms()),
    ),
    (
        "hinged_pending_predictions",
        "Predictions that wait for their labels.",
        lambda w: len(w.model.pending) + len(w.unlogged),
    ),
    (
        "hinged_snapshot_age_seconds",
        "Time for which changes have been in no snapshot.",
        lambda w: w.journal.snapshots.age_s(w.published.position),
    ),
    ("hinged_queue_examples", "Examples that wait to be learned.", lambda w: w.queue.examples),
    ("hinged_queue_requests", "Requests that wait for the model.", lambda w: len(w.queue)),
)


class Exposition:
    """Counts requests, and writes everything down when it is asked."""

    def __init__(self, streams: Streams) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        build = Info("hinged_build", "Of what is running.", registry=self._registry)
        build.info({"version": __version__, "python": platform.python_version()})
        opened = Gauge("hinged_open_streams", "WebSockets and event streams that are open.", registry=self._registry)
        opened.set_function(lambda: len(streams))
        most = Gauge("hinged_open_streams_max", "So many may be.", registry=self._registry)
        most.set(streams.most)
        self._requests = Requests()
        self._registry.register(self._requests)
        self._lags: dict[int, int] = {}  # of each reader, for its model that is furthest behind
        self._registry.register(Lags(self._lags))

    def watch(self, registry: Registry) -> None:
        """Tell of the models of this registry and of its store."""
        self._registry.register(ModelFigures(registry))
        self._registry.register(Disk(registry.store))

    def add(self, collector: Collector) -> None:
        """Tell of something else that is there only sometimes."""
        self._registry.register(collector)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request to a route, which is its template: there are only so many of them."""
        self._requests.count(method if method in METHODS else "other", route, status, seconds)

    def hear(self, reader: int, report: dict[str, Any]) -> None:
        """What a reader has done, and how far it is behind; of one that is gone, nothing."""
        for method, route, status, seconds in report.get("requests", ()):
            self.count(method, route, status, seconds)
        if "lag" in report:
            self._lags[reader] = max(report["lag"].values(), default=0)
        else:
            self._lags.pop(reader, None)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Everything as of now, and its Content-Type, in the newest form that an Accept header allows."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class Requests(Collector):
    """Requests that were answered, and the time that they took. Counted on the event loop, read in any thread.

    A counter of Prometheus takes a lock each time, and a histogram two and a search: in all as long as some answers.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, int], Times] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """One more."""
        times = self._seen.get((method, route, status))
        if times is None:
            times = self._seen[method, route, status] = Times(BUCKETS_S)
        times.add(seconds)

    def collect(self) -> Iterator[Metric]:
        """All so far; the time is that of a route, whatever was answered."""
        names = ("method", "route")
        requests = CounterMetricFamily("hinged_requests", "Requests answered.", labels=(*names, "status"))
        lengths = HistogramMetricFamily(
            "hinged_request_duration_seconds", "Time to the end of the answer.", labels=names
        )
        of_routes: dict[tuple[str, str], list[Seen]] = {}
        for (method, route, status), times in self._seen.copy().items():  # more may come meanwhile
            seen = times.seen()
            requests.add_metric((method, route, str(status)), seen.counts[-1])
            of_routes.setdefault((method, route), []).append(seen)
        for labels, every in of_routes.items():
            lengths.add_metric(labels, *_buckets(BUCKETS_S, every))
        yield requests
        yield lengths


class Lags(Collector):
    """How far readers are behind, where there are any."""

    def __init__(self, lags: Mapping[int, int]) -> None:
        self._lags = lags

    def describe(self) -> list[Metric]:
        """Nothing before it is asked."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The readers that run, and the lag of the slowest."""
        lags = list(self._lags.values())  # readers may come and go meanwhile
        if lags:
            lag = max(lags)
            yield GaugeMetricFamily("hinged_readers", "Processes that answer predictions.", float(len(lags)))
            yield GaugeMetricFamily("hinged_reader_lag_events", "Events that the slowest reader is behind.", float(lag))


class ModelFigures(Collector):
    """What Prometheus is told of each model, read at that moment."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def describe(self) -> list[Metric]:
        """Nothing before it is asked: models come and go."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every metric with one sample a model."""
        roster, ready = self._registry.roster, float(self._registry.ready)
        workers = roster.workers()
        yield GaugeMetricFamily("hinged_ready", "1 once all models are loaded that can be.", ready)
        states = GaugeMetricFamily("hinged_models", "Models in each state.", labels=["state"])
        for state, models in roster.progress().items():
            if state != "total":  # a sum over the states is what they are together
                states.add_metric([state], float(models))
        yield states
        up = GaugeMetricFamily(
            "hinged_model_up", "1 if the model serves, 0 if it stopped or could not be loaded.", labels=["model"]
        )
        for name in roster.names():
            state, _ = roster.state(name)
            if state not in {COMPILING, LOADING}:
                up.add_metric([name], float(state == SERVING))
        yield up
        waited = CounterMetricFamily(
            "hinged_turn_wait_seconds", "Time that the model's work has waited for a processor.", labels=["model"]
        )
        for name, seconds in roster.waited():
            waited.add_metric([name], seconds)
        yield waited
        for kind, families in ((CounterMetricFamily, COUNTERS), (GaugeMetricFamily, GAUGES)):
            for title, meaning, read in families:
                family = kind(title, meaning, labels=["model"])
                for name, worker in workers:
                    with _of_whole(worker):
                        family.add_metric([name], float(read(worker)))
                yield family
        yield from _prequential(workers)


class Disk(Collector):
    """What Prometheus is told of the store."""

    def __init__(self, store: Yielding) -> None:
        self._store = store

    def describe(self) -> list[Metric]:
        """Nothing before it is asked: which there are depends on the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """How long it takes, and what it takes of the disk."""
        yield _histogram(
            "hinged_store_append_duration_seconds", "Time until an append is durable.", self._store.appends
        )
        if self._store.commits is not None:
            meaning = "Time of a commit, with its fsync; appends of several models may share one."
            yield _histogram("hinged_store_commit_duration_seconds", meaning, self._store.commits)
        with suppress(OSError):  # it was moved away, or the disk is gone
            room = self._store.room()
            if room is not None:
                yield GaugeMetricFamily("hinged_store_bytes", "Of the store on disk.", float(room.used_bytes))
                yield GaugeMetricFamily("hinged_store_free_bytes", "Left on that disk.", float(room.free_bytes))


def _histogram(title: str, meaning: str, times: Times) -> Metric:
    buckets, seconds = _buckets(BOUNDS_S, [times.seen()])
    return HistogramMetricFamily(title, meaning, buckets=buckets, sum_value=seconds)


def _buckets(bounds_s: Sequence[float], every: Sequence[Seen]) -> tuple[list[tuple[str, float]], float]:
    """How many took at most so long, of all that were seen, and their seconds together."""
    counts = [float(sum(column)) for column in zip(*(seen.counts for seen in every), strict=True)]
    return list(zip([*map(str, bounds_s), "+Inf"], counts, strict=True)), sum(seen.seconds for seen in every)


@contextmanager
def _of_whole(worker: Worker) -> Iterator[None]:
    """What cannot be read of a model that stopped is left out: its state may be torn."""
    try:
        yield
    except Exception:
        if not worker.failed:
            raise


def _prequential(workers: list[tuple[str, Worker]]) -> Iterator[Metric]:
    labels = ["model", "source"]
    scored = CounterMetricFamily("hinged_predictions_scored", "Predictions whose labels have come.", labels=labels)
    gauges = {figure: GaugeMetricFamily(name, said, labels=labels) for figure, (name, said) in EXPOSED.items()}
    for name, worker in workers:
        with _of_whole(worker):
            for glance in worker.model.metrics.glance():
                where = [name, glance.source]
                if glance.source != ALL:  # a sum over the sources is what they are together
                    scored.add_metric(where, glance.predicted)
                for figure, family in gauges.items():
                    value = getattr(glance, figure)
                    if not math.isnan(value):
                        family.add_metric(where, value)
    yield from (scored, *gauges.values())

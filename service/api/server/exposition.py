"""The server's metrics in the text format of Prometheus: the figures of each model, and the counts and durations of
requests.

Only requests are counted as they happen. All other figures are read when Prometheus asks for them, without waiting for
a model that is learning. These figures may therefore come from before or after the newest example of the model, or be a
mixture.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from hinged.service.data.times import now_ms
from hinged.service.edge.streams import Streams
from hinged.service.engine.registry import Registry
from hinged.service.engine.roster import COMPILING, LOADING, SERVING, WAITING
from hinged.service.engine.scheduling.yielding import Yielding
from hinged.service.engine.worker import Worker
from hinged.service.model.figures import EXPOSED
from hinged.service.model.metrics import ALL
from hinged.version import __version__

disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the number of series without any benefit

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS")
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


def support_vectors(worker: Worker) -> int:
    """Return the number of points with a non-zero coefficient in the state published last; of a race, in each arm that
    counts.
    """
    view = worker.published.view
    return sum(_used(each) for each in getattr(view, "views", (view,)))


def _used(view: Any) -> int:
    if not hasattr(view, "alpha"):
        return 0
    used = view.alpha.any(axis=0)
    if view.terms is not None:
        used[view.terms.slots] = True
    return int(np.count_nonzero(used))


COUNTERS: tuple[tuple[str, str, Callable[[Worker], float]], ...] = (
    ("hinged_examples_learned", "Examples learned.", lambda w: w.model.learned),
    ("hinged_predictions_served", "Examples predicted for clients since the start.", lambda w: w.predictions_served),
    (
        "hinged_drifts",
        "Times that drift was detected in the errors of streamed examples.",
        lambda w: w.model.metrics.drift.count,
    ),
    (
        "hinged_snapshots_failed",
        "Snapshots that could not be kept since the start.",
        lambda w: w.journal.snapshots.failed,
    ),
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
        "Candidates under a lease.",
        lambda w: w.model.pool.leased(now_ms()),
    ),
    (
        "hinged_pending_predictions",
        "Predictions that wait for their labels.",
        lambda w: len(w.model.pending) + len(w.unlogged),
    ),
    (
        "hinged_snapshot_age_seconds",
        "Age of the oldest change that is in no snapshot.",
        lambda w: w.journal.snapshots.age_s(w.published.position),
    ),
    ("hinged_queue_examples", "Examples that wait to be learned.", lambda w: w.queue.examples),
    ("hinged_queue_requests", "Requests that wait for the model.", lambda w: len(w.queue)),
)

WATCHED = {
    "average_precision": ("hinged_class_average_precision", "Average precision of a watched class."),
    "auc": ("hinged_class_auc", "Area under the ROC curve of a watched class."),
    "recall_at_1_percent": (
        "hinged_class_recall_at_1_percent_ratio",
        "Share of a watched class among the one percent of examples with the highest scores.",
    ),
}
"""The figures that Prometheus gets for each watched class: their metric names and meanings."""

PROMISED = {
    "coverage": ("hinged_promise_coverage_ratio", "Share of the newest examples whose set contained the true label."),
    "size": ("hinged_promise_set_size", "Mean number of labels in the sets of the newest examples."),
}
"""The figures that Prometheus gets for each promise: their metric names and meanings. The class is empty for all
examples.
"""


class Exposition:
    """Counts requests, and writes all figures when Prometheus asks for them."""

    def __init__(self, streams: Streams) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        build = Info("hinged_build", "Version of the server and of Python.", registry=self._registry)
        build.info({"version": __version__, "python": platform.python_version()})
        opened = Gauge("hinged_open_streams", "WebSockets and event streams that are open.", registry=self._registry)
        opened.set_function(lambda: len(streams))
        most = Gauge(
            "hinged_open_streams_max", "WebSockets and event streams that may be open.", registry=self._registry
        )
        most.set(streams.most)
        labels = ("method", "route")
        self._requests = Counter("hinged_requests", "Requests answered.", (*labels, "status"), registry=self._registry)
        self._durations = Histogram(
            "hinged_request_duration_seconds", "Time to the end of the answer.", labels,
            buckets=BUCKETS_S, registry=self._registry,
        )  # fmt: skip
        self._counted: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}  # found faster than with `labels`

    def watch(self, registry: Registry) -> None:
        """Also write the figures of a registry's models and store."""
        self._registry.register(ModelFigures(registry))
        for collector in (registry.store.appends, registry.store.commits, Disk(registry.store)):
            if collector is not None:
                self._registry.register(collector)

    def add(self, collector: Collector) -> None:
        """Add another collector, for figures that not every server has."""
        self._registry.register(collector)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request to a route. `route` is the template of the path, so the number of series stays bounded."""
        labels = method if method in METHODS else "other", route
        counted = self._counted.get((*labels, status))
        if counted is None:
            counted = self._requests.labels(*labels, status), self._durations.labels(*labels)
            self._counted[*labels, status] = counted
        counted[0].inc()
        counted[1].observe(seconds)

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Return all current figures and their Content-Type, in the newest format that the Accept header allows."""
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type


class ModelFigures(Collector):
    """The metrics of each model, read when Prometheus asks for them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def describe(self) -> list[Metric]:
        """Return no metrics in advance, because models are created and deleted."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, with one sample per model."""
        roster, ready = self._registry.roster, float(self._registry.ready)
        workers = roster.workers()
        yield GaugeMetricFamily("hinged_ready", "1 once all models that can be loaded are loaded.", ready)
        states = GaugeMetricFamily("hinged_models", "Models in each state.", labels=["state"])
        for state, models in roster.progress().items():
            if state != "total":  # summing over the states gives the total
                states.add_metric([state], float(models))
        yield states
        up = GaugeMetricFamily(
            "hinged_model_up", "1 if the model serves, 0 if it stopped or could not be loaded.", labels=["model"]
        )
        for name in roster.names():
            state, _ = roster.state(name)
            if state not in {COMPILING, LOADING, WAITING}:
                up.add_metric([name], float(state == SERVING))
        yield up
        waited = CounterMetricFamily(
            "hinged_turn_wait_seconds", "Time for which the model's work has waited for a processor.", labels=["model"]
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
        yield from _decisions(workers)
        yield from _promises(workers)
        yield from _alarms(workers)
        yield _hooks(workers)


class Disk(Collector):
    """The disk space of the store."""

    def __init__(self, store: Yielding) -> None:
        self._store = store

    def describe(self) -> list[Metric]:
        """Return no metrics in advance, because they depend on the store."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the disk space that the store uses."""
        with suppress(OSError):  # the folder was moved away, or the disk is missing
            room = self._store.room()
            if room is not None:
                yield GaugeMetricFamily(
                    "hinged_store_bytes", "Bytes that the store takes on disk.", float(room.used_bytes)
                )
                yield GaugeMetricFamily(
                    "hinged_store_free_bytes", "Bytes that are free on the store's disk.", float(room.free_bytes)
                )


@contextmanager
def _of_whole(worker: Worker) -> Iterator[None]:
    """Skip figures that cannot be read from a model that has stopped, because the state of the model may be
    inconsistent.
    """
    try:
        yield
    except Exception:
        if not worker.failed:
            raise


def _gauges(exposed: Mapping[str, tuple[str, str]], label: str) -> dict[str, GaugeMetricFamily]:
    """Return the metrics of figures, by figure. label: the label that a metric has in addition to the model."""
    return {figure: GaugeMetricFamily(name, said, labels=["model", label]) for figure, (name, said) in exposed.items()}


def _add_by_class(
    gauges: Mapping[str, GaugeMetricFamily], model: str, by_class: Mapping[str, Mapping[str, float]]
) -> None:
    for name, figures in by_class.items():
        for figure, family in gauges.items():
            family.add_metric([model, name], figures[figure])


def _prequential(workers: list[tuple[str, Worker]]) -> Iterator[Metric]:
    labels = ["model", "source"]
    scored = CounterMetricFamily("hinged_predictions_scored", "Predictions whose labels have come.", labels=labels)
    gauges = _gauges(EXPOSED, "source")
    for name, worker in workers:
        with _of_whole(worker):
            for glance in worker.model.metrics.glance():
                where = [name, glance.source]
                if glance.source != ALL:  # summing over the sources gives the total
                    scored.add_metric(where, glance.predicted)
                for figure, family in gauges.items():
                    value = getattr(glance, figure)
                    if not math.isnan(value):
                        family.add_metric(where, value)
    yield from (scored, *gauges.values())


def _decisions(workers: list[tuple[str, Worker]]) -> Iterator[Metric]:
    """Yield the figures of watched classes, and what decisions cost."""
    gauges = _gauges(WATCHED, "class")
    cost = GaugeMetricFamily("hinged_decision_cost", "Mean cost of a decision; older decisions fade.", labels=["model"])
    for name, worker in workers:
        memory = worker.model.metrics.memory
        if memory is None:
            continue
        with _of_whole(worker):
            _add_by_class(gauges, name, memory.glance())
            if (mean := memory.cost()) is not None:
                cost.add_metric([name], mean)
    yield from (*gauges.values(), cost)


def _promises(workers: list[tuple[str, Worker]]) -> Iterator[Metric]:
    """Yield coverage and size of the sets that models with a promise sent."""
    gauges = _gauges(PROMISED, "class")
    for name, worker in workers:
        promise = worker.model.metrics.promise
        if promise is None:
            continue
        with _of_whole(worker):
            _add_by_class(gauges, name, promise.glance())
    yield from gauges.values()


def _alarms(workers: list[tuple[str, Worker]]) -> Iterator[Metric]:
    """Yield the alarms of models that have one, and how close the next alarm is."""
    labels = ["model", "about"]
    count = CounterMetricFamily("hinged_alarms", "Alarms about errors and about inputs.", labels=labels)
    value = GaugeMetricFamily("hinged_alarm_log10", "Decimal logarithm of an alarm's martingale.", labels=labels)
    for name, worker in workers:
        novelty = worker.model.novelty
        inputs = None if novelty is None or novelty.alarm is None else novelty.alarm.alarm
        for about, alarm in (("errors", worker.model.metrics.alarm), ("inputs", inputs)):
            if alarm is not None:
                with _of_whole(worker):
                    count.add_metric([name, about], alarm.count)
                    value.add_metric([name, about], alarm.log_value)
    yield from (count, value)


def _hooks(workers: list[tuple[str, Worker]]) -> Metric:
    """Return the number of messages that wait for each hook. The label is the id, because a URL may be secret."""
    waiting = GaugeMetricFamily(
        "hinged_hook_waiting_messages", "Messages that wait for the receiver of a hook.", labels=["model", "hook"]
    )
    for name, worker in workers:
        for hook, count in worker.hooks.waiting().items():
            waiting.add_metric([name, hook], count)
    return waiting

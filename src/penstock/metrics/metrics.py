"""The metrics of one node: counters and sources.

Frequent events are counted in place (`metrics.isr_shrinks.add()`). Values that can be computed on demand have a
source (`metrics.register(declared.LEADERS, source)`), called for each scrape. exposition.py renders both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from penstock.metrics import declared
from penstock.metrics.declared import Declaration
from penstock.metrics.exposition import NANOSECONDS_PER_MS, Sample, Source, Value, render
from penstock.metrics.values import Counter, Histogram, RequestMeter

NAMES: Final = frozenset({"topic", "group"})
"""The labels whose values only some principals may see."""


class Metrics:
    def __init__(self, apis: Mapping[int, str]) -> None:
        self.requests: dict[int, RequestMeter] = {key: RequestMeter(name) for key, name in apis.items()}
        self._sources: list[tuple[Declaration, Source]] = []
        self.hides_names = False
        """Metrics that are registered while it is set reveal no names of topics and groups."""
        self.failed_produces = self._counter(declared.FAILED_PRODUCES)
        self.failed_fetches = self._counter(declared.FAILED_FETCHES)
        self.replication_bytes_out = self._counter(declared.REPLICATION_BYTES_OUT)
        self.isr_shrinks = self._counter(declared.ISR_SHRINKS)
        self.isr_expands = self._counter(declared.ISR_EXPANDS)
        self.elections = self._counter(declared.ELECTIONS)
        self.unclean_elections = self._counter(declared.UNCLEAN_ELECTIONS)
        self.connections_created = self._counter(declared.CONNECTIONS_CREATED)
        self.connections_refused = self._counter(declared.CONNECTIONS_REFUSED)
        self.authentications = self._counter(declared.AUTHENTICATIONS)
        self.failed_authentications = self._counter(declared.FAILED_AUTHENTICATIONS)
        self.audit_events = self._counter(declared.AUDIT_EVENTS)
        self.audit_dropped = self._counter(declared.AUDIT_DROPPED)
        self.flush_time = self._histogram(declared.FLUSH_TIME)
        self.loop_lag = self._histogram(declared.LOOP_LAG)
        self.loop_held = self._histogram(declared.LOOP_HELD)
        self.loop_held_max_ns = self.loop_held_cpu_max_ns = 0
        self.register(declared.LOOP_HELD_MAX, lambda: [((), self.loop_held_max_ns / NANOSECONDS_PER_MS)])
        self.register(declared.LOOP_HELD_CPU_MAX, lambda: [((), self.loop_held_cpu_max_ns / NANOSECONDS_PER_MS)])
        self.job_held_max_ns = self.job_held_cpu_max_ns = 0
        self.register(declared.JOB_HELD_MAX, lambda: [((), self.job_held_max_ns / NANOSECONDS_PER_MS)])
        self.register(declared.JOB_HELD_CPU_MAX, lambda: [((), self.job_held_cpu_max_ns / NANOSECONDS_PER_MS)])
        self._register_requests()

    def register(self, declaration: Declaration, source: Source) -> None:
        """Register a source that is called for the samples of a metric at each scrape."""
        if self.hides_names and not NAMES.isdisjoint(declaration.labels):
            if declaration.labels != ("topic",):
                return
            source = partial(_sum_of_all, source)
        self._sources.append((declaration, source))

    def render(self) -> Iterator[str]:
        return render(self._sources)

    def _counter(self, declaration: Declaration) -> Counter:
        counter = Counter()
        self.register(declaration, lambda: [((), counter.value)])
        return counter

    def _histogram(self, declaration: Declaration) -> Histogram:
        histogram = Histogram()
        self.register(declaration, lambda: [((), histogram)])
        return histogram

    def _register_requests(self) -> None:
        def of_each(declaration: Declaration, value: Callable[[RequestMeter], Value]) -> None:
            def source() -> Iterable[Sample | None]:
                for meter in self.requests.values():
                    # Leave out unused APIs: they would only make the page long.
                    if meter.count:
                        yield (meter.name,), value(meter)

            self.register(declaration, source)

        of_each(declared.REQUESTS, lambda meter: meter.count)
        of_each(declared.ERRORS, lambda meter: meter.failed)
        of_each(declared.TOTAL_TIME, RequestMeter.total_time)
        of_each(declared.LOCAL_TIME, RequestMeter.local_time)
        of_each(declared.REMOTE_TIME, lambda meter: (meter.waited_ns / NANOSECONDS_PER_MS, meter.count))
        of_each(declared.QUEUE_TIME, lambda meter: (meter.queued_ns / NANOSECONDS_PER_MS, meter.count))
        of_each(declared.REQUEST_HELD_MAX, lambda meter: meter.held_max_ns / NANOSECONDS_PER_MS)
        of_each(declared.REQUEST_HELD_CPU_MAX, lambda meter: meter.held_cpu_max_ns / NANOSECONDS_PER_MS)
        of_each(declared.REQUESTS_HELD_LONG, lambda meter: meter.held_long)
        of_each(declared.THROTTLE_TIME, lambda meter: (meter.throttled_ms, meter.count))


def _sum_of_all(source: Source) -> Iterator[Sample | None]:
    """Yield one sample without a name; Prometheus treats an empty label like none."""
    total: float = 0
    for sample in source():
        if sample is None:
            yield None
        else:
            _, value = sample
            assert isinstance(value, int | float), "metrics of topics are numbers"
            total += value
    yield ("",), total

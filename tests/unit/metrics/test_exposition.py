"""Checks that the official Prometheus parser reads the rendered metrics."""

from collections.abc import Iterable, Iterator

from prometheus_client.parser import text_string_to_metric_families

from penstock.metrics import declared
from penstock.metrics.exposition import LINES_PER_PIECE, Sample, render
from penstock.metrics.metrics import Metrics
from penstock.metrics.values import Histogram


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_and_labels_survive_a_round_trip() -> None:
    nasty = 'a "b"\\c\nd ü'
    text = "".join(render([(declared.BYTES_IN, lambda: [((nasty,), 2**60), (("plain",), 0)])]))
    name = declared.BYTES_IN.name
    assert read(text) == {(name, (("topic", nasty),)): 2**60, (name, (("topic", "plain"),)): 0}


def test_a_histogram_is_cumulative_and_counts_values_beyond_its_buckets() -> None:
    times = Histogram()
    for nanoseconds in (0, 1, 20_000, 1_000_000, 1_500_000, 10**15):
        times.observe(nanoseconds)
    times.observe(40_000_000, weight=4)
    found = read("".join(render([(declared.LOOP_LAG, lambda: [((), times)])])))
    name = declared.LOOP_LAG.name
    buckets = {dict(labels)["le"]: value for (of, labels), value in found.items() if of == f"{name}_bucket"}
    values = list(buckets.values())
    assert values == sorted(values)
    assert (buckets["0.016384"], buckets["0.032768"], buckets["1.04858"], buckets["+Inf"]) == (2, 3, 4, 10)
    assert found[f"{name}_count", ()] == 10
    assert found[f"{name}_sum", ()] == (20_001 + 2_500_000 + 10**15 + 4 * 40_000_000) / 1e6


def test_many_samples_are_rendered_in_chunks_and_a_source_may_request_a_pause() -> None:
    def many() -> Iterator[Sample | None]:
        for number in range(1000):
            yield (str(number),), number

    def pausing() -> Iterable[Sample | None]:
        return [None, ((), 1), None]

    pieces = list(render([(declared.BYTES_IN, many), (declared.LEADERS, pausing)]))
    assert max(piece.count("\n") for piece in pieces) <= LINES_PER_PIECE
    assert len(pieces) > 5
    assert len(read("".join(pieces))) == 1001


def test_an_api_is_listed_after_its_first_request() -> None:
    metrics = Metrics({0: "Produce", 1: "Fetch"})
    produce = metrics.requests[0]
    produce.count += 2
    produce.local.observe(1_000_000)
    produce.total.observe(3_000_000)
    produce.queued_ns += 2_000_000
    produce.parked_local.observe(1_000_000)
    produce.parked_total.observe(5_000_000)
    produce.throttled_ms += 250
    metrics.isr_shrinks.add()
    found = read("".join(metrics.render()))
    assert not [labels for _, labels in found if dict(labels).get("request") == "Fetch"]

    def of(declaration: declared.Declaration, part: str = "") -> float:
        return found[declaration.name + part, (("request", "Produce"),)]

    assert of(declared.REQUESTS) == of(declared.TOTAL_TIME, "_count") == of(declared.LOCAL_TIME, "_count") == 2
    assert (of(declared.TOTAL_TIME, "_sum"), of(declared.LOCAL_TIME, "_sum")) == (8, 2)
    assert (of(declared.REMOTE_TIME, "_sum"), of(declared.QUEUE_TIME, "_sum")) == (4, 2)
    assert of(declared.THROTTLE_TIME, "_sum") == 250
    assert found[declared.ISR_SHRINKS.name, ()] == 1

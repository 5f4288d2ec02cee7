"""Tests of the targets of share groups."""

from benchmarks.share_bars import QUEUE, STREAM, STREAM_REQUIRED, better_figures, compare, waiting_load

OURS, KAFKA = "Penstock (os)", "Apache Kafka (os)"


def test_a_ratio_to_kafka_is_judged_by_the_direction_of_the_figure() -> None:
    results = {
        (STREAM, OURS): {"p50 ms": 0.7, "p99 ms": 4.4},
        (STREAM, KAFKA): {"p50 ms": 1.0, "p99 ms": 4.0},
    }
    rows = compare(results, peer=KAFKA)
    assert [(row.required.figure, row.ratio, row.is_met) for row in rows] == [
        ("p50 ms", 0.7, True),
        ("p99 ms", 1.1, False),
    ]


def test_records_that_wait_must_be_read_as_fast_as_by_kafka_with_less_cpu() -> None:
    load = waiting_load(10)
    results = {
        (load, OURS): {"records/s": 900.0, "CPU s/M": 4.0},
        (load, KAFKA): {"records/s": 1000.0, "CPU s/M": 5.0},
    }
    assert [(row.ratio, row.is_met) for row in compare(results, peer=KAFKA)] == [(0.9, False), (0.8, True)]


def test_the_queue_is_judged_by_its_ideal_and_not_by_kafka() -> None:
    results = {(QUEUE, OURS): {"records/s": 15_999.0}, (QUEUE, KAFKA): {"records/s": 500.0}}
    (row,) = compare(results, peer=KAFKA)
    assert (row.kafka, row.is_met) == (500.0, False)
    assert row.required.text == ">= 80% of 20,000"


def test_a_load_that_kafka_did_not_run_is_not_judged_by_ratio() -> None:
    rows = compare({(STREAM, OURS): {"p50 ms": 0.7, "p99 ms": 4.4}}, peer=KAFKA)
    assert [(row.ratio, row.is_met) for row in rows] == [(None, None), (None, None)]


def test_the_best_of_each_figure_counts() -> None:
    first, second = {"p50 ms": 1.0, "p99 ms": 5.0}, {"p50 ms": 2.0, "p99 ms": 4.0}
    assert better_figures(None, first, STREAM_REQUIRED) == first
    assert better_figures(first, second, STREAM_REQUIRED) == {"p50 ms": 1.0, "p99 ms": 4.0}

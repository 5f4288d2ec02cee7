from penstock.actions.skew.advice import advise
from penstock.actions.skew.heavy_hitters import SpaceSaving
from penstock.actions.skew.measurement import KeySample, PartitionLoad, observe, partition_rows


def loads(*recent: int) -> list[PartitionLoad]:
    return [
        PartitionLoad(index=index, earliest=0, latest=100, recent=count, size=10) for index, count in enumerate(recent)
    ]


def sample(keys: dict[bytes, int], keyless: int = 0) -> KeySample:
    sketch = SpaceSaving[tuple[bytes, int]](10)
    for key, count in keys.items():
        sketch.add((key, 0), count)
    return KeySample(sketch, keyless, len(keys))


def test_the_heaviest_key_is_reported_with_its_share() -> None:
    observed, gini = observe(loads(90, 10), sample({b"a": 80, b"b": 10}, keyless=10), 1)
    assert (observed.imbalance, observed.sampled, round(gini, 6)) == (1.8, 100, 0.4)
    assert [(heavy.key, heavy.share) for heavy in observed.heavy] == [(b"a", 0.8)]
    assert any("Key 'a' has 80% of the records" in line for line in advise(observed))


def test_without_recent_records_the_load_is_what_the_topic_holds() -> None:
    observed, _ = observe(loads(0, 0), sample({}), 1)
    assert observed.imbalance == 1.0
    assert advise(observed) == ["Nothing to do: the load is spread evenly over the partitions."]


def test_the_busiest_partition_comes_first() -> None:
    rows = partition_rows(loads(25, 75))
    assert [(row["partition"], row["recent_share"], row["bytes_share"]) for row in rows] == [
        (1, "75.0%", "50.0%"),
        (0, "25.0%", "50.0%"),
    ]

from collections.abc import Mapping

import pytest

from penstock_console.history import FINE, History
from penstock_console.sampler import INTERVAL_S, Ends, GroupProgress, Sampler

START = 1_764_000_000_000
PLACE = ("orders", 0)


class FakeAccess:
    """A cluster whose offsets the test sets."""

    name = "local"

    def __init__(self) -> None:
        self.history = History()
        self.at_ms = START
        self.latest: dict[tuple[str, int], int] = {PLACE: 0}
        self.committed: dict[tuple[str, int], int] = {PLACE: 0}
        self.fails = False
        self.metadata_reads = 0

    def ends(self, *, fresh_s: float) -> Ends:
        if self.fails:
            raise ConnectionRefusedError
        return Ends(self.at_ms, dict(self.latest))

    def groups(self, *, fresh_s: float) -> Mapping[str, GroupProgress]:
        return {"billing": GroupProgress("billing", "classic", "stable", "", 1, (), dict(self.committed))}

    def metadata(self) -> None:
        self.metadata_reads += 1

    def advance(self, *, written: int, read: int) -> None:
        self.at_ms += FINE.step_ms
        self.latest[PLACE] += written
        self.committed[PLACE] += read


@pytest.fixture
def access() -> FakeAccess:
    return FakeAccess()


@pytest.fixture
def sampler(access: FakeAccess) -> Sampler:
    return Sampler(access)  # type: ignore[arg-type]


def test_every_sample_keeps_the_metadata_of_pages_in_the_cache(access: FakeAccess, sampler: Sampler) -> None:
    sampler.sample()
    sampler.sample()
    assert access.metadata_reads == 2


def test_rates_and_lags_are_sampled(access: FakeAccess, sampler: Sampler) -> None:
    sampler.sample()
    for _ in range(3):
        access.advance(written=100, read=50)
        sampler.sample()
    history = access.history
    assert history.latest("cluster.rate") == pytest.approx(20.0)
    assert history.latest("topic.rate:orders") == pytest.approx(20.0)
    assert history.latest("group.lag:billing") == 150
    assert history.latest("group.rate:billing") == pytest.approx(10.0)
    assert history.trend("group.lag:billing") == pytest.approx(10.0)
    # Half of what was written is read: record 150 is as old as half of the time.
    assert history.latest("group.seconds:billing") == pytest.approx(7.5)


def test_internal_topics_do_not_count_as_load(access: FakeAccess, sampler: Sampler) -> None:
    access.latest["__consumer_offsets", 0] = 0
    sampler.sample()
    access.latest["__consumer_offsets", 0] = 1000
    access.advance(written=5, read=5)
    sampler.sample()
    assert access.history.latest("cluster.rate") == pytest.approx(1.0)


def test_a_topic_that_was_recreated_has_no_negative_rate(access: FakeAccess, sampler: Sampler) -> None:
    access.latest[PLACE] = 1000
    sampler.sample()
    access.latest[PLACE] = 3
    access.advance(written=0, read=0)
    sampler.sample()
    assert access.history.latest("topic.rate:orders") == 0.0


def test_a_failure_is_logged_once_and_the_next_rate_starts_over(
    access: FakeAccess, sampler: Sampler, caplog: pytest.LogCaptureFixture
) -> None:
    sampler.sample()
    access.fails = True
    for _ in range(3):
        assert 0 < sampler.sample() <= INTERVAL_S
    assert len(caplog.records) == 1
    access.fails = False
    access.advance(written=1000, read=0)
    sampler.sample()
    assert access.history.latest("cluster.rate") is None

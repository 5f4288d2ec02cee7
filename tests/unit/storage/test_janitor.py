from collections.abc import Callable
from unittest import mock

import pytest

from penstock.config.settings import BrokerSettings
from penstock.model.ids import PartitionIndex, TopicName, TopicPartition
from penstock.ports.clock import Timer
from penstock.storage.janitor import TICK_S, Janitor
from penstock.storage.log import Log
from penstock.storage.store import LogStore
from penstock.storage.store_checkpoints import UNCHECKED_SIZE_MAX
from penstock_sim.disk import SimDisk
from tests.unit.storage.support import NOW_MS, append, fill, idempotent, small_settings
from tests.unit.storage.test_store import FIRST_ID, PARTITION, Ids, StillClock


class Alarm:
    def __init__(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.delay_s = delay_s
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class AlarmClock(StillClock):
    def __init__(self) -> None:
        super().__init__()
        self.alarms: list[Alarm] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self.alarms.append(Alarm(delay_s, callback))
        return self.alarms[-1]


class House:
    def __init__(self, settings: BrokerSettings | None = None) -> None:
        self.disk = SimDisk()
        self.clock = AlarmClock()
        self.store = LogStore.load(self.disk, "/data", cluster_id=None, node_id=1, clock=self.clock, entropy=Ids())
        self.settings = settings or BrokerSettings()
        self.janitor = Janitor(self.store, self.clock, lambda: self.settings, self.high_watermark)

    def high_watermark(self, topic_partition: TopicPartition) -> int:
        return self.store.logs[topic_partition].durable_offset


def test_retention_runs_when_it_is_due() -> None:
    house = House()
    log = house.store.open(PARTITION, FIRST_ID, small_settings(retention_ms=1000, file_delete_delay_ms=0))
    fill(log, [3] * 30, timestamp=NOW_MS - 5000)
    house.janitor.start()
    house.janitor.work()
    assert log.start_offset == 0
    house.clock.now_ms += 300_000
    house.janitor.work()
    assert log.start_offset == log.segments.bases[-1]
    house.clock.now_ms += 1
    house.janitor.work()
    assert not any(name.endswith(".deleted") for name in house.disk.list("/data/orders-3"))


def test_ten_thousand_logs_are_maintained_in_slices() -> None:
    house = House()
    for index in range(450):
        house.store.open(TopicPartition(TopicName("many"), PartitionIndex(index)), FIRST_ID, small_settings())
    house.janitor.start()
    house.clock.now_ms += 300_000
    assert [house.janitor.work() for _ in range(3)] == [True, True, False]


def test_idle_producers_are_removed() -> None:
    house = House()
    log = house.store.open(PARTITION, FIRST_ID, small_settings(retention_ms=-1))
    append(log, idempotent(sequence=0))
    house.janitor.start()
    house.clock.now_ms += 86_400_001
    house.janitor.work()
    assert log.producers() == []


def test_a_roll_is_followed_by_a_checkpoint() -> None:
    house = House()
    log = house.store.open(PARTITION, FIRST_ID, small_settings())
    fill(log, [3] * 30)
    house.janitor.start()
    house.janitor.work()
    content = house.disk.read_file("/data/recovery-point-offset-checkpoint").decode()
    assert f"orders 3 {log.recovery_point}\n" in content
    assert log.recovery_point >= log.segments.active.base_offset


def test_the_janitor_runs_until_it_is_stopped() -> None:
    house = House()
    house.janitor.start()
    first = house.clock.alarms[-1]
    assert first.delay_s == TICK_S
    first.callback()
    assert len(house.clock.alarms) == 2
    house.janitor.stop()
    assert house.clock.alarms[-1].cancelled


def test_a_failed_folder_is_not_maintained() -> None:
    house = House()
    house.store.open(PARTITION, FIRST_ID, small_settings())
    house.store.directory.fail(OSError(5, "gone"))
    house.janitor.start()
    calls = house.disk.calls
    house.janitor.work()
    assert house.disk.calls == calls


def test_retention_deletes_no_young_records_after_a_clock_jump() -> None:
    house = House()
    log = house.store.open(PARTITION, FIRST_ID, small_settings(retention_ms=3_600_000))
    fill(log, [3] * 30, timestamp=NOW_MS)
    append(log, idempotent(sequence=0))
    house.janitor.start()
    house.clock.skew_ms = 10 * 365 * 86_400_000
    for _ in range(3):
        house.clock.now_ms += 300_000
        house.janitor.work()
    assert log.start_offset == 0
    assert len(log.producers()) == 1
    house.clock.skew_ms = 0
    house.clock.now_ms += 3_600_000
    house.janitor.work()
    assert log.start_offset == log.end_offset


def visits_of(house: House, monkeypatch: pytest.MonkeyPatch) -> list[Log]:
    """Return a list of the logs that are visited from now on."""
    visits: list[Log] = []

    def unchecked_size(log: Log) -> int:
        visits.append(log)
        return 0

    monkeypatch.setattr(house.store, "unchecked_size", unchecked_size)
    return visits


def test_visits_of_logs_are_not_repeated_in_every_slice_of_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()
    for index in range(450):
        house.store.open(TopicPartition(TopicName("many"), PartitionIndex(index)), FIRST_ID, small_settings())
    visits = visits_of(house, monkeypatch)
    house.janitor.start()
    house.clock.now_ms += 30_000
    house.janitor.work()
    house.janitor.work()
    assert len(visits) == 450
    house.clock.now_ms += 1000
    house.janitor.work()
    assert len(visits) == 900


def test_a_limited_number_of_logs_is_visited_every_second_and_each_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.janitor.VISITS_PER_TICK", 100)
    house = House()
    for index in range(250):
        house.store.open(TopicPartition(TopicName("many"), PartitionIndex(index)), FIRST_ID, small_settings())
    visits = visits_of(house, monkeypatch)
    house.janitor.start()
    counts = []
    for _ in range(3):
        house.clock.now_ms += 1000
        house.janitor.work()
        counts.append(len(visits))
    assert counts == [100, 200, 250]
    assert len({*visits}) == 250


def test_what_the_visited_logs_have_unchecked_makes_a_checkpoint_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.storage.janitor.VISITS_PER_TICK", 2)
    house = House()
    for index in range(4):
        house.store.open(TopicPartition(TopicName("many"), PartitionIndex(index)), FIRST_ID, small_settings())
    monkeypatch.setattr(house.store, "unchecked_size", lambda log: UNCHECKED_SIZE_MAX // 3)
    saved = mock.Mock()
    monkeypatch.setattr(house.store, "checkpoint_recovery_points_later", saved)
    house.janitor.start()
    house.janitor.work()
    assert not saved.called
    house.clock.now_ms += 1000
    house.janitor.work()
    assert saved.call_count == 1


def test_a_round_ends_when_its_time_is_over_and_continues_in_the_next() -> None:
    house = House()
    for index in range(3):
        topic_partition = TopicPartition(TopicName("orders"), PartitionIndex(index))
        log = house.store.open(topic_partition, FIRST_ID, small_settings(retention_ms=1000))
        fill(log, [3] * 30, timestamp=NOW_MS - 5000)
    house.janitor.start()
    house.clock.now_ms += 300_000
    maintain = house.janitor._maintain

    def maintain_slowly(log: Log) -> bool:
        house.clock.now_ms += 1000
        return maintain(log)

    house.janitor._maintain = maintain_slowly  # type: ignore[method-assign]
    starts = []
    for _ in range(3):
        house.janitor.work()
        starts.append(sum(log.start_offset > 0 for log in house.store))
    assert starts == [1, 2, 3]


def test_a_stopped_janitor_can_be_stopped_again() -> None:
    house = House()
    house.janitor.start()
    house.janitor.stop()
    house.janitor.stop()
    assert all(alarm.cancelled for alarm in house.clock.alarms)

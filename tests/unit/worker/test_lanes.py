from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.worker import Order, Record
from penstock.worker.lanes import Lanes, Task
from penstock.worker.progress import OffsetTracker


def task(offset: int, *, partition: int = 0, key: bytes | None = b"k") -> Task:
    return Task(Record(topic="t", partition=partition, offset=offset, key=key), OffsetTracker())


def of(partition: int) -> Callable[[Task], bool]:
    return lambda task: task.record.partition == partition


def filled(order: Order, *tasks: Task) -> Lanes:
    lanes = Lanes(order)
    for each in tasks:
        lanes.put(each)
    return lanes


def test_records_of_a_partition_run_one_after_another() -> None:
    first, second, other = task(0), task(1), task(0, partition=1)
    lanes = filled(Order.PARTITION, first, second, other)
    assert [lanes.take(0), lanes.take(0), lanes.take(0)] == [first, other, None]
    lanes.release(first)
    assert lanes.take(0) is second
    assert len(lanes) == 2


def test_by_key_only_the_same_key_waits() -> None:
    first, same, other, keyless, keyless_too = task(0), task(1), task(2, key=b"z"), task(3, key=None), task(4, key=None)
    lanes = filled(Order.KEY, first, same, other, keyless, keyless_too)
    assert [lanes.take(0) for _ in range(5)] == [first, other, keyless, keyless_too, None]


def test_without_order_no_record_waits() -> None:
    tasks = [task(offset) for offset in range(3)]
    lanes = filled(Order.NONE, *tasks)
    assert [lanes.take(0) for _ in tasks] == tasks


def test_a_task_that_waits_blocks_only_its_own_lane() -> None:
    first, second, other = task(0), task(1), task(0, partition=1)
    lanes = filled(Order.PARTITION, first, second, other)
    assert lanes.take(0) is first
    lanes.later(first, due=5)
    assert lanes.take(1) is other
    assert lanes.take(1) is None
    assert lanes.due() == 5
    assert lanes.take(5) is first
    assert lanes.due() is None


def test_dropping_a_partition_keeps_running_tasks_and_other_partitions() -> None:
    running, queued, other = task(0), task(1), task(0, partition=1)
    lanes = filled(Order.PARTITION, running, queued, other)
    assert lanes.take(0) is running
    assert lanes.drop(of(0)) == [queued]
    assert running.dropped
    lanes.release(running)
    assert lanes.take(0) is other
    assert len(lanes) == 1


def test_a_dropped_task_that_fails_is_not_queued_again() -> None:
    running = task(0)
    lanes = filled(Order.PARTITION, running)
    assert lanes.take(0) is running
    lanes.drop(of(0))
    lanes.later(running, due=1)
    assert len(lanes) == 0
    assert lanes.take(9) is None


def test_a_task_dropped_while_waiting_is_not_due_later() -> None:
    waiting, fresh = task(0), task(7)
    lanes = filled(Order.PARTITION, waiting)
    assert lanes.take(0) is waiting
    lanes.later(waiting, due=5)
    assert lanes.drop(of(0)) == [waiting]
    lanes.put(fresh)
    assert lanes.take(0) is fresh
    assert lanes.take(9) is None
    lanes.release(fresh)
    assert len(lanes) == 0


@settings(max_examples=200)
@given(st.sampled_from(list(Order)), st.data())
def test_order_holds_and_no_task_is_lost(order: Order, data: st.DataObject) -> None:
    lanes = Lanes(order)
    offset, now, ran = 0, 0.0, list[Task]()
    put: list[Task] = []
    gone: set[Task] = set()
    for _ in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["put", "take", "release", "later", "drop", "pass"])):
            case "put":
                key = data.draw(st.sampled_from([b"a", b"b", None]))
                added = task(offset, partition=data.draw(st.integers(0, 1)), key=key)
                offset += 1
                put.append(added)
                lanes.put(added)
            case "take":
                if (taken := lanes.take(now)) is not None:
                    assert taken not in gone
                    ran.append(taken)
            case "release" if lanes.running:
                done = min(lanes.running, key=lambda task: task.record.offset)
                gone.add(done)
                lanes.release(done)
            case "later" if lanes.running:
                failed = max(lanes.running, key=lambda task: task.record.offset)
                if failed.dropped:
                    gone.add(failed)
                lanes.later(failed, due=now + data.draw(st.integers(0, 3)))
            case "drop":
                gone.update(lanes.drop(of(data.draw(st.integers(0, 1)))))
            case _:
                now += 1
        assert len(lanes) == len(put) - len(gone) == len(list(lanes.tasks()))
        if order is Order.PARTITION:
            partitions = [running.partition for running in lanes.running]
            assert len(partitions) == len(set(partitions))
    while True:
        now += 10
        if (left := lanes.take(now)) is None:
            if not lanes.running:
                break
            left = min(lanes.running, key=lambda task: task.record.offset)
        gone.add(left)
        lanes.release(left)
    assert gone == set(put)
    assert len(lanes) == 0

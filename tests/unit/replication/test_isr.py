from penstock.model.ids import Offset
from penstock.replication.isr import advance_high_watermark, effective_min_isr


def test_mark_follows_the_slowest_replica_in_sync() -> None:
    assert advance_high_watermark(Offset(2), ends_in_sync=[Offset(9), Offset(7)]) == 7


def test_mark_holds_when_a_rejoined_replica_is_behind() -> None:
    assert advance_high_watermark(Offset(7), ends_in_sync=[Offset(9), Offset(4)]) == 7


def test_a_topic_of_one_replica_can_be_written_although_two_are_asked_for() -> None:
    assert effective_min_isr(2, replica_count=1) == 1
    assert effective_min_isr(2, replica_count=3) == 2

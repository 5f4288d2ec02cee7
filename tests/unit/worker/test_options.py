import pytest

from penstock.worker import DeadLetters, Reject, Retry, Worker


def test_the_wait_grows_to_its_bound() -> None:
    retry = Retry(delay_s=1, factor=3, delay_max_s=10, jitter=0)
    assert [retry.wait_s(attempts=attempts, chance=0.5) for attempts in (1, 2, 3, 4)] == [1, 3, 9, 10]


def test_chance_spreads_the_wait_to_both_sides() -> None:
    retry = Retry(delay_s=10, jitter=0.2)
    assert [round(retry.wait_s(attempts=1, chance=chance), 3) for chance in (0.0, 0.5, 1.0)] == [8, 10, 12]


def test_thousands_of_attempts_do_not_overflow() -> None:
    assert Retry(attempts=10_000, jitter=0).wait_s(attempts=9_999, chance=0) == 30


def test_attempts_are_counted_with_the_first() -> None:
    retry = Retry(attempts=3)
    assert [retry.again(OSError(), attempts=attempts) for attempts in (1, 2, 3)] == [True, True, False]


def test_some_errors_are_never_tried_again() -> None:
    retry = Retry(never=(ValueError,))
    assert retry.again(KeyError(), attempts=1)
    assert not retry.again(UnicodeDecodeError("utf-8", b"", 0, 1, "bad"), attempts=1)
    assert not retry.again(Reject("no use"), attempts=1)


@pytest.mark.parametrize(
    "wrong",
    [{"attempts": 0}, {"delay_s": -1.0}, {"factor": 0.5}, {"jitter": 1.0}, {"delay_s": 2.0, "delay_max_s": 1.0}],
)
def test_a_retry_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="Retry"):
        Retry(**wrong)  # type: ignore[arg-type]


def test_the_dead_letter_topic_follows_the_source_unless_it_is_named() -> None:
    assert DeadLetters().topic_for("orders") == "orders.dlq"
    assert DeadLetters(topic="graveyard").topic_for("orders") == "graveyard"


@pytest.mark.parametrize(
    ("template", "topic", "expected"),
    [
        ("{topic}.dlq", "orders.dlq", True),
        ("{topic}.dlq", "orders.dlq.dlq", True),
        ("{topic}.dlq", "orders", False),
        ("{topic}.dlq", ".dlq", False),
        ("dead-{topic}", "dead-orders", True),
        ("dead-{topic}", "orders", False),
        ("graveyard", "graveyard", True),
        ("graveyard", "graveyards", False),
    ],
)
def test_the_topics_of_dead_letters_are_known_by_their_names(template: str, topic: str, expected: bool) -> None:
    assert DeadLetters(topic=template).may_hold(topic) is expected


@pytest.mark.parametrize("template", ["{topic}", "orders"])
def test_dead_letters_do_not_go_back_to_where_they_come_from(template: str) -> None:
    with pytest.raises(ValueError, match="cannot go to a topic that the worker reads"):
        Worker(print, topics=["orders"], group="g", bootstrap="b", dead_letters=DeadLetters(topic=template))

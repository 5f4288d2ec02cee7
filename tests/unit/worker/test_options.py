import pytest

from penstock.worker import DeadLetters, Reject, Retry, Worker


def test_the_wait_grows_to_its_maximum() -> None:
    retry = Retry(delay_s=1, factor=3, delay_max_s=10, jitter=0)
    assert [retry.wait_s(attempts=attempts, chance=0.5) for attempts in (1, 2, 3, 4)] == [1, 3, 9, 10]


def test_jitter_varies_the_wait_in_both_directions() -> None:
    retry = Retry(delay_s=10, jitter=0.2)
    assert [round(retry.wait_s(attempts=1, chance=chance), 3) for chance in (0.0, 0.5, 1.0)] == [8, 10, 12]


def test_thousands_of_attempts_do_not_overflow() -> None:
    assert Retry(attempts=10_000, jitter=0).wait_s(attempts=9_999, chance=0) == 30


def test_the_first_attempt_counts() -> None:
    retry = Retry(attempts=3)
    assert [retry.again(OSError(), attempts=attempts) for attempts in (1, 2, 3)] == [True, True, False]


def test_some_errors_are_never_retried() -> None:
    retry = Retry(never=(ValueError,))
    assert retry.again(KeyError(), attempts=1)
    assert not retry.again(UnicodeDecodeError("utf-8", b"", 0, 1, "bad"), attempts=1)
    assert not retry.again(Reject("no use"), attempts=1)


@pytest.mark.parametrize(
    "wrong",
    [{"attempts": 0}, {"delay_s": -1.0}, {"factor": 0.5}, {"jitter": 1.0}, {"delay_s": 2.0, "delay_max_s": 1.0}],
)
def test_invalid_retry_options_are_rejected(wrong: dict[str, float]) -> None:
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
def test_dead_letter_topics_are_recognized_by_name(template: str, topic: str, expected: bool) -> None:
    assert DeadLetters(topic=template).may_hold(topic) is expected


@pytest.mark.parametrize("template", ["{topic}", "orders"])
def test_dead_letters_may_not_go_to_a_source_topic(template: str) -> None:
    with pytest.raises(ValueError, match="cannot go to a topic that the worker reads"):
        Worker(print, topics=["orders"], group="g", bootstrap="b", dead_letters=DeadLetters(topic=template))

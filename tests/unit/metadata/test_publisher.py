"""Who is told what, and in which order."""

import pytest

from penstock.metadata.delta import Delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.publisher import Publisher
from tests.unit.metadata.samples import after, topic


def test_subscribers_are_called_in_the_order_they_came() -> None:
    publisher = Publisher()
    told: list[str] = []
    publisher.subscribe(lambda delta, image: told.append("first"))
    publisher.subscribe(lambda delta, image: told.append("second"))
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    assert told == ["first", "second"]


def test_the_image_is_the_new_one_before_anybody_is_told() -> None:
    publisher = Publisher()
    seen: list[bool] = []
    publisher.subscribe(lambda delta, image: seen.append(publisher.image is image))
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    assert seen == [True]


def test_who_comes_late_is_told_all_there_is() -> None:
    publisher = Publisher()
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    told: list[Delta] = []
    publisher.subscribe(lambda delta, image: told.append(delta))
    assert [made.name for made in told[0].topics_created] == ["orders"]
    assert told[0].before is EMPTY


def test_one_failing_subscriber_does_not_keep_the_news_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    publisher = Publisher()
    told: list[Image] = []

    def failing(delta: Delta, image: Image) -> None:
        raise RuntimeError("no")

    publisher.subscribe(failing)
    publisher.subscribe(lambda delta, image: told.append(image))
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    assert told == [publisher.image]
    assert "a subscriber failed" in caplog.text


def test_those_who_were_dismissed_hear_no_more() -> None:
    publisher = Publisher()
    told: list[Image] = []
    publisher.subscribe(lambda delta, image: told.append(image))
    publisher.dismiss()
    delta, image = after(EMPTY, topic("orders", 1))
    publisher.publish(delta, image)
    assert told == [] and publisher.image is image

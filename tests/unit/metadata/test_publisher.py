"""The notification of subscribers, and its order."""

import pytest

from penstock.metadata.delta import Delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.publisher import Publisher
from tests.unit.metadata.samples import after, topic


def test_subscribers_are_called_in_the_order_of_subscription() -> None:
    publisher = Publisher()
    told: list[str] = []
    publisher.subscribe(lambda delta, image: told.append("first"))
    publisher.subscribe(lambda delta, image: told.append("second"))
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    assert told == ["first", "second"]


def test_the_image_is_replaced_before_subscribers_are_called() -> None:
    publisher = Publisher()
    seen: list[bool] = []
    publisher.subscribe(lambda delta, image: seen.append(publisher.image is image))
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    assert seen == [True]


def test_a_late_subscriber_receives_the_current_image() -> None:
    publisher = Publisher()
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    told: list[Delta] = []
    publisher.subscribe(lambda delta, image: told.append(delta))
    assert [made.name for made in told[0].topics_created] == ["orders"]
    assert told[0].before is EMPTY


def test_a_failing_subscriber_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    publisher = Publisher()
    told: list[Image] = []

    def failing(delta: Delta, image: Image) -> None:
        raise RuntimeError("no")

    publisher.subscribe(failing)
    publisher.subscribe(lambda delta, image: told.append(image))
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    assert told == [publisher.image]
    assert "a subscriber failed" in caplog.text


def test_dropped_subscribers_are_not_called() -> None:
    publisher = Publisher()
    told: list[Image] = []
    publisher.subscribe(lambda delta, image: told.append(image))
    publisher.drop_subscribers()
    delta, image = after(EMPTY, topic("orders", 1))
    publisher.publish(delta, image)
    assert told == [] and publisher.image is image

"""The notification of subscribers, and its order."""

import pytest

from penstock.metadata.delta import Delta
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.publisher import Publisher
from tests.unit.metadata.samples import after, topic


def test_subscribers_are_called_in_the_order_of_subscription() -> None:
    publisher = Publisher()
    received: list[str] = []
    publisher.subscribe(lambda delta, image: received.append("first"))
    publisher.subscribe(lambda delta, image: received.append("second"))
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    assert received == ["first", "second"]


def test_the_image_is_replaced_before_subscribers_are_called() -> None:
    publisher = Publisher()
    seen: list[bool] = []
    publisher.subscribe(lambda delta, image: seen.append(publisher.image is image))
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    assert seen == [True]


def test_a_late_subscriber_receives_the_current_image() -> None:
    publisher = Publisher()
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    received: list[Delta] = []
    publisher.subscribe(lambda delta, image: received.append(delta))
    assert [made.name for made in received[0].topics_created] == ["orders"]
    assert received[0].before is EMPTY


def test_a_failing_subscriber_does_not_affect_the_others(caplog: pytest.LogCaptureFixture) -> None:
    publisher = Publisher()
    received: list[Image] = []

    def failing(delta: Delta, image: Image) -> None:
        raise RuntimeError("no")

    publisher.subscribe(failing)
    publisher.subscribe(lambda delta, image: received.append(image))
    publisher.publish(*after(EMPTY, topic("orders", 1)))
    assert received == [publisher.image]
    assert "a subscriber failed" in caplog.text


def test_dropped_subscribers_are_not_called() -> None:
    publisher = Publisher()
    received: list[Image] = []
    publisher.subscribe(lambda delta, image: received.append(image))
    publisher.drop_subscribers()
    delta, image = after(EMPTY, topic("orders", 1))
    publisher.publish(delta, image)
    assert received == [] and publisher.image is image

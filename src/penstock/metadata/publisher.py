"""The distribution of new images to subscribers, in the order of their subscription.

Owns the current image. Called by `quorum.py` when records are committed. A subscriber's
error is logged and affects neither the other subscribers nor the commit: the records are durable
and cannot be undone, so every subscriber must see them.
"""

import logging
from collections.abc import Callable

from penstock.metadata.delta import Delta
from penstock.metadata.image import EMPTY, Image

Subscriber = Callable[[Delta, Image], None]

log = logging.getLogger(__name__)


class Publisher:
    def __init__(self) -> None:
        self.image: Image = EMPTY
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Notify the subscriber of every change, beginning with the whole current image."""
        self._subscribers.append(subscriber)
        if self.image is not EMPTY:
            self._notify(subscriber, Delta.whole(self.image), self.image)

    def publish(self, delta: Delta, image: Image) -> None:
        """Make the image the current one, then notify every subscriber."""
        assert image.offset >= self.image.offset, "the offset of the image must not decrease"
        self.image = image
        for subscriber in self._subscribers:
            self._notify(subscriber, delta, image)

    def drop_subscribers(self) -> None:
        """Drop all subscribers, which are about to stop."""
        self._subscribers = []

    def _notify(self, subscriber: Subscriber, delta: Delta, image: Image) -> None:
        try:
            subscriber(delta, image)
        except Exception:
            log.exception("a subscriber failed on the metadata at offset %d: %r", image.offset, subscriber)

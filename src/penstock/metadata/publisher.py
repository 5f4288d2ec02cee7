"""Hands each new image to everybody who asked, in the order they asked.

Owns the present image. Called by `quorum.py` once records are committed. A subscriber's
error is logged and stops neither the others nor the commit: the records are durable
and cannot be taken back, so everybody must see them.
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
        """Tell the subscriber of every change; first, of all there is already."""
        self._subscribers.append(subscriber)
        if self.image is not EMPTY:
            self._tell(subscriber, Delta.whole(self.image), self.image)

    def publish(self, delta: Delta, image: Image) -> None:
        """Make the image the present one, then tell every subscriber."""
        assert image.offset >= self.image.offset, "an image never goes back"
        self.image = image
        for subscriber in self._subscribers:
            self._tell(subscriber, delta, image)

    def dismiss(self) -> None:
        """Tell nobody any more: those who were told are about to end."""
        self._subscribers = []

    def _tell(self, subscriber: Subscriber, delta: Delta, image: Image) -> None:
        try:
            subscriber(delta, image)
        except Exception:
            log.exception("a subscriber failed on the metadata at offset %d: %r", image.offset, subscriber)

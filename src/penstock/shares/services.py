"""The services of share groups on one node, as handlers use them."""

from typing import NamedTuple

from penstock.metadata.delta import Delta
from penstock.metadata.image import Image
from penstock.shares.end_offsets import EndOffsets
from penstock.shares.leading import ShareLeader
from penstock.shares.service import ShareCoordinator
from penstock.shares.state_client import ShareStateClient


class ShareServices(NamedTuple):
    leader: ShareLeader
    coordinator: ShareCoordinator
    state: ShareStateClient
    end_offsets: EndOffsets

    def image_changed(self, delta: Delta, image: Image) -> None:
        self.coordinator.image_changed(delta, image)
        self.leader.image_changed(delta, image)

    def close(self) -> None:
        self.leader.close()
        self.coordinator.close()

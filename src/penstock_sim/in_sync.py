"""Invariants 16 and 20, about ISR membership, as functions of images and of replica contents.

A replica joins the ISR only while its broker is registered, unfenced and not shutting down; and every member has
durably everything that consumers can read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.metadata.image import Image, PartitionImage


def wrong_joiners(before: PartitionImage, after: PartitionImage, image: Image) -> Iterator[str]:
    """Yield replicas that joined the ISR although their broker is gone or leaving (KIP-903)."""
    for node_id in after.isr:
        if node_id in before.isr:
            continue
        broker = image.brokers.get(node_id)
        if broker is None:
            yield f"{node_id} joins the ISR but is not registered"
        elif broker.fenced:
            yield f"{node_id} joins the ISR but is fenced"
        elif broker.in_controlled_shutdown:
            yield f"{node_id} joins the ISR but is shutting down"
        elif broker.read_only and len(after.isr) > 1:
            yield f"{node_id} joins the ISR but cannot write"


def members_behind(isr: Sequence[int], mark: int, durable_ends: Mapping[int, int | None]) -> Iterator[str]:
    """Yield ISR members that lack records which the leader returns. An end is None if it is unknown."""
    for node_id in isr:
        end = durable_ends.get(node_id)
        if end is not None and end < mark:
            yield f"{node_id} is in the ISR with durable end {end}, but the high watermark is {mark}"

"""Who may be in sync: invariants 16 and 20 as functions of images and of what replicas hold.

A replica joins the set only while its broker is registered, serves, and is about to stay; and whoever is in
the set holds durably everything that consumers are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.metadata.image import Image, PartitionImage


def wrong_joiners(before: PartitionImage, after: PartitionImage, image: Image) -> Iterator[str]:
    """Replicas that came into the set although their broker is away or leaving (KIP-903)."""
    for node_id in after.isr:
        if node_id in before.isr:
            continue
        broker = image.brokers.get(node_id)
        if broker is None:
            yield f"{node_id} joins the set and is not registered"
        elif broker.fenced:
            yield f"{node_id} joins the set and is fenced"
        elif broker.in_controlled_shutdown:
            yield f"{node_id} joins the set and is shutting down"
        elif broker.read_only and len(after.isr) > 1:
            yield f"{node_id} joins the set and cannot write"


def members_behind(isr: Sequence[int], mark: int, durable_ends: Mapping[int, int | None]) -> Iterator[str]:
    """Members of a set that lack what its leader shows. An end is None where nobody can be asked."""
    for node_id in isr:
        end = durable_ends.get(node_id)
        if end is not None and end < mark:
            yield f"{node_id} is in sync and holds {end} durably, the mark is {mark}"

"""Which partition is followed through which connection: `num.replica.fetchers` for each leader. Goes to fetcher.py."""

from collections.abc import Iterator

from penstock.model.ids import NO_NODE, NodeId
from penstock.replication.fetcher import Fetcher, FetcherContext
from penstock.replication.partition import Partition


class Fetchers:
    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._fetchers: dict[tuple[NodeId, int], Fetcher] = {}
        self._places: dict[Partition, tuple[Fetcher, int]] = {}

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(self._fetchers.values())

    def follow(self, partition: Partition) -> None:
        """Follow the partition's leader in its epoch; nothing changes if that is done already."""
        known = self._places.get(partition)
        if known is not None and known[0].leader == partition.leader and known[1] == partition.leader_epoch:
            return
        if known is not None and known[0].leader != partition.leader:
            self.leave(partition)
        if partition.leader == NO_NODE:
            return
        count = self._context.settings().integer("num.replica.fetchers")
        slot = (partition.topic_id.int + partition.index) % count
        fetcher = self._fetchers.get((partition.leader, slot))
        if fetcher is None:
            fetcher = self._fetchers[partition.leader, slot] = Fetcher(partition.leader, slot, self._context)
        if known is not None and known[0] is not fetcher:
            self.leave(partition)
        self._places[partition] = (fetcher, partition.leader_epoch)
        fetcher.follow(partition)

    def leave(self, partition: Partition) -> None:
        known = self._places.pop(partition, None)
        if known is None:
            return
        fetcher = known[0]
        fetcher.unfollow(partition)
        if not len(fetcher):
            fetcher.close()
            self._fetchers = {key: each for key, each in self._fetchers.items() if each is not fetcher}

    def close(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._places.clear()

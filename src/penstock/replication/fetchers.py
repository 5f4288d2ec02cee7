"""The fetchers of one node: `num.replica.fetchers` connections per leader, and which partition uses which."""

from collections.abc import Iterator

from penstock.model.ids import NO_NODE, NodeId
from penstock.replication.fetcher import Fetcher, FetcherContext
from penstock.replication.partition import Partition


class Fetchers:
    """Creates and closes fetchers as partitions need them."""

    def __init__(self, context: FetcherContext) -> None:
        self._context = context
        self._fetchers: dict[tuple[NodeId, int], Fetcher] = {}
        self._closed = False

    def __iter__(self) -> Iterator[Fetcher]:
        return iter(self._fetchers.values())

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its leader in its epoch; do nothing if that is already happening.

        A node that stops may open partitions after the fetchers are closed; they are not fetched.
        """
        if self._closed:
            return
        known = partition.followed
        if known is not None and known.fetcher.leader == partition.leader:
            if known.leader_epoch == partition.leader_epoch:
                return
        elif known is not None:
            self.leave(partition)
        if partition.leader == NO_NODE:
            return
        count = self._context.settings().integer("num.replica.fetchers")
        slot = (partition.topic_id.int + partition.index) % count
        fetcher = self._fetchers.get((partition.leader, slot))
        if fetcher is None:
            fetcher = self._fetchers[partition.leader, slot] = Fetcher(partition.leader, slot, self._context)
        if known is not None and known.fetcher is not fetcher:
            self.leave(partition)
        fetcher.follow(partition)

    def leave(self, partition: Partition) -> None:
        if partition.followed is None:
            return
        fetcher = partition.followed.fetcher
        fetcher.unfollow(partition)
        if not len(fetcher):
            fetcher.close()
            self._fetchers = {key: each for key, each in self._fetchers.items() if each is not fetcher}

    def close(self) -> None:
        self._closed = True
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()

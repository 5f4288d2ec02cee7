"""A seeded in-memory cluster of voters: messages are lost, repeated and reordered, nodes crash and restart.

Every node's effects are carried out as `raft/events.py` requires. After each event the cluster
checks the invariants 24 to 27 and 29; a violation is an AssertionError.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from uuid import UUID

from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.raft.core import Core
from penstock.raft.events import (
    Appended,
    ChangeVoters,
    Effects,
    ElectionState,
    Event,
    LogStartMoved,
    PeerLost,
    Received,
    Send,
    SnapshotLoaded,
    Started,
    Synced,
    TimePassed,
)
from penstock.raft.majority import majority_count
from penstock.raft.messages import Batch, EpochEnd, FetchResponse, Message, VoteResponse
from penstock.raft.shape import NO_RECORDS, LogShape
from penstock.raft.voters import VoterHistory

Entry = tuple[int, object]
"""A record as (epoch, value)."""


@dataclass
class Node:
    """The state that survives a crash, and the core, which does not."""

    id: NodeId
    election: ElectionState = field(default_factory=lambda: ElectionState(epoch=LeaderEpoch(0), blank=True))
    entries: list[Entry] = field(default_factory=list)
    durable: int = 0
    snapshot: EpochEnd = NO_RECORDS
    snapshot_voters: frozenset[NodeId] | None = None
    core: Core | None = None
    incarnation: int = 0
    timer: float | None = None
    syncing: bool = False
    loading: EpochEnd | None = None
    disk: UUID = UUID(int=0)


class RaftCluster:
    def __init__(self, *, seed: int, voters: int, observers: int = 0, loss: float = 0.0) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.loss = loss
        self.cut: set[frozenset[NodeId]] = set()
        self.nodes = {NodeId(index): Node(NodeId(index)) for index in range(1, voters + observers + 1)}
        self.configured = frozenset(NodeId(index) for index in range(1, voters + 1))
        self.wiped = 0
        self.lost_entries: dict[NodeId, list[Entry]] = {}
        """The durable entries of the last lost disk of each node."""
        self.voter_changes = 0
        self.committed: list[Entry] = []
        self.leaders: dict[int, NodeId] = {}
        self.votes: dict[tuple[NodeId, int], NodeId] = {}
        self.epochs_led: list[int] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._values = count()
        for node in self.nodes.values():
            self.start(node)

    def later(self, delay: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (self.now + delay, next(self._order), call))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            self.now, _, call = heapq.heappop(self._queue)
            call()
        self.now = end

    def start(self, node: Node) -> None:
        shape = LogShape(snapshot=node.snapshot)
        history = VoterHistory(node.snapshot_voters or self.configured)
        for offset in range(node.snapshot.end_offset, len(node.entries)):
            epoch, value = node.entries[offset]
            shape.append(last_offset=Offset(offset), epoch=LeaderEpoch(epoch))
            if isinstance(value, frozenset):
                history.append(Offset(offset), value)
        shape.durable_offset = shape.end_offset
        node.durable = len(node.entries)
        node.core = Core(
            node_id=node.id,
            voters=history,
            election=node.election,
            log=shape,
            random=Random(self.random.getrandbits(32)),
            disk=node.disk,
        )
        self.step(node, Started())

    def crash(self, node: Node) -> None:
        """Stop a node; an arbitrary part of its unsynced entries survives."""
        node.core = None
        node.incarnation += 1
        node.syncing = False
        node.loading = None
        node.timer = None
        kept = self.random.randint(node.durable, len(node.entries))
        del node.entries[kept:]

    def wipe(self, node: Node) -> None:
        """Wipe a node's disk, if enough voters with data are left to elect a leader."""
        leader = self.leader()
        if leader is None or leader.core is None or leader is node:
            return
        # A voter with an empty log and one with an empty disk together look like a new cluster.
        whole = [each for each in self.nodes.values() if not each.election.blank and each.entries and each is not node]
        if len(whole) < len(self.nodes) - 1:
            return
        voters = leader.core.voters
        if len(voters - {node.id}) < majority_count(len(voters)):
            return
        self.wiped += 1
        self.lost_entries[node.id] = node.entries[: node.durable]
        self.crash(node)
        self.nodes[node.id] = fresh = Node(node.id, incarnation=node.incarnation, disk=UUID(int=self.wiped))
        self.start(fresh)

    def change_voters(self, node: Node) -> None:
        """Add the node to the voters, or remove it if it is one."""
        leader = self.leader()
        if leader is None or leader.core is None or not leader.core.may_change_voters:
            return
        voters = leader.core.voters ^ {node.id}
        if any(each.election.blank for each in self.nodes.values()) or len(voters) < 2:
            return
        self.voter_changes += 1
        self.step(leader, ChangeVoters(voters, voters))

    def report_lost(self, gone: Node) -> None:
        """Report to all nodes that a process has exited."""
        for node in self.nodes.values():
            if node.core is not None:
                self.step(node, PeerLost(gone.id))

    def restart(self, node: Node) -> None:
        if node.core is None:
            self.start(node)

    def step(self, node: Node, event: Event) -> None:
        assert node.core is not None
        effects = node.core.step(event, self.now)
        self._carry_out(node, node.core, effects)
        self._check(node, node.core, effects)

    def _carry_out(self, node: Node, core: Core, effects: Effects) -> None:
        if effects.persist is not None:
            assert effects.persist.epoch >= node.election.epoch, "the persisted epoch never decreases"
            node.election = effects.persist
        if effects.truncate_to is not None:
            del node.entries[effects.truncate_to :]
            node.durable = min(node.durable, len(node.entries))
        for batch in effects.append:
            assert batch.base_offset == len(node.entries)
            node.entries.append((batch.epoch, batch.payload))
        self._sync_soon(node)
        for send in effects.send:
            self._send(node, send)
        if core.loading_snapshot is not None and node.loading is None:
            self._load_snapshot(node, core.loading_snapshot)
        self._set_timer(node, effects.deadline)

    def _sync_soon(self, node: Node) -> None:
        if node.syncing or node.durable == len(node.entries):
            return
        node.syncing = True
        written, incarnation = list(node.entries), node.incarnation

        def done() -> None:
            if node.incarnation != incarnation:
                return
            node.syncing = False
            same = 0
            while same < min(len(written), len(node.entries)) and written[same] is node.entries[same]:
                same += 1
            node.durable = max(node.durable, same)
            self.step(node, Synced(Offset(node.durable)))

        self.later(self.random.expovariate(200), done)

    def _send(self, node: Node, send: Send) -> None:
        message = send.message
        if send.read_from is not None:
            assert isinstance(message, FetchResponse)
            assert send.read_from >= node.snapshot.end_offset, "deleted records cannot be read"
            message = replace(message, batches=self._read(node, send.read_from))
        if isinstance(message, VoteResponse) and message.granted and not message.pre_vote:
            before = self.votes.setdefault((node.id, message.epoch), send.to)
            assert before == send.to, "one vote per epoch"
        copies = 1 + (self.random.random() < self.loss)
        for _ in range(copies):
            if self.random.random() < self.loss or frozenset({node.id, send.to}) in self.cut:
                continue
            self.later(self.random.expovariate(100), lambda: self._deliver(node.id, send.to, message))

    def _read(self, node: Node, offset: int) -> tuple[Batch, ...]:
        return tuple(
            Batch(
                base_offset=Offset(position),
                last_offset=Offset(position),
                epoch=LeaderEpoch(node.entries[position][0]),
                payload=node.entries[position][1],
                voters=voters if isinstance(voters := node.entries[position][1], frozenset) else None,
            )
            for position in range(offset, min(offset + 5, len(node.entries)))
        )

    def _deliver(self, source: NodeId, to: NodeId, message: Message) -> None:
        node = self.nodes[to]
        if frozenset({source, to}) in self.cut:
            return
        if node.core is not None:
            self.step(node, Received(source, message))
        elif self.nodes[source].core is not None:
            self.step(self.nodes[source], PeerLost(to))

    def _set_timer(self, node: Node, deadline: float | None) -> None:
        node.timer = deadline
        if deadline is None:
            return
        incarnation = node.incarnation

        def fire() -> None:
            if node.incarnation == incarnation and node.timer == deadline:
                self.step(node, TimePassed())

        self.later(max(deadline - self.now, 0.0), fire)

    def _load_snapshot(self, node: Node, snapshot: EpochEnd) -> None:
        incarnation = node.incarnation
        node.loading = snapshot

        def loaded() -> None:
            if node.incarnation != incarnation or node.core is None:
                return
            node.loading = None
            if node.core.loading_snapshot != snapshot:
                return
            node.entries[:] = self.committed[: snapshot.end_offset]
            node.durable = len(node.entries)
            node.snapshot = snapshot
            node.snapshot_voters = self.voters_at(snapshot.end_offset)
            self.step(node, SnapshotLoaded(snapshot, node.snapshot_voters))

        self.later(self.random.expovariate(20), loaded)

    def propose(self) -> None:
        """Append a record on every node that believes it leads."""
        for node in self.nodes.values():
            if node.core is not None and node.core.is_leader:
                node.entries.append((node.core.epoch, next(self._values)))
                self.step(node, Appended(Offset(len(node.entries) - 1)))

    def take_snapshot(self, node: Node) -> None:
        """Delete the log up to the high watermark."""
        if node.core is None:
            return
        end = node.core.high_watermark
        if end > node.snapshot.end_offset:
            node.snapshot = EpochEnd(epoch=LeaderEpoch(node.entries[end - 1][0]), end_offset=end)
            node.snapshot_voters = self.voters_at(end)
            self.step(node, LogStartMoved(node.snapshot))

    def voters_at(self, end: int) -> frozenset[NodeId] | None:
        """Return the voters that the committed log names below an offset."""
        named = [value for _, value in self.committed[:end] if isinstance(value, frozenset)]
        return named[-1] if named else None

    def leader(self) -> Node | None:
        """Return the leader of the latest epoch, if it is up."""
        leading = [node for node in self.nodes.values() if node.core is not None and node.core.is_leader]
        return max(leading, key=lambda node: node.election.epoch, default=None)

    def _check(self, node: Node, core: Core, effects: Effects) -> None:
        assert core.log.end_offset == len(node.entries)
        if core.is_leader and self.leaders.get(core.epoch) != node.id:
            assert core.epoch not in self.leaders, "one leader per epoch"
            self.leaders[core.epoch] = node.id
            assert node.entries[: len(self.committed)] == self.committed, "a new leader must have all committed records"
        if effects.high_watermark is None:
            return
        mark = effects.high_watermark
        shown = node.entries[:mark]
        shared = min(mark, len(self.committed))
        assert shown[:shared] == self.committed[:shared], "committed records must be the same on all nodes"
        if mark > len(self.committed):
            assert self.leaders.get(core.epoch) == node.id, "the leader must be the first to commit"
            holding = [
                voter
                for voter in core.voters
                if self.nodes[voter].entries[: self.nodes[voter].durable][:mark] == shown
                or self.lost_entries.get(voter, [])[:mark] == shown
            ]
            assert len(holding) >= majority_count(len(core.voters)), "a majority must hold the high watermark durably"
            self.committed = shown

    def check_logs_match(self) -> None:
        """Check that the same offset and epoch in two logs means the same records up to there."""
        nodes = list(self.nodes.values())
        for first in nodes:
            for second in nodes:
                for offset in range(min(len(first.entries), len(second.entries)) - 1, -1, -1):
                    if first.entries[offset][0] == second.entries[offset][0]:
                        assert first.entries[: offset + 1] == second.entries[: offset + 1]
                        break


def storm(*, seed: int, voters: int, observers: int = 0, rounds: int = 40) -> RaftCluster:
    """Run half a minute of crashes, partitions, losses and snapshots; then heal, and check that all agree.

    With observers, disks are lost too, and nodes are added to and removed from the voters.
    """
    world = RaftCluster(seed=seed, voters=voters, observers=observers, loss=0.05)
    total = voters + observers
    chance = Random(seed + 1)
    for _ in range(rounds):
        world.run(chance.expovariate(1.5))
        node = world.nodes[NodeId(chance.randint(1, total))]
        other = world.nodes[NodeId(chance.randint(1, total))]
        match chance.randrange(10 if observers else 7):
            case 0 | 1:
                if node.core is not None:
                    world.crash(node)
            case 2:
                world.restart(node)
                world.restart(other)
            case 3:
                world.cut.add(frozenset({node.id, other.id}))
            case 4:
                world.cut.clear()
            case 5:
                world.take_snapshot(node)
            case 7:
                world.wipe(node)
            case 8 | 9:
                world.change_voters(node)
        for _ in range(chance.randrange(4)):
            world.propose()
        world.check_logs_match()
    world.cut.clear()
    world.loss = 0.0
    for node in world.nodes.values():
        world.restart(node)
    world.run(15.0)
    committed = len(world.committed)
    world.propose()
    world.run(3.0)
    assert len(world.committed) > committed, "a healed quorum must commit"
    for node in world.nodes.values():
        assert node.entries == world.committed, "after healing all logs must be equal"
    world.check_logs_match()
    return world

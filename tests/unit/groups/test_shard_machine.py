"""Joins, syncs, crashes, commits, transactions and restarts in random order, checked against the invariants."""

from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from penstock.coordinator.decision import InTransaction
from penstock.groups.classic.group import ClassicGroup, State
from penstock.groups.commands import (
    DeleteGroups,
    ForgetTopics,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    SyncGroup,
    TxnOffsetCommit,
)
from tests.unit.groups.harness import Harness

GROUPS = st.sampled_from(("g", "g", "g", "h"))
INSTANCES = st.sampled_from((None, None, None, "a", "b"))
PARTITIONS = frozenset(range(6))
PRODUCERS = st.integers(1, 3)
SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x06orders"
BOTH = (("range", SUBSCRIPTION), ("sticky", SUBSCRIPTION))
SIZE_MAX = 4
UNKNOWN_MEMBER_ID = 25
FENCED_INSTANCE_ID = 82
PROTOCOLS = st.sampled_from(
    (
        (("range", SUBSCRIPTION),),
        (("range", SUBSCRIPTION), ("sticky", SUBSCRIPTION)),
        (("sticky", SUBSCRIPTION), ("range", SUBSCRIPTION)),
        (("sticky", b"garbage"), ("range", b"")),
    )
)


class Client:
    """A consumer's view of its own membership, which may be outdated."""

    def __init__(self, group_id: str, instance_id: str | None) -> None:
        self.group_id = group_id
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.join_ticket: Any = None
        self.sync_ticket: Any = None
        self.leads: tuple[str, ...] = ()


class Staged(NamedTuple):
    producer_id: int
    group_id: str
    partition: int
    offset: int


class GroupMachine(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self) -> None:
        super().__init__()
        self.host = Harness(offsets_retention_ms=120_000, offsets_retention_check_interval_ms=50_000, size_max=SIZE_MAX)
        self.known: list[Client] = []
        self.acked: dict[tuple[str, int], int] = {}
        self.staged: list[Staged] = []
        """Offsets of open transactions, in log order."""
        self.next_id = 0
        self.next_offset = 0

    # -- clients ---------------------------------------------------------------------------

    @initialize(target=clients, instance_ids=st.lists(INSTANCES, min_size=2, max_size=3))
    def start_clients(self, instance_ids: list[str | None]) -> Any:
        """Start with two members in a stable group, as most failures need two."""
        started = [Client("g", instance_id) for instance_id in instance_ids]
        self.known += started
        for _ in range(6):
            self.live("g")
        return multiple(*started)

    @rule(target=clients, group_id=GROUPS, instance_id=INSTANCES)
    def start_client(self, group_id: str, instance_id: str | None) -> Client:
        client = Client(group_id, instance_id)
        self.known.append(client)
        return client

    @rule(client=clients, protocols=PROTOCOLS, is_old=st.booleans(), session_s=st.integers(6, 30))
    def join(self, client: Client, protocols: Any, is_old: bool, session_s: int) -> None:
        self.send_join(client, protocols, is_old=is_old, session_ms=session_s * 1000)

    def send_join(self, client: Client, protocols: Any, *, is_old: bool, session_ms: int) -> None:
        self.next_id += 1
        client.join_ticket = self.host.send(
            JoinGroup(
                group_id=client.group_id,
                member_id=client.member_id,
                instance_id=client.instance_id,
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=20_000,
                protocol_type="consumer",
                protocols=protocols,
                fresh_id=UUID(int=self.next_id),
                must_know_member_id=not is_old,
                can_skip_assignment=not is_old,
            )
        )
        self.read_replies()

    @rule(client=clients)
    def sync(self, client: Client) -> None:
        self.send_sync(client)

    def send_sync(self, client: Client) -> None:
        assignments: tuple[tuple[str, bytes], ...] = ()
        if client.leads:
            count = len(client.leads)
            assignments = tuple(
                (member_id, bytes(index for index in sorted(PARTITIONS) if index % count == position))
                for position, member_id in enumerate(client.leads)
            )
        client.sync_ticket = self.host.send(
            SyncGroup(
                group_id=client.group_id,
                generation=client.generation,
                member_id=client.member_id,
                instance_id=client.instance_id,
                assignments=assignments,
            )
        )
        self.read_replies()

    @rule(client=clients)
    def heartbeat(self, client: Client) -> None:
        self.beat(client)

    def beat(self, client: Client) -> int:
        reply = self.host.ask(
            Heartbeat(
                group_id=client.group_id,
                generation=client.generation,
                member_id=client.member_id,
                instance_id=client.instance_id,
            )
        )
        if reply.error in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID):
            self.forget(client)
        return int(reply.error)

    @rule(client=clients)
    def crash_and_restart(self, client: Client) -> None:
        """Replace the client with a new process that knows only the instance id."""
        self.forget(client)
        client.join_ticket = client.sync_ticket = None

    @rule(client=clients, rounds=st.integers(1, 2))
    def behave(self, client: Client, rounds: int) -> None:
        """Let one client behave normally for a while."""
        for _ in range(rounds):
            self.take_a_turn(client)

    def live(self, group_id: str) -> None:
        # The leader is among the first; the interesting case is a late leader.
        for client in reversed(self.alive(group_id)):
            self.take_a_turn(client)
        self.pass_time(3_000)

    @rule(group_id=GROUPS)
    def settle(self, group_id: str) -> None:
        """34: after a bounded time of normal behaviour all are members and every partition has an owner."""
        for _ in range(40):
            self.live(group_id)
        clients = self.alive(group_id)
        if clients:
            group = self.host.shard.groups[group_id]
            assert isinstance(group, ClassicGroup)
            assert group.state is State.STABLE
            assert sorted(group.members) == sorted(client.member_id for client in clients)
            owned = [partition for member in group.members.values() for partition in member.assignment]
            assert sorted(owned) == sorted(PARTITIONS)

    def take_a_turn(self, client: Client) -> None:
        if client.join_ticket in self.host.waiting or client.sync_ticket in self.host.waiting:
            return
        if client.generation < 0 or self.beat(client) != 0:
            self.send_join(client, BOTH, is_old=False, session_ms=20_000)
        if client.generation >= 0 and client.join_ticket not in self.host.waiting:
            self.send_sync(client)

    def alive(self, group_id: str) -> list[Client]:
        """Return as many clients as fit into the group; of a static instance only the newest."""
        mine = [client for client in self.known if client.group_id == group_id]
        newest: dict[object, Client] = {client.instance_id or client: client for client in mine}
        return list(newest.values())[:SIZE_MAX]

    @rule(client=consumes(clients))
    def leave(self, client: Client) -> None:
        leaving = LeavingMember(member_id=client.member_id, instance_id=client.instance_id)
        self.host.ask(LeaveGroup(group_id=client.group_id, members=(leaving,)))
        self.known.remove(client)

    @rule(client=consumes(clients))
    def vanish(self, client: Client) -> None:
        self.known.remove(client)

    def read_replies(self) -> None:
        for client in self.known:
            joined = self.host.replies.pop(client.join_ticket, None)
            if joined is not None:
                client.leads = ()
                if joined.error in (0, 79):
                    client.member_id = joined.member_id
                    client.generation = joined.generation
                    if not joined.skip_assignment:
                        client.leads = tuple(member.member_id for member in joined.members)
                elif joined.error != 27:
                    self.forget(client)
            synced = self.host.replies.pop(client.sync_ticket, None)
            if synced is not None and synced.error in (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID):
                self.forget(client)

    def forget(self, client: Client) -> None:
        client.member_id, client.generation, client.leads = "", -1, ()

    # -- offsets ---------------------------------------------------------------------------

    @rule(client=clients, partition=st.sampled_from(sorted(PARTITIONS)), age=st.integers(0, 2))
    def commit(self, client: Client, partition: int, age: int) -> None:
        group = self.host.shard.groups.get(client.group_id)
        generation = client.generation - age
        self.next_offset += 1
        (error,) = self.host.ask(
            OffsetCommit(
                group_id=client.group_id,
                generation=generation,
                member_id=client.member_id,
                instance_id=client.instance_id,
                offsets=(OffsetToCommit(topic="orders", partition=partition, offset=self.next_offset),),
            )
        ).errors
        if error == 0:
            self.acked[client.group_id, partition] = self.next_offset
            # 33: never from a stale generation, an unknown member, or a fenced static member.
            if isinstance(group, ClassicGroup) and group.members:
                assert generation == group.generation
                assert client.member_id in group.members
                assert client.instance_id in (None, group.members[client.member_id].instance_id)

    @rule(group_id=GROUPS, partition=st.sampled_from(sorted(PARTITIONS)))
    def commit_without_a_member(self, group_id: str, partition: int) -> None:
        self.next_offset += 1
        offset = OffsetToCommit(topic="orders", partition=partition, offset=self.next_offset)
        if self.host.ask(OffsetCommit(group_id=group_id, offsets=(offset,))).errors == (0,):
            self.acked[group_id, partition] = self.next_offset

    # -- transactions ----------------------------------------------------------------------

    @rule(client=clients, producer_id=PRODUCERS, partition=st.sampled_from(sorted(PARTITIONS)), age=st.integers(0, 2))
    def commit_in_transaction(self, client: Client, producer_id: int, partition: int, age: int) -> None:
        group = self.host.shard.groups.get(client.group_id)
        generation = client.generation - age
        names_nobody = generation < 0 and not client.member_id and client.instance_id is None
        is_staged = self.stage(
            producer_id,
            client.group_id,
            partition,
            generation=generation,
            member_id=client.member_id,
            instance_id=client.instance_id,
        )
        if is_staged and isinstance(group, ClassicGroup) and group.members and not names_nobody:
            assert generation == group.generation
            assert client.member_id in group.members
            assert client.instance_id in (None, group.members[client.member_id].instance_id)

    @rule(group_id=GROUPS, producer_id=PRODUCERS, partition=st.sampled_from(sorted(PARTITIONS)))
    def commit_in_transaction_without_a_member(self, group_id: str, producer_id: int, partition: int) -> None:
        assert self.stage(producer_id, group_id, partition)

    def stage(self, producer_id: int, group_id: str, partition: int, **member: Any) -> bool:
        self.next_offset += 1
        command = TxnOffsetCommit(
            group_id=group_id,
            transaction=InTransaction(producer_id, 0),
            offsets=(OffsetToCommit(topic="orders", partition=partition, offset=self.next_offset),),
            **member,
        )
        if self.host.ask(command).errors != (0,):
            return False
        self.staged.append(Staged(producer_id, group_id, partition, self.next_offset))
        return True

    @rule(producer_id=PRODUCERS, is_commit=st.booleans(), times=st.integers(1, 2))
    def end_transaction(self, producer_id: int, is_commit: bool, times: int) -> None:
        """35: a marker ends only its own producer's transaction; a repeated marker has no effect."""
        mine = [each for each in self.staged if each.producer_id == producer_id]
        self.staged = [each for each in self.staged if each.producer_id != producer_id]
        for _ in range(times):
            self.host.end(producer_id, is_commit=is_commit)
        if is_commit:
            for each in mine:
                key = each.group_id, each.partition
                # Offsets rise with their records here, so the newest record has the greatest offset.
                self.acked[key] = max(each.offset, self.acked.get(key, -1))

    @rule(group_id=GROUPS)
    def delete_group(self, group_id: str) -> None:
        if self.host.ask(DeleteGroups((group_id,))) == (0,):
            self.drop_acked(group_id)

    @rule(group_id=GROUPS)
    def delete_offsets(self, group_id: str) -> None:
        reply = self.host.ask(OffsetDelete(group_id=group_id, topics=(("orders", tuple(PARTITIONS)),)))
        if reply.errors == (0,):
            self.drop_acked(group_id)

    @rule()
    def delete_topic(self) -> None:
        self.host.ask(ForgetTopics((("orders", UUID(int=1)),)))
        self.acked.clear()
        self.staged.clear()

    def drop_acked(self, group_id: str) -> None:
        self.staged = [each for each in self.staged if each.group_id != group_id]
        for key in [key for key in self.acked if key[0] == group_id]:
            del self.acked[key]

    # -- time and faults -------------------------------------------------------------------

    @rule(delay_s=st.integers(0, 15))
    def wait(self, delay_s: int) -> None:
        self.pass_time(delay_s * 1000)

    @rule()
    def restart(self) -> None:
        self.host.restart()
        for client in self.known:
            client.join_ticket = client.sync_ticket = None

    def pass_time(self, delay_ms: int) -> None:
        self.host.advance(delay_ms)
        self.read_replies()
        for group_id, partition in list(self.acked):
            # Removed by the sweep; test_offsets.py checks the times.
            if partition not in self.host.shard.offsets.of(group_id).get("orders", {}):
                del self.acked[group_id, partition]
                # 35: never while a transaction is open.
                assert all((each.group_id, each.partition) != (group_id, partition) for each in self.staged)

    # -- invariants ------------------------------------------------------------------------

    @invariant()
    def committed_offsets_are_the_acknowledged_ones(self) -> None:
        """32, and live == replay, which the harness checks after every step."""
        found = {
            (group_id, partition): value.offset
            for group_id, topics in self.host.shard.offsets.by_group.items()
            for partition, value in topics.get("orders", {}).items()
        }
        assert found == self.acked

    @invariant()
    def offsets_are_unstable_while_a_transaction_holds_them(self) -> None:
        """35: and their groups exist as long."""
        for group_id in ("g", "h"):
            held = {("orders", each.partition) for each in self.staged if each.group_id == group_id}
            assert self.host.ask(OffsetFetch(group_id=group_id, require_stable=True)).unstable == held
            assert not held or group_id in self.host.shard.groups

    @invariant()
    def a_partition_has_one_owner_in_a_generation(self) -> None:
        """34: the group holds exactly the assignment that the leader sent."""
        for group in self.host.shard.groups.values():
            assert isinstance(group, ClassicGroup)
            if group.state is not State.STABLE:
                continue
            owned = [partition for member in group.members.values() for partition in member.assignment]
            assert len(owned) == len(set(owned))

    @invariant()
    def waiting_members_can_all_be_answered(self) -> None:
        for group in self.host.shard.groups.values():
            assert isinstance(group, ClassicGroup)
            for member in group.members.values():
                assert not member.awaits_join or group.state is State.PREPARING
                assert not member.sync_ticket or group.state is State.COMPLETING

    def teardown(self) -> None:
        """Check that every waiting request is answered in bounded time when no more requests arrive."""
        self.pass_time(60_000)
        assert not self.host.waiting
        self.pass_time(600_000)
        for group in self.host.shard.groups.values():
            assert group.state_name == "Empty"
        assert {each.group_id for each in self.staged} <= self.host.shard.groups.keys()
        for producer_id in {each.producer_id for each in self.staged}:
            self.end_transaction(producer_id, is_commit=True, times=1)
        self.pass_time(600_000)
        assert self.host.shard.groups == {}


TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(max_examples=15, stateful_step_count=50)


@pytest.mark.slow
class TestGroupMachineForLong(TestGroupMachine):  # type: ignore[misc, valid-type]
    settings = settings(max_examples=200, stateful_step_count=50)

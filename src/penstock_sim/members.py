"""Members of a classic group: join, sync, read assigned partitions, commit, and continue after a rebalance.

The group leader assigns the partitions round-robin. Assignments are JSON: the coordinator does not decode them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penstock.wire.api import ApiKey
from penstock_sim.client import Lost, Shared, Unavailable, seconds
from penstock_sim.consumers import PAUSE_S, Consumer
from penstock_sim.history import FAIL, OK, Assigned, Commit, FetchedOffset, PartitionId

MEMBER_ID_REQUIRED = 79
REBALANCE = 27
COORDINATOR_MOVED = frozenset({14, 15, 16})
UNKNOWN_MEMBER = 25
ILLEGAL_GENERATION = 22
COMMIT_UNKNOWN = frozenset({7, 15, 56})
"""Error codes of a commit that may nevertheless have been written."""


class GroupConsumer(Consumer):
    def __init__(
        self,
        shared: Shared,
        name: str,
        *,
        group: str,
        partitions: Sequence[tuple[str, int]],
        session_s: float,
        commit_s: float,
        dawdles: bool,
    ) -> None:
        super().__init__(shared, name, partitions=partitions, committed_only=True, wait_s=0.2)
        self.group = group
        self._all = list(partitions)
        self._session_s = session_s
        self._commit_s = commit_s
        self._dawdles = dawdles
        self._member_id = ""
        self._generation = -1
        self._mine: list[tuple[str, int]] = []
        self.settled = False

    async def run(self) -> None:
        while not self.stopping:
            self.settled = False
            try:
                if await self._join():
                    await self._fetch_offsets()
                    self.settled = True
                    await self._work()
            except (Lost, Unavailable):
                self.forget_coordinator(0, self.group)
            await self.backoff()

    # -- membership ------------------------------------------------------------------------

    async def _join(self) -> bool:
        address = await self.coordinator(0, self.group)
        fields: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout": seconds(self._session_s),
            "rebalance_timeout": seconds(10),
            "member_id": self._member_id,
            "protocol_type": "sim",
            "protocols": [{"name": "deal", "metadata": self.name.encode()}],
        }
        reply = await self.ask(address, ApiKey.JOIN_GROUP, 9, timeout_s=20, **fields)
        code = int(reply.error_code)
        if code == MEMBER_ID_REQUIRED:
            self._member_id = reply.member_id
            return False
        if code:
            self._refused(code)
            return False
        self._member_id, self._generation = reply.member_id, reply.generation_id
        members = sorted(each.member_id for each in reply.members)
        began = self.now
        deal: list[dict[str, object]] = []
        if reply.leader == self._member_id:
            for index, member in enumerate(members):
                part = self._all[index :: len(members)]
                deal.append({"member_id": member, "assignment": json.dumps({"all": members, "part": part}).encode()})
        reply = await self.ask(
            address,
            ApiKey.SYNC_GROUP,
            5,
            timeout_s=20,
            group_id=self.group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="sim",
            protocol_name="deal",
            assignments=deal,
        )
        code = int(reply.error_code)
        if code:
            self._refused(code)
            return False
        assignment = json.loads(bytes(reply.assignment) or b'{"all": [], "part": []}')
        self._mine = [(topic, index) for topic, index in assignment["part"]]
        await self._note_assignment(assignment["all"], began)
        return True

    async def _note_assignment(self, members: list[str], began: float) -> None:
        partitions = [(await self.leader_of(topic, index))[2] for topic, index in self._mine]
        self.history.assigned.append(
            Assigned(self.name, self.group, self._generation, tuple(members), tuple(partitions), began, self.now)
        )

    def _refused(self, code: int) -> None:
        if code in COORDINATOR_MOVED:
            self.forget_coordinator(0, self.group)
        elif code in (UNKNOWN_MEMBER, ILLEGAL_GENERATION):
            self._member_id = "" if code == UNKNOWN_MEMBER else self._member_id

    async def _heartbeat(self) -> bool:
        address = await self.coordinator(0, self.group)
        reply = await self.ask(
            address,
            ApiKey.HEARTBEAT,
            4,
            group_id=self.group,
            generation_id=self._generation,
            member_id=self._member_id,
        )
        code = int(reply.error_code)
        if code:
            self._refused(code)
        return code == 0 or code in COORDINATOR_MOVED

    # -- offsets ---------------------------------------------------------------------------

    async def _fetch_offsets(self) -> None:
        self.positions.clear()
        for partition_id, offset in (await fetch_offsets(self, self.group, self._mine)).items():
            self.positions[partition_id] = max(offset, 0)

    async def _commit(self) -> bool:
        """Commit the positions; return False if it is no longer a member."""
        address = await self.coordinator(0, self.group)
        partitions = [
            partition_id
            for partition_id in self.positions
            if (partition_id.topic, partition_id.partition_index) in self._mine
        ]
        if not partitions:
            return True
        commits = [
            Commit(self.name, self.group, self._generation, partition_id, self.positions[partition_id], self.now)
            for partition_id in partitions
        ]
        self.history.commits.extend(commits)
        topics: dict[str, list[dict[str, int]]] = {}
        for commit in commits:
            topics.setdefault(commit.partition.topic, []).append(
                {"partition_index": commit.partition.partition_index, "committed_offset": commit.offset}
            )
        reply = await self.ask(
            address,
            ApiKey.OFFSET_COMMIT,
            9,
            group_id=self.group,
            generation_id_or_member_epoch=self._generation,
            member_id=self._member_id,
            topics=[{"name": name, "partitions": parts} for name, parts in topics.items()],
        )
        codes = {
            (topic.name, part.partition_index): int(part.error_code)
            for topic in reply.topics
            for part in topic.partitions
        }
        for commit in commits:
            commit.code = codes[commit.partition.topic, commit.partition.partition_index]
            commit.ended = self.now
            if commit.code == 0:
                commit.outcome = OK
            elif commit.code not in COMMIT_UNKNOWN and commit.code not in COORDINATOR_MOVED:
                commit.outcome = FAIL
        code = next(iter(codes.values()))
        if code:
            self._refused(code)
        return code in (0, REBALANCE) or code in COORDINATOR_MOVED

    async def _work(self) -> None:
        """Read and commit until a rebalance."""
        commit_at = beat_at = self.now
        turn = 0
        while not self.stopping:
            if self.now >= beat_at:
                beat_at = self.now + self._session_s / 4
                if not await self._heartbeat():
                    return
            if self.now >= commit_at:
                commit_at = self.now + self._commit_s * (0.5 + self.random.random())
                if not await self._commit():
                    return
            if self._dawdles and self.random.random() < 0.02:
                # Longer than the session timeout; its next commit is that of a zombie.
                await self.sleep(self._session_s * 2)
                await self._commit()
            if not self._mine:
                await self.sleep(0.3)
                continue
            topic, partition = self._mine[turn % len(self._mine)]
            turn += 1
            partition_id = (await self.leader_of(topic, partition))[2]
            if partition_id not in self.positions:
                self.positions[partition_id] = 0
            try:
                await self.poll(topic, partition)
                await self.sleep(self.random.random() * PAUSE_S)
            except (Lost, Unavailable):
                self.forget(topic)
                await self.backoff()


async def fetch_offsets(client: Consumer, group: str, partitions: Sequence[tuple[str, int]]) -> dict[PartitionId, int]:
    """Return the committed offsets, -1 if there is none. Raises Lost or Unavailable."""
    address = await client.coordinator(0, group)
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    began = client.now
    reply = await client.ask(
        address,
        ApiKey.OFFSET_FETCH,
        9,
        groups=[
            {
                "group_id": group,
                "topics": [{"name": name, "partition_indexes": parts} for name, parts in topics.items()],
            }
        ],
        require_stable=True,
    )
    (found,) = reply.groups
    if int(found.error_code):
        if int(found.error_code) in COORDINATOR_MOVED:
            client.forget_coordinator(0, group)
        raise Unavailable(f"offsets: {found.error_code}")
    offsets: dict[PartitionId, int] = {}
    for topic in found.topics:
        for part in topic.partitions:
            if int(part.error_code):
                raise Unavailable(f"offsets: {part.error_code}")
            partition_id = (await client.leader_of(topic.name, part.partition_index))[2]
            offsets[partition_id] = part.committed_offset
            client.history.fetched_offsets.append(
                FetchedOffset(client.name, group, partition_id, part.committed_offset, began, client.now)
            )
    return offsets


async def read_offsets(client: Consumer, group: str, partitions: list[tuple[str, int]]) -> bool:
    """Fetch the offsets of a group; return False if that fails again and again."""
    for _ in range(100):
        try:
            await fetch_offsets(client, group, partitions)
            return True
        except (Lost, Unavailable):
            await client.backoff()
    return False

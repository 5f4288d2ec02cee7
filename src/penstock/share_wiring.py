"""Builds the group coordinator and the services of share groups, and connects them with each other."""

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.client.interfaces import Peers
from penstock.config.settings import BrokerSettings
from penstock.groups.consumer.assignors import Assignment
from penstock.groups.service import Groups
from penstock.groups.share.commands import InitializeShareState
from penstock.handlers.support.context import Context
from penstock.handlers.support.topic_creation import ensure_topic
from penstock.metadata.image import Image
from penstock.metadata.quorum import Quorum
from penstock.model.ids import NodeId
from penstock.model.topic import SHARE_GROUP_STATE
from penstock.ports.clock import Clock
from penstock.replication.replicas import Replicas
from penstock.scheduling.scheduler import Pace, Scheduler
from penstock.shares.commands import DeleteState, InitializeState
from penstock.shares.configured import kept_settings
from penstock.shares.end_offsets import EndOffsets
from penstock.shares.errors import FencedStateEpoch
from penstock.shares.leading import ShareLeader
from penstock.shares.letters import LetterWriter
from penstock.shares.service import ShareCoordinator
from penstock.shares.services import ShareServices
from penstock.shares.state_client import ShareStateClient
from penstock.shares.states import UNINITIALIZED, SharePartitionKey

FIRST_OFFSET: Final = 0


def build_groups(
    context: Callable[[], Context],
    current_settings: Callable[[], BrokerSettings],
    quorum: Quorum,
    replicas: Replicas,
    peers: Peers,
    clock: Clock,
    scheduler: Scheduler,
) -> tuple[Groups, ShareServices]:
    """Build the group coordinator and the services of share groups; `context` is used when they run."""

    node_id = NodeId(current_settings().integer("node.id"))

    def image() -> Image:
        return quorum.image

    coordinator = ShareCoordinator(node_id=node_id, replicas=replicas, clock=clock, current_settings=current_settings)
    state = ShareStateClient(
        node_id=node_id,
        image=image,
        peers=peers,
        clock=clock,
        here=coordinator,
        create_topic=lambda: ensure_topic(context(), SHARE_GROUP_STATE),
    )
    leader = ShareLeader(
        replicas=replicas,
        clock=clock,
        pace=Pace(scheduler, lambda: True),
        state=state,
        settings_of=kept_settings(current_settings, image),
        session_count_max=lambda: current_settings().integer("group.share.max.share.sessions"),
        letters=LetterWriter(node_id=node_id, image=image, peers=peers, replicas=replicas, clock=clock),
    )
    groups = Groups(
        node_id=node_id,
        replicas=replicas,
        clock=clock,
        current_settings=current_settings,
        initialize_share_state=lambda action: initialize_state(state, action),
        pace=Pace(scheduler, lambda: True),
    )
    end_offsets = EndOffsets(node_id=node_id, image=image, peers=peers, replicas=replicas)
    return groups, ShareServices(leader, coordinator, state, end_offsets)


async def initialize_state(state: ShareStateClient, action: InitializeShareState) -> Assignment:
    """Initialize the state of partitions for the group coordinator; return those that succeeded."""

    async def one(key: SharePartitionKey) -> bool:
        is_added = key.partition in action.added.get(key.topic_id, ())
        command = InitializeState(key, action.state_epoch, FIRST_OFFSET if is_added else UNINITIALIZED)
        reply = await state.ask(command)
        if reply.error == FencedStateEpoch.code:
            # State of a group with the same id that was deleted: this one has none yet.
            await state.ask(DeleteState(key))
            reply = await state.ask(command)
        return not reply.error

    keys = [
        SharePartitionKey(action.group_id, topic_id, index)
        for topic_id, partitions in sorted(action.partitions.items())
        for index in sorted(partitions)
    ]
    done = await asyncio.gather(*map(one, keys))
    succeeded: dict[object, set[int]] = {}
    for key, is_done in zip(keys, done, strict=True):
        if is_done:
            succeeded.setdefault(key.topic_id, set()).add(key.partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in succeeded.items()}  # type: ignore[misc]

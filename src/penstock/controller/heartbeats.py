"""Decisions on heartbeats: whether a broker is unfenced, stays fenced, or may stop.

Pure; the table of states is in docs/internals/controller.md. The state is in the image; the offsets that brokers have
reported are in `Sessions`. Calls brokers.py. Refuses: StaleBrokerEpoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from penstock.controller.brokers import (
    changing_read_only,
    check_broker_epoch,
    fencing,
    leads_any,
    leaving,
    removing_from_isrs,
    unfencing,
)
from penstock.controller.decision import ControllerDecision
from penstock.controller.directories import directories_offline
from penstock.controller.leaders import Rules
from penstock.controller.sessions import Sessions
from penstock.metadata.image import BrokerImage, Image
from penstock.metadata.records import MetadataRecord
from penstock.model.ids import NodeId
from penstock.model.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    node_id: NodeId
    broker_epoch: int
    metadata_offset: int
    """The metadata offset that the broker has applied."""
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: tuple[UUID, ...] = ()
    read_only: bool | None = None
    """Whether the broker cannot append to its logs; None from brokers that do not report it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool = False
    leaving: bool = False


def deciding_heartbeat(
    image: Image, heartbeat: Heartbeat, *, sessions: Sessions, rules: Rules
) -> Job[ControllerDecision[HeartbeatReply]]:
    broker = check_broker_epoch(image, heartbeat.node_id, heartbeat.broker_epoch)
    if heartbeat.read_only not in (None, broker.read_only) and not heartbeat.offline_log_dirs:
        # Before it is unfenced: a broker that may be read-only must not become a leader.
        records = yield from changing_read_only(image, broker, bool(heartbeat.read_only), rules)
        return _decision(records, broker, heartbeat, fenced=broker.fenced, leaving=broker.in_controlled_shutdown)
    if broker.fenced:
        decision = yield from _fenced(image, broker, heartbeat, rules)
    elif broker.in_controlled_shutdown:
        decision = yield from _leaving(image, broker, heartbeat, sessions, rules)
    else:
        decision = yield from _serving(image, broker, heartbeat, rules)
    if heartbeat.offline_log_dirs and not decision.records:
        # One change at a time: with the next heartbeat the image shows the effect of this one.
        return ControllerDecision(directories_offline(image, broker, heartbeat.offline_log_dirs, rules), decision.reply)
    return decision


def _caught_up(broker: BrokerImage, heartbeat: Heartbeat) -> bool:
    # The broker epoch is the offset of the registration.
    return heartbeat.metadata_offset >= broker.epoch


def _decision(
    records: Sequence[MetadataRecord],
    broker: BrokerImage,
    heartbeat: Heartbeat,
    *,
    fenced: bool,
    stop: bool = False,
    leaving: bool = False,
    is_atomic: bool = True,
) -> ControllerDecision[HeartbeatReply]:
    reply = HeartbeatReply(
        is_caught_up=_caught_up(broker, heartbeat), is_fenced=fenced, should_shut_down=stop, leaving=leaving
    )
    return ControllerDecision(records, reply, is_atomic)


def _fenced(
    image: Image, broker: BrokerImage, heartbeat: Heartbeat, rules: Rules
) -> Job[ControllerDecision[HeartbeatReply]]:
    if heartbeat.want_shut_down:
        return _decision((), broker, heartbeat, fenced=True, stop=True)
    # A broker in controlled shutdown is never unfenced with the same registration.
    if heartbeat.want_fence or broker.in_controlled_shutdown or not _caught_up(broker, heartbeat):
        return _decision((), broker, heartbeat, fenced=True)
    return _decision((yield from unfencing(image, broker, rules)), broker, heartbeat, fenced=False)


def _serving(
    image: Image, broker: BrokerImage, heartbeat: Heartbeat, rules: Rules
) -> Job[ControllerDecision[HeartbeatReply]]:
    if heartbeat.want_fence:
        records = yield from fencing(image, broker, rules)
        return _decision(records, broker, heartbeat, fenced=True, stop=heartbeat.want_shut_down, is_atomic=False)
    if not heartbeat.want_shut_down:
        return _decision((), broker, heartbeat, fenced=False)
    if leads_any(image, broker.node_id):
        records = yield from leaving(image, broker, rules)
        return _decision(records, broker, heartbeat, fenced=False, leaving=True, is_atomic=False)
    records = yield from fencing(image, broker, rules)
    return _decision(records, broker, heartbeat, fenced=True, stop=True, is_atomic=False)


def _leaving(
    image: Image, broker: BrokerImage, heartbeat: Heartbeat, sessions: Sessions, rules: Rules
) -> Job[ControllerDecision[HeartbeatReply]]:
    if leads_any(image, broker.node_id):
        # The controller before this one has moved only some of the leaderships.
        records = yield from removing_from_isrs(image, broker.node_id, rules)
        return _decision(records, broker, heartbeat, fenced=False, leaving=True, is_atomic=False)
    since = sessions.leaving_since(broker.node_id)
    seen = sessions.least_offset_seen(image)
    # A client that is redirected must find a broker whose metadata shows the new leader.
    all_know = since is not None and (seen is None or seen >= since)
    if not all_know:
        return _decision((), broker, heartbeat, fenced=False, leaving=True)
    records = yield from fencing(image, broker, rules)
    return _decision(records, broker, heartbeat, fenced=True, stop=True, is_atomic=False)

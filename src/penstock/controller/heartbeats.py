"""Decisions on heartbeats: whether a broker is unfenced, stays fenced, or may stop.

Pure; the table of states is in docs/internals/controller.md. The state is in the image; the offsets that brokers have
reported are in `Sessions`. Calls brokers.py. Refuses: StaleBrokerEpoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from penstock.controller.brokers import change_read_only, check_broker_epoch, fencing, leads_any, leaving, unfencing
from penstock.controller.decision import ControllerDecision
from penstock.controller.directories import directories_offline
from penstock.controller.leaders import Rules
from penstock.controller.sessions import Sessions
from penstock.metadata.image import BrokerImage, Image
from penstock.metadata.records import MetadataRecord
from penstock.model.ids import NodeId


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


def decide_heartbeat(
    image: Image, heartbeat: Heartbeat, *, sessions: Sessions, rules: Rules
) -> ControllerDecision[HeartbeatReply]:
    broker = check_broker_epoch(image, heartbeat.node_id, heartbeat.broker_epoch)
    if heartbeat.read_only not in (None, broker.read_only) and not heartbeat.offline_log_dirs:
        # Before it is unfenced: a broker that may be read-only must not become a leader.
        records = change_read_only(image, broker, bool(heartbeat.read_only), rules)
        return _decision(records, broker, heartbeat, fenced=broker.fenced, leaving=broker.in_controlled_shutdown)
    if broker.fenced:
        decision = _fenced(image, broker, heartbeat, rules)
    elif broker.in_controlled_shutdown:
        decision = _leaving(image, broker, heartbeat, sessions, rules)
    else:
        decision = _serving(image, broker, heartbeat, rules)
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
) -> ControllerDecision[HeartbeatReply]:
    reply = HeartbeatReply(
        is_caught_up=_caught_up(broker, heartbeat), is_fenced=fenced, should_shut_down=stop, leaving=leaving
    )
    return ControllerDecision(records, reply)


def _fenced(
    image: Image, broker: BrokerImage, heartbeat: Heartbeat, rules: Rules
) -> ControllerDecision[HeartbeatReply]:
    if heartbeat.want_shut_down:
        return _decision((), broker, heartbeat, fenced=True, stop=True)
    # A broker in controlled shutdown is never unfenced with the same registration.
    if heartbeat.want_fence or broker.in_controlled_shutdown or not _caught_up(broker, heartbeat):
        return _decision((), broker, heartbeat, fenced=True)
    return _decision(unfencing(image, broker, rules), broker, heartbeat, fenced=False)


def _serving(
    image: Image, broker: BrokerImage, heartbeat: Heartbeat, rules: Rules
) -> ControllerDecision[HeartbeatReply]:
    if heartbeat.want_fence:
        stop = heartbeat.want_shut_down
        return _decision(fencing(image, broker, rules), broker, heartbeat, fenced=True, stop=stop)
    if not heartbeat.want_shut_down:
        return _decision((), broker, heartbeat, fenced=False)
    if leads_any(image, broker.node_id):
        return _decision(leaving(image, broker, rules), broker, heartbeat, fenced=False, leaving=True)
    return _decision(fencing(image, broker, rules), broker, heartbeat, fenced=True, stop=True)


def _leaving(
    image: Image, broker: BrokerImage, heartbeat: Heartbeat, sessions: Sessions, rules: Rules
) -> ControllerDecision[HeartbeatReply]:
    since = sessions.leaving_since(broker.node_id)
    seen = sessions.least_offset_seen(image)
    # A client that is redirected must find a broker whose metadata shows the new leader.
    all_know = since is not None and (seen is None or seen >= since)
    if not all_know or leads_any(image, broker.node_id):
        return _decision((), broker, heartbeat, fenced=False, leaving=True)
    return _decision(fencing(image, broker, rules), broker, heartbeat, fenced=True, stop=True)

"""The options of groups and of client metrics subscriptions.

Owns the declarations and the checks of a group's values against the broker's limits: for
`consumer.x` these are `group.consumer.min.x` and `group.consumer.max.x`. Raises InvalidConfig.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Final

from penstock.config.broker import BROKER
from penstock.config.option import MINUTE_MS, Option, Value, declare, invalid
from penstock.model.errors import InvalidConfig

_DURATION: Final = re.compile(r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?")


def check_share_offset_reset(name: str, value: Value) -> None:
    """Reject anything except `earliest`, `latest`, or `by_duration:` with an ISO 8601 duration."""
    if value not in ("earliest", "latest") and not _DURATION.fullmatch(str(value)):
        raise invalid(
            name, value, f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', "
            "'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )  # fmt: skip


def _of_broker(name: str) -> Option:
    """Return the group option that takes its default from the broker option `group.<name>`."""
    broker = BROKER[f"group.{name}"]
    # The broker option's upper bound does not apply to groups: the broker's max option limits them.
    return declare(
        broker.kind, name, broker.default, broker.doc, fallbacks=(broker.name,), least=broker.least,
        scope="cluster-wide", at_broker=False,
    )  # fmt: skip


_only_here = partial(declare, scope="cluster-wide", at_broker=False)

GROUP: Final[Mapping[str, Option]] = {
    option.name: option
    for option in (
        _of_broker("consumer.session.timeout.ms"),
        _of_broker("consumer.heartbeat.interval.ms"),
        _of_broker("consumer.assignment.interval.ms"),
        _of_broker("share.session.timeout.ms"),
        _of_broker("share.heartbeat.interval.ms"),
        _of_broker("share.assignment.interval.ms"),
        _of_broker("share.delivery.count.limit"),
        _of_broker("share.record.lock.duration.ms"),
        _of_broker("share.partition.max.record.locks"),
        _only_here("string", "share.auto.offset.reset", "latest", check=check_share_offset_reset,
                   doc="Where a share group starts reading: `earliest`, `latest`, or `by_duration:` and an ISO 8601 "
                       "duration before the present."),
        _only_here("string", "share.isolation.level", "read_uncommitted",
                   choices=("read_committed", "read_uncommitted"),
                   doc="Whether a share group reads records of open and aborted transactions."),
        _only_here("boolean", "share.renew.acknowledge.enable", True,
                   doc="Allow members to renew the lock of a record (KIP-1222)."),
        _only_here("int", "penstock.share.retry.delay.ms", 0, least=0,
                   doc="How long a record that a member of a share group has released is held back before it is "
                       "delivered again; 0 for no delay."),
        _only_here("double", "penstock.share.retry.delay.factor", 2.0, least=1.0,
                   doc="The factor by which that delay grows with each delivery of the record."),
        _only_here("int", "penstock.share.retry.delay.max.ms", 15 * MINUTE_MS, least=0,
                   doc="The maximum of that delay."),
        _only_here("boolean", "penstock.share.window.unfinished", False,
                   doc="Count only unfinished records towards share.partition.max.record.locks, so that one record "
                       "that is stuck does not stop its partition; the window may then span 50 times as many offsets."),
        _only_here("string", "errors.deadletterqueue.topic.name", "",
                   doc="The topic for dead-letter records of a share group (KIP-1191); empty for none. Its name must "
                       "begin with errors.deadletterqueue.topic.name.prefix, or it has no effect."),
        _only_here("boolean", "errors.deadletterqueue.copy.record.enable", False,
                   doc="Whether dead-letter records contain key, value and headers of the record; otherwise they only "
                       "point to it."),
        _of_broker("streams.session.timeout.ms"),
        _of_broker("streams.heartbeat.interval.ms"),
        _of_broker("streams.assignment.interval.ms"),
        _of_broker("streams.initial.rebalance.delay.ms"),
        _of_broker("streams.num.standby.replicas"),
    )
}  # fmt: skip


def check_group(values: Mapping[str, Value], broker: Mapping[str, Value]) -> None:
    """Check a group's values against the broker's limits and each other."""
    for name, value in values.items():
        kind, _, rest = name.partition(".")
        _check_bound(name, value, broker, f"group.{kind}.min.{rest}", least=True)
        # The limit of `streams.num.standby.replicas` has no `num` in its name.
        _check_bound(name, value, broker, f"group.{kind}.max.{rest.removeprefix('num.')}", least=False)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        session_ms, heartbeat_ms = values[session], values[heartbeat]
        assert isinstance(session_ms, int) and isinstance(heartbeat_ms, int), "both have defaults"
        if session_ms <= heartbeat_ms:
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")


def _check_bound(name: str, value: Value, broker: Mapping[str, Value], bound: str, *, least: bool) -> None:
    limit = broker.get(bound)
    if not isinstance(value, int) or not isinstance(limit, int):
        return
    if value < limit if least else value > limit:
        raise InvalidConfig(f"{name} must be {'greater' if least else 'less'} than or equal to {bound}")


_MATCHES: Final = frozenset({
    "client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address",
    "client_source_port",
})  # fmt: skip


def check_match(name: str, value: Value) -> None:
    """Reject anything except a list of `label=pattern`."""
    for entry in value if isinstance(value, tuple) else ():
        label, equals, pattern = entry.partition("=")
        try:
            re.compile(pattern)
        except re.error:
            equals = ""
        if not equals or label.strip() not in _MATCHES:
            raise InvalidConfig(f"Illegal client matching pattern: {entry}")


CLIENT_METRICS: Final[Mapping[str, Option]] = {
    option.name: option
    for option in (
        _only_here("int", "interval.ms", 5 * MINUTE_MS, "How often matching clients push their metrics."),
        _only_here("list", "match", (), check=check_match,
                   doc="The clients to match: a list of `label=pattern`, all of which must match."),
        _only_here("list", "metrics", (), "The prefixes of the requested metrics; `*` requests all."),
    )
}  # fmt: skip

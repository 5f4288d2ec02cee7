"""Group settings from the broker's configuration and the group's own (KIP-848). Pure."""

from collections.abc import Mapping

from penstock.config.group import GROUP
from penstock.config.option import parse
from penstock.config.settings import BrokerSettings
from penstock.groups.consumer.commands import ConsumerSettings, MigrationPolicy
from penstock.groups.settings import MINUTE_MS, GroupSettings
from penstock.model.errors import InvalidConfig


def group_settings(broker: BrokerSettings) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=broker.integer("group.initial.rebalance.delay.ms"),
        session_timeout_ms_min=broker.integer("group.min.session.timeout.ms"),
        session_timeout_ms_max=broker.integer("group.max.session.timeout.ms"),
        size_max=broker.integer("group.max.size"),
        metadata_size_max=broker.integer("message.max.bytes"),
        offset_metadata_size_max=broker.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=broker.integer("offsets.retention.minutes") * MINUTE_MS,
        offsets_retention_check_interval_ms=broker.integer("offsets.retention.check.interval.ms"),
    )


def consumer_settings(broker: BrokerSettings, own: Mapping[str, str]) -> ConsumerSettings:
    """Return the settings of one group: its own where set, the broker's otherwise."""
    return ConsumerSettings(
        assignors=broker.words("group.consumer.assignors"),
        session_timeout_ms=_bounded(broker, own, "consumer.session.timeout.ms"),
        heartbeat_interval_ms=_bounded(broker, own, "consumer.heartbeat.interval.ms"),
        assignment_interval_ms=_bounded(broker, own, "consumer.assignment.interval.ms"),
        size_max=broker.integer("group.consumer.max.size"),
        regex_refresh_interval_ms=broker.integer("group.consumer.regex.refresh.interval.ms"),
        migration_policy=MigrationPolicy(broker.text("group.consumer.migration.policy").lower()),
        classic_size_max=broker.integer("group.max.size"),
    )


def _bounded(broker: BrokerSettings, own: Mapping[str, str], name: str) -> int:
    value = broker.integer(f"group.{name}")
    text = own.get(name)
    if text is None:
        return value
    try:
        given = parse(GROUP[name], text, name=name)
    except InvalidConfig:
        # A node of another release may have accepted this value.
        return value
    assert isinstance(given, int)
    # The bounds may have changed since the value was set.
    kind, _, rest = name.partition(".")
    least, most = broker.integer(f"group.{kind}.min.{rest}"), broker.integer(f"group.{kind}.max.{rest}")
    return max(least, min(most, given))

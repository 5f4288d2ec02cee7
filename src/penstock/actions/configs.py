"""Configuration of topics, of single brokers, and of all brokers together."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from penstock.actions.connection import Connection
from penstock.actions.librdkafka import open_admin, wait


class ResourceType(Enum):
    TOPIC = auto()
    BROKER = auto()
    CLUSTER = auto()


class Resource(NamedTuple):
    """What a configuration belongs to. A cluster has no name."""

    type: ResourceType
    name: str = ""


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool
    default: str | None = None
    """The value without what is set on the resource itself; None if it is not known."""


def describe_config(connection: Connection, resource: Resource) -> dict[str, ConfigEntry]:
    """Return the options of a resource by name."""
    if resource.type is ResourceType.CLUSTER:
        from penstock.actions.cluster.config import describe_cluster_config

        return {
            entry.name: ConfigEntry(
                entry.name, entry.value, _source(entry.config_source), entry.read_only, entry.is_sensitive
            )
            for entry in describe_cluster_config(connection)
        }
    kafka_resource = _kafka_resource(resource)
    admin = open_admin(connection)
    return {
        entry.name: ConfigEntry(
            entry.name,
            entry.value,
            _source(entry.source),
            bool(entry.is_read_only),
            bool(entry.is_sensitive),
            _default(entry),
        )
        for entry in wait(admin.describe_configs([kafka_resource])[kafka_resource], about=resource.name).values()
    }


def alter_config(connection: Connection, resource: Resource, values: Mapping[str, str | None]) -> None:
    """Set options; None restores the default."""
    if resource.type is ResourceType.CLUSTER:
        from penstock.actions.cluster.config import alter_cluster_config

        alter_cluster_config(connection, values)
        return
    from confluent_kafka.admin import AlterConfigOpType
    from confluent_kafka.admin import ConfigEntry as KafkaConfigEntry

    kafka_resource = _kafka_resource(resource)
    for name, value in values.items():
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        kafka_resource.add_incremental_config(KafkaConfigEntry(name, value, incremental_operation=operation))
    admin = open_admin(connection)
    wait(admin.incremental_alter_configs([kafka_resource])[kafka_resource], about=resource.name)


def _kafka_resource(resource: Resource) -> Any:
    from confluent_kafka.admin import ConfigResource

    kind = ConfigResource.Type.TOPIC if resource.type is ResourceType.TOPIC else ConfigResource.Type.BROKER
    return ConfigResource(kind, resource.name)


def _default(entry: Any) -> str | None:
    others = [each.value for each in (entry.synonyms or {}).values() if each.source != entry.source]
    return others[0] if others else None


def _source(number: Any) -> str:
    from confluent_kafka.admin import ConfigSource

    try:
        return ConfigSource(int(number)).name.removesuffix("_CONFIG").replace("_", " ").lower()
    except ValueError:
        return str(number)

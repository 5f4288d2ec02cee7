"""Settings of topics, of single brokers and of all brokers."""

from typing import Any

from penstock.actions.configs import ConfigEntry, Resource, ResourceType, describe_config
from penstock_console.endpoints import Call, Endpoint
from penstock_console.lookup import find_topic
from penstock_console.parameters import integer

OWN_SOURCES = {
    ResourceType.TOPIC: "dynamic topic",
    ResourceType.BROKER: "dynamic broker",
    ResourceType.CLUSTER: "dynamic default broker",
}


def topic_settings(call: Call) -> dict[str, Any]:
    find_topic(call.access, call["topic"])
    return settings_of(call, Resource(ResourceType.TOPIC, call["topic"]))


def node_settings(call: Call) -> dict[str, Any]:
    node = integer("node", call["node"], most=2**31 - 1)
    return settings_of(call, Resource(ResourceType.BROKER, str(node)))


def cluster_settings(call: Call) -> dict[str, Any]:
    return settings_of(call, Resource(ResourceType.CLUSTER))


def settings_of(call: Call, resource: Resource) -> dict[str, Any]:
    entries = describe_config(call.access.connection, resource)
    return {
        "resource": {"type": resource.type.name.lower(), "name": resource.name or None},
        "settings": [_row(entry, resource.type) for _, entry in sorted(entries.items())],
    }


def _row(entry: ConfigEntry, kind: ResourceType) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": None if entry.is_sensitive else entry.value,
        "default": entry.default if not entry.is_sensitive else None,
        "source": entry.source,
        "is_set": entry.source == OWN_SOURCES[kind],
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
    }


ENDPOINTS = (
    Endpoint(path="topics/{topic}/settings", doc="The settings of a topic.", read=topic_settings),
    Endpoint(path="nodes/{node}/settings", doc="The settings of a broker.", read=node_settings),
    Endpoint(path="settings", doc="The settings of all brokers together.", read=cluster_settings),
)

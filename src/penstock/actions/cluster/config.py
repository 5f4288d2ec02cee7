"""The configuration of all brokers together.

Kafka addresses it as the broker with the empty name, which librdkafka rejects.
"""

from collections.abc import Mapping
from typing import Any, Final

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.static.primitive import i8

from penstock.actions.cluster_client import open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.wire.api import ApiKey

BROKER: Final = i8(4)
SET: Final = i8(0)
DELETE: Final = i8(1)
ALL_BROKERS: Final = ""


def describe_cluster_config(connection: Connection) -> list[Any]:
    """Return the options that are set for all brokers, as in the response."""
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name=ALL_BROKERS, configuration_keys=None)
    with open_cluster(connection) as cluster:
        answer = cluster.send_any(ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=(resource,)))
    _raise_for_result(answer.results[0])
    return list(answer.results[0].configs)


def alter_cluster_config(connection: Connection, values: Mapping[str, str | None]) -> None:
    """Set options for all brokers; None restores the default."""
    configs = tuple(
        AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        for name, value in values.items()
    )
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=ALL_BROKERS, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    with open_cluster(connection) as cluster:
        answer = cluster.send_any(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    _raise_for_result(answer.responses[0])


def _raise_for_result(result: Any) -> None:
    if not result.error_code.value:
        return
    said = (result.error_message or result.error_code.name).rstrip(".")
    if "Cannot update these configs dynamically" in said:
        said += ". Set it in the configuration file of each node, and restart the node"
    raise ActionError(f"all brokers: {said}" + ("" if said.endswith("?") else "."))

"""The rights that APIs about settings require: on the topic or group that a resource names, otherwise on the cluster.

Refuses: TopicAuthorizationFailed, GroupAuthorizationFailed, ClusterAuthorizationFailed.
"""

from collections.abc import Sequence

from penstock.controller.settings import ResourceChanges, Result
from penstock.handlers.support.context import Request
from penstock.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from penstock.model.acl import Operation
from penstock.model.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    Refusal,
    TopicAuthorizationFailed,
)


def check_config_right(request: Request, operation: int, resource_type: int, name: str) -> None:
    """Raise if the client may not see or change the settings of a resource. Unknown types are for the handler."""
    if request.rights is None:
        return
    if resource_type == TOPIC:
        if not request.may_on_topic(operation, name):
            raise TopicAuthorizationFailed
    elif resource_type == GROUP:
        if not request.may_on_group(operation, name):
            raise GroupAuthorizationFailed
    elif resource_type in (BROKER, BROKER_LOGGER, CLIENT_METRICS) and not request.may_on_cluster(operation):
        raise ClusterAuthorizationFailed


def permitted(request: Request, requested: Sequence[ResourceChanges]) -> tuple[list[ResourceChanges], list[Result]]:
    """Return the changes that the client may make, and the results of the others."""
    allowed: list[ResourceChanges] = []
    denied: list[Result] = []
    for changes in requested:
        resource = changes.resource
        try:
            check_config_right(request, Operation.ALTER_CONFIGS, resource.type, resource.name)
        except Refusal as refusal:
            denied.append(Result(resource, refusal.code, refusal.message))
        else:
            allowed.append(changes)
    return allowed, denied

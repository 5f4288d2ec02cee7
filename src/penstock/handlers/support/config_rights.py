"""The rights that APIs about settings require: on the topic or group that a resource names, otherwise on the cluster.

Only super users change the TLS settings of a broker: a user with ALTER_CONFIGS could trust a certificate authority of
its own, and act as a node. Refuses: TopicAuthorizationFailed, GroupAuthorizationFailed, ClusterAuthorizationFailed.
"""

from collections.abc import Iterable, Sequence

from penstock.config.settings import base_name
from penstock.controller.settings import ResourceChanges, Result
from penstock.handlers.support.context import Request
from penstock.metadata.image import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, Image
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


def permitted(
    request: Request, requested: Sequence[ResourceChanges], *, replaced: Image | None = None
) -> tuple[list[ResourceChanges], list[Result]]:
    """Return the changes that the client may make, and the results of the others.

    `replaced` has the settings that a request removes if it does not name them.
    """
    allowed: list[ResourceChanges] = []
    denied: list[Result] = []
    for changes in requested:
        resource = changes.resource
        try:
            check_config_right(request, Operation.ALTER_CONFIGS, resource.type, resource.name)
            if resource.type == BROKER:
                removed = () if replaced is None else replaced.config(resource)
                _check_tls(request, (*(change.name for change in changes.changes), *removed))
        except Refusal as refusal:
            denied.append(Result(resource, refusal.code, refusal.message))
        else:
            allowed.append(changes)
    return allowed, denied


def _check_tls(request: Request, names: Iterable[str]) -> None:
    rights = request.rights
    if rights is None or rights.is_super_user:
        return
    protected = sorted(name for name in names if base_name(name).startswith("ssl."))
    if protected:
        raise ClusterAuthorizationFailed(f"Only super users may change {', '.join(protected)}")

"""ACLs of a cluster: create, list and remove them, and read what else decides on requests."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.static.primitive import i8

from penstock.actions.acl_check import Question, Rules, Verdict, check
from penstock.actions.cluster_client import ClusterClient, open_cluster
from penstock.actions.connection import Connection
from penstock.actions.errors import ActionError
from penstock.model.acl import Acl
from penstock.security.acl_filter import AclFilter
from penstock.security.principal import parse_principals
from penstock.wire.api import ApiKey

_BROKER: Final = i8(4)
_SUPER_USERS: Final = "super.users"
_IF_NO_ACL: Final = "allow.everyone.if.no.acl.found"


class Checked(NamedTuple):
    verdict: Verdict
    knows_settings: bool
    """Whether the settings of the brokers could be read; otherwise super users are unknown."""


def list_acls(connection: Connection, wanted: AclFilter) -> list[Acl]:
    with open_cluster(connection) as cluster:
        return _describe(cluster, wanted)


def create_acls(connection: Connection, acls: Iterable[Acl]) -> None:
    """Create ACLs in one request. Creating an ACL that exists does nothing."""
    creations = tuple(
        AclCreation(
            resource_type=i8(acl.resource_type),
            resource_name=acl.resource_name,
            resource_pattern_type=i8(acl.pattern_type),
            principal=acl.principal,
            host=acl.host,
            operation=i8(acl.operation),
            permission_type=i8(acl.permission),
        )
        for acl in acls
    )
    with open_cluster(connection) as cluster:
        answer = cluster.send_any(ApiKey.CREATE_ACLS, CreateAclsRequest(creations=creations))
    for result in answer.results:
        _raise_for_error(result, "Cannot create ACLs")


def remove_acls(connection: Connection, acls: Sequence[Acl]) -> list[Acl]:
    """Remove exactly these ACLs in one request; return those that were removed."""
    filters = tuple(
        DeleteAclsFilter(
            resource_type_filter=i8(acl.resource_type),
            resource_name_filter=acl.resource_name,
            pattern_type_filter=i8(acl.pattern_type),
            principal_filter=acl.principal,
            host_filter=acl.host,
            operation=i8(acl.operation),
            permission_type=i8(acl.permission),
        )
        for acl in acls
    )
    with open_cluster(connection) as cluster:
        answer = cluster.send_any(ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=filters))
    removed = []
    for acl, result in zip(acls, answer.filter_results, strict=True):
        _raise_for_error(result, "Cannot remove ACLs")
        for match in result.matching_acls:
            _raise_for_error(match, "Cannot remove an ACL")
        removed += [acl] if result.matching_acls else []
    return removed


def check_access(connection: Connection, question: Question) -> Checked:
    """Decide as the brokers do, with their ACLs and settings."""
    with open_cluster(connection) as cluster:
        acls = _describe(cluster, AclFilter(resource_type=question.resource.type))
        settings = _authorizer_settings(cluster)
    rules = Rules(acls)
    if settings is not None:
        super_users = {str(user) for user in parse_principals(settings.get(_SUPER_USERS) or "")}
        rules = Rules(acls, super_users, (settings.get(_IF_NO_ACL) or "").lower() == "true")
    return Checked(check(rules, question), settings is not None)


def _describe(cluster: ClusterClient, wanted: AclFilter) -> list[Acl]:
    request = DescribeAclsRequest(
        resource_type_filter=i8(wanted.resource_type),
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=i8(wanted.pattern_type),
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=i8(wanted.operation),
        permission_type=i8(wanted.permission),
    )
    answer = cluster.send_any(ApiKey.DESCRIBE_ACLS, request)
    _raise_for_error(answer, "Cannot list ACLs")
    return sorted(
        Acl(
            int(resource.resource_type),
            resource.resource_name,
            int(resource.pattern_type),
            acl.principal,
            acl.host,
            int(acl.operation),
            int(acl.permission_type),
        )
        for resource in answer.resources
        for acl in resource.acls
    )


def _authorizer_settings(cluster: ClusterClient) -> dict[str, str | None] | None:
    """Return the settings of a broker that decide besides ACLs; None if this user may not read them."""
    node_id = cluster.brokers[0]
    resource = DescribeConfigsResource(
        resource_type=_BROKER, resource_name=str(node_id), configuration_keys=(_SUPER_USERS, _IF_NO_ACL)
    )
    answer = cluster.send(node_id, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=(resource,)))
    result = answer.results[0]
    return None if result.error_code.value else {config.name: config.value for config in result.configs}


def _raise_for_error(result: Any, what: str) -> None:
    error = result.error_code
    if error.value:
        reason = (result.error_message or error.name.replace("_", " ")).rstrip(".")
        raise ActionError(f"{what}: {reason}.", code=error.name.upper())

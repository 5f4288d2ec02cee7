"""Decisions on ACLs.

The changes of a request are one commit. Each new ACL and each filter succeeds or fails separately, but more than
10,000 changes are refused as a whole. Commits nothing. Refuses: PolicyViolation, and as results InvalidRequest.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from penstock.controller.decision import ControllerDecision
from penstock.metadata.image import Image
from penstock.metadata.records import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from penstock.model.acl import Acl
from penstock.model.errors import InvalidRequest, PolicyViolation, Refusal
from penstock.security.acl_filter import AclFilter, check_new

CHANGES_MAX: Final = 10_000
COMPARISONS_MAX: Final = 1_000_000
"""How many comparisons of a filter with an ACL one request may need: a few hundred milliseconds."""


class DeletedAcls(NamedTuple):
    """The result of one filter."""

    acls: tuple[Acl, ...] = ()
    refusal: Refusal | None = None


def decide_create_acls(
    image: Image, acls: Sequence[Acl], new_id: Callable[[], UUID]
) -> ControllerDecision[tuple[Refusal | None, ...]]:
    """Create ACLs; one that exists already succeeds without a record."""
    if len(acls) > CHANGES_MAX:
        raise PolicyViolation("Unable to perform excessively large batch operation.")
    existing = set(image.acls.values())
    records: list[MetadataRecord] = []
    results: list[Refusal | None] = []
    for acl in acls:
        try:
            check_new(acl)
        except Refusal as refusal:
            results.append(refusal)
            continue
        if acl not in existing:
            existing.add(acl)
            records.append(_record(new_id(), acl))
        results.append(None)
    return ControllerDecision(records, tuple(results))


def decide_delete_acls(image: Image, filters: Sequence[AclFilter]) -> ControllerDecision[tuple[DeletedAcls, ...]]:
    """Delete the ACLs that match the filters; one that matches several is in the result of each."""
    ids: dict[Acl, list[UUID]] = {}
    for acl_id, acl in image.acls.items():
        ids.setdefault(acl, []).append(acl_id)
    _check_cost(filters, len(ids))
    removed: dict[Acl, None] = {}
    results: list[DeletedAcls] = []
    for each in filters:
        try:
            each.check()
        except Refusal as refusal:
            results.append(DeletedAcls(refusal=refusal))
            continue
        only = each.only
        candidates = ids if only is None else [only] if only in ids else []
        found = tuple(acl for acl in candidates if each.matches(acl))
        removed.update(dict.fromkeys(found))
        results.append(DeletedAcls(found))
    if len(removed) > CHANGES_MAX:
        raise PolicyViolation(f"Cannot remove more than {CHANGES_MAX} acls in a single delete operation.")
    records = [RemoveAccessControlEntryRecord(id=acl_id) for acl in removed for acl_id in ids[acl]]
    return ControllerDecision(records, tuple(results))


def _check_cost(filters: Sequence[AclFilter], acl_count: int) -> None:
    searching = sum(each.only is None for each in filters)
    if len(filters) > CHANGES_MAX or searching * acl_count > COMPARISONS_MAX:
        raise InvalidRequest(
            f"{searching} filters that may match many ACLs are too many for {acl_count} ACLs: send fewer of them in "
            "each request"
        )


def _record(acl_id: UUID, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )

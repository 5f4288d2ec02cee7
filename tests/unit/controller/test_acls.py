"""Decisions on ACLs, their records and their snapshots."""

from collections.abc import Sequence
from itertools import count
from uuid import UUID

import pytest

from penstock.controller.acls import CHANGES_MAX, decide_create_acls, decide_delete_acls
from penstock.metadata.delta import apply
from penstock.metadata.difference import difference
from penstock.metadata.image import EMPTY, Image
from penstock.metadata.records import RemoveAccessControlEntryRecord, decode, encode
from penstock.metadata.snapshot import records_of
from penstock.model.acl import Acl
from penstock.model.errors import Corruption, InvalidRequest, PolicyViolation
from penstock.model.ids import LeaderEpoch, Offset
from penstock.security.acl_filter import AclFilter
from tests.unit.security.test_authorizer import acl

_ids = count(1)


def after(image: Image, records: Sequence[object]) -> Image:
    written = [decode(encode(record)) for record in records]  # type: ignore[arg-type]
    return apply(image, written, offset=Offset(image.offset + 1), epoch=LeaderEpoch(1))[1]


def create(image: Image, *acls: Acl) -> tuple[list[int], Image]:
    decision = decide_create_acls(image, acls, lambda: UUID(int=next(_ids)))
    return [0 if refusal is None else refusal.code for refusal in decision.reply], after(image, decision.records)


def delete(image: Image, *filters: AclFilter) -> tuple[list[set[Acl]], Image]:
    decision = decide_delete_acls(image, filters)
    return [set(result.acls) for result in decision.reply], after(image, decision.records)


def test_acls_are_created_and_deleted() -> None:
    codes, image = create(EMPTY, acl(), acl(denies=True))
    assert codes == [0, 0] and set(image.acls.values()) == {acl(), acl(denies=True)}
    found, image = delete(image, AclFilter(permission=3), AclFilter(principal="User:eve"))
    assert found == [{acl()}, set()] and list(image.acls.values()) == [acl(denies=True)]


def test_an_acl_that_exists_is_created_without_a_record() -> None:
    _, image = create(EMPTY, acl())
    assert not decide_create_acls(image, [acl()], lambda: UUID(int=9)).records
    codes, image = create(image, acl(name="b"), acl(name="b"))
    assert codes == [0, 0] and len(image.acls) == 2


def test_an_invalid_acl_or_filter_does_not_affect_the_others() -> None:
    codes, image = create(EMPTY, acl(name=""), acl())
    assert codes == [42, 0] and list(image.acls.values()) == [acl()]
    decision = decide_delete_acls(image, [AclFilter(operation=99), AclFilter()])
    assert [None if each.refusal is None else each.refusal.code for each in decision.reply] == [42, None]
    assert len(decision.records) == 1


def test_an_acl_that_matches_two_filters_is_removed_once_and_is_in_both_results() -> None:
    _, image = create(EMPTY, acl())
    found, image = delete(image, AclFilter(), AclFilter(*acl()))
    assert found == [{acl()}, {acl()}] and not image.acls


def test_too_many_changes_are_refused_as_a_whole() -> None:
    many = [acl(name=str(number)) for number in range(CHANGES_MAX + 1)]
    with pytest.raises(PolicyViolation):
        decide_create_acls(EMPTY, many, lambda: UUID(int=next(_ids)))
    _, image = create(EMPTY, *many[:CHANGES_MAX])
    _, image = create(image, many[-1])
    with pytest.raises(PolicyViolation):
        decide_delete_acls(image, [AclFilter()])
    with pytest.raises(InvalidRequest, match="send fewer"):
        decide_delete_acls(image, [AclFilter(resource_name=str(number)) for number in range(200)])
    # Filters that can match only one ACL each need no search.
    found, image = delete(image, *(AclFilter(*each) for each in many[:CHANGES_MAX]))
    assert all(found) and list(image.acls.values()) == [many[-1]]


def test_a_snapshot_contains_the_acls() -> None:
    _, image = create(EMPTY, acl(), acl(name="ord", prefixed=True), acl(denies=True))
    loaded = after(EMPTY, list(records_of(image)))
    assert loaded.acls == image.acls
    assert difference(EMPTY, loaded).acls_changed == frozenset(image.acls)


def test_removing_an_acl_that_does_not_exist_is_corruption() -> None:
    with pytest.raises(Corruption):
        after(EMPTY, [RemoveAccessControlEntryRecord(id=UUID(int=1))])

"""Error codes for older clients."""

import pytest

from penstock.transactions.client_codes import (
    INIT_PRODUCER_ID_KNOWS_FENCED,
    Write,
    for_client,
    for_produce,
    for_writer,
    of_produce,
    of_txn_offset_commit,
)

FENCED, OLD_EPOCH, CONCURRENT, ABORTABLE, TXN_STATE, NOT_ENOUGH = 90, 47, 51, 120, 48, 19


@pytest.mark.parametrize(("version", "code"), [(0, OLD_EPOCH), (3, OLD_EPOCH), (4, FENCED), (5, FENCED)])
def test_init_producer_id_knows_fenced_from_version_4_on(version: int, code: int) -> None:
    assert for_client(FENCED, version=version, knows_fenced_from=INIT_PRODUCER_ID_KNOWS_FENCED) == code


@pytest.mark.parametrize(("version", "code"), [(0, OLD_EPOCH), (1, OLD_EPOCH), (2, FENCED), (5, FENCED)])
def test_other_apis_know_fenced_from_version_2_on(version: int, code: int) -> None:
    assert for_client(FENCED, version=version) == code
    assert for_client(CONCURRENT, version=version) == CONCURRENT


def test_the_version_determines_the_check_of_a_write() -> None:
    assert [of_produce(version) for version in (3, 10, 11, 12, 13)] == [
        Write.VERIFY, Write.VERIFY, Write.VERIFY_ABORTABLE, Write.ADD, Write.ADD,
    ]  # fmt: skip
    assert [of_txn_offset_commit(version) for version in (0, 3, 4, 5)] == [
        Write.VERIFY, Write.VERIFY, Write.VERIFY_ABORTABLE, Write.ADD,
    ]  # fmt: skip
    assert [write.adds for write in Write] == [False, False, True]


@pytest.mark.parametrize(
    ("error", "verify", "abortable", "add"),
    [
        (0, 0, 0, 0),
        (FENCED, OLD_EPOCH, OLD_EPOCH, OLD_EPOCH),
        (ABORTABLE, TXN_STATE, ABORTABLE, ABORTABLE),
        (CONCURRENT, NOT_ENOUGH, NOT_ENOUGH, CONCURRENT),
        (14, NOT_ENOUGH, NOT_ENOUGH, NOT_ENOUGH),
        (15, NOT_ENOUGH, NOT_ENOUGH, NOT_ENOUGH),
        (16, NOT_ENOUGH, NOT_ENOUGH, NOT_ENOUGH),
        (49, 49, 49, 49),
    ],
)
def test_a_rejected_write_gets_a_code_that_its_client_knows(error: int, verify: int, abortable: int, add: int) -> None:
    codes = [for_produce(error, write) for write in (Write.VERIFY, Write.VERIFY_ABORTABLE, Write.ADD)]
    assert codes == [verify, abortable, add]


def test_an_offset_commit_gets_coordinator_errors() -> None:
    assert [for_writer(code, Write.VERIFY) for code in (14, 15, 16, CONCURRENT, FENCED, ABORTABLE)] == [
        14, 15, 16, CONCURRENT, OLD_EPOCH, TXN_STATE,
    ]  # fmt: skip

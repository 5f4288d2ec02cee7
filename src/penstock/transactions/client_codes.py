"""The coordinator's error codes, translated for each client version. Tables for the handlers; decides nothing.

Only newer versions know PRODUCER_FENCED and TRANSACTION_ABORTABLE, and Produce knows few of the
coordinator's codes. Calls nothing else.
"""

from enum import Enum

from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.model.errors import InvalidProducerEpoch, InvalidTxnState, NotEnoughReplicas, ProducerFenced
from penstock.transactions.errors import ConcurrentTransactions, TransactionAbortable

INIT_PRODUCER_ID_KNOWS_FENCED = 4
OTHERS_KNOW_FENCED = 2


def for_client(error: int, *, version: int, knows_fenced_from: int = OTHERS_KNOW_FENCED) -> int:
    """Return the code for a response of the coordinator's own APIs."""
    if error == ProducerFenced.code and version < knows_fenced_from:
        return InvalidProducerEpoch.code
    return error


class Write(Enum):
    """The check of a transactional write at the coordinator before it is appended."""

    VERIFY = "verify"
    """Verify that the partition is in the transaction; the client knows no better code than INVALID_TXN_STATE."""
    VERIFY_ABORTABLE = "verify, and say abortable"
    ADD = "add"
    """Add the partition to the transaction (version 2)."""

    @property
    def adds(self) -> bool:
        return self is Write.ADD


def of_produce(version: int) -> Write:
    if version >= 12:
        return Write.ADD
    return Write.VERIFY_ABORTABLE if version == 11 else Write.VERIFY


def of_txn_offset_commit(version: int) -> Write:
    if version >= 5:
        return Write.ADD
    return Write.VERIFY_ABORTABLE if version == 4 else Write.VERIFY


def for_writer(error: int, write: Write) -> int:
    """Return the code for a failed verification or addition, as TxnOffsetCommit returns it."""
    if error == ProducerFenced.code:
        # A producer aborts and continues after this code; after PRODUCER_FENCED it would stop.
        return InvalidProducerEpoch.code
    if error == TransactionAbortable.code and write is Write.VERIFY:
        return InvalidTxnState.code
    return error


_RETRIED = (CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code)


def for_produce(error: int, write: Write) -> int:
    """Return the code for Produce, whose clients retry NOT_ENOUGH_REPLICAS without a lookup of new leaders."""
    error = for_writer(error, write)
    if error in _RETRIED or (error == ConcurrentTransactions.code and not write.adds):
        return NotEnoughReplicas.code
    return error

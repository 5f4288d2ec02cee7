"""The coordinator's codes as each client knows them. Tables for the handlers; decides nothing.

Only newer versions know PRODUCER_FENCED and TRANSACTION_ABORTABLE, and producers that write know few of the
coordinator's codes. Goes nowhere else.
"""

from enum import Enum

from penstock.coordinator.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from penstock.model.errors import InvalidProducerEpoch, InvalidTxnState, NotEnoughReplicas, ProducerFenced
from penstock.transactions.errors import ConcurrentTransactions, TransactionAbortable

INIT_PRODUCER_ID_KNOWS_FENCED = 4
OTHERS_KNOW_FENCED = 2


def for_client(error: int, *, version: int, knows_fenced_from: int = OTHERS_KNOW_FENCED) -> int:
    """The code in an answer of the coordinator's own APIs."""
    if error == ProducerFenced.code and version < knows_fenced_from:
        return InvalidProducerEpoch.code
    return error


class Write(Enum):
    """What a transactional write does at the coordinator before it is appended."""

    VERIFY = "verify"
    """Ask whether its partition is in the transaction; the client knows no better code than INVALID_TXN_STATE."""
    VERIFY_ABORTABLE = "verify, and say abortable"
    ADD = "add"
    """Add its partition (version 2)."""

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
    """What a refused verification or addition becomes; TxnOffsetCommit answers with this."""
    if error == ProducerFenced.code:
        # A producer aborts and goes on after this one; after the other it would give up.
        return InvalidProducerEpoch.code
    if error == TransactionAbortable.code and write is Write.VERIFY:
        return InvalidTxnState.code
    return error


_RETRIED = (CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code)


def for_produce(error: int, write: Write) -> int:
    """The same in the answer to Produce, whose clients retry NOT_ENOUGH_REPLICAS without looking for new leaders."""
    error = for_writer(error, write)
    if error in _RETRIED or (error == ConcurrentTransactions.code and not write.adds):
        return NotEnoughReplicas.code
    return error

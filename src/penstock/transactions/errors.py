"""What a transaction coordinator refuses, with Kafka's codes."""

from penstock.model.errors import Refusal
from penstock.model.errors import TransactionCoordinatorFenced as TransactionCoordinatorFenced


class InvalidProducerIdMapping(Refusal):
    code = 49
    meaning = "The transactional id belongs to another producer id, or to none."


class ConcurrentTransactions(Refusal):
    code = 51
    meaning = "The last transaction of the producer is still being ended; try again."


class TransactionalIdAuthorizationFailed(Refusal):
    code = 53
    meaning = "Transactional records came without a transactional id that the client may use."


class TransactionalIdNotFound(Refusal):
    code = 105
    meaning = "There is no such transactional id."


class TransactionAbortable(Refusal):
    code = 120
    meaning = "The partition is not in the transaction; the producer has to abort it."

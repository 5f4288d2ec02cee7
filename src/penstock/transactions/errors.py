"""Errors of the transaction coordinator, with Kafka's codes."""

from penstock.model.errors import Refusal
from penstock.model.errors import TransactionCoordinatorFenced as TransactionCoordinatorFenced


class InvalidProducerIdMapping(Refusal):
    code = 49
    meaning = "The transactional id is not mapped to this producer id."


class ConcurrentTransactions(Refusal):
    code = 51
    meaning = "The producer's previous transaction is still being ended; try again."


class TransactionalIdAuthorizationFailed(Refusal):
    code = 53
    meaning = "Transactional records need a transactional id that the client is authorized to use."


class TransactionalIdNotFound(Refusal):
    code = 105
    meaning = "The transactional id does not exist."


class TransactionAbortable(Refusal):
    code = 120
    meaning = "The partition is not in the transaction; abort the transaction."

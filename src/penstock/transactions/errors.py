"""What a transaction coordinator refuses, with Kafka's codes."""

from penstock.model.errors import Refusal


class InvalidProducerIdMapping(Refusal):
    code = 49
    meaning = "The transactional id belongs to another producer id, or to none."


class ConcurrentTransactions(Refusal):
    code = 51
    meaning = "The last transaction of the producer is still being ended; try again."


class TransactionCoordinatorFenced(Refusal):
    code = 52
    meaning = "A newer coordinator has written markers for this producer."


class TransactionalIdNotFound(Refusal):
    code = 105
    meaning = "There is no such transactional id."


class TransactionAbortable(Refusal):
    code = 120
    meaning = "The partition is not in the transaction; the producer has to abort it."


class InvalidRegularExpression(Refusal):
    code = 128
    meaning = "The regular expression is not valid."

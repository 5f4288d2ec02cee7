"""One partition of `__transaction_state`: the state of its transactional ids.

Dispatches commands to deciding functions by type. State changes only in `adopt` and `apply`, which the
runtime calls when the records are in the log. A record is the whole state of its id, so applying it, live or
in replay, just stores it. Side effects are returned as actions.
"""

from collections.abc import Callable
from typing import Any

from penstock.coordinator.decision import NO_TICKET, Expired, ShardDecision, Ticket
from penstock.transactions import admin, ending, init_producer_id, partitions, records
from penstock.transactions.commands import (
    AbortTimedOut,
    AddPartitions,
    DescribeTransaction,
    EndTxn,
    InitProducerId,
    ListTransactions,
    MarkersWritten,
    VerifyPartitions,
)
from penstock.transactions.records import NO_PRODUCER_ID, TransactionRecord, TransactionValue
from penstock.transactions.settings import VERSION_FLEXIBLE, TransactionSettings
from penstock.transactions.states import ENDING, State
from penstock.transactions.turn import EXPIRATION, TIMEOUT, TimerKey, Turn, Volatile

_NOTHING = Volatile()


class TransactionShard:
    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        """Replaced when the configuration or the feature level changes; used from the next command on."""
        self.transactions: dict[str, TransactionValue] = {}
        self.volatile: dict[str, Volatile] = {}
        self._deciders: dict[type, Callable[[Any, Turn], None]] = {
            InitProducerId: self._init,
            AddPartitions: self._add,
            VerifyPartitions: self._verify,
            EndTxn: self._end,
            MarkersWritten: self._markers_written,
            AbortTimedOut: self._abort_timed_out,
            DescribeTransaction: self._describe,
            ListTransactions: self._list,
            Expired: self._expire,
        }

    # -- called by the runtime -------------------------------------------------------------

    def decide(self, command: Any, *, ticket: Ticket, now: int) -> ShardDecision[TransactionRecord]:
        turn = Turn(self.settings, ticket, now)
        self._deciders[type(command)](command, turn)
        return turn.decision

    def adopt(self, drafts: dict[str, Any]) -> None:
        self.volatile.update(drafts)

    def apply(self, record: TransactionRecord) -> None:
        if record.value is None:
            self.transactions.pop(record.transactional_id, None)
            self.volatile.pop(record.transactional_id, None)
        else:
            self.transactions[record.transactional_id] = record.value

    def loaded(self, now: int) -> ShardDecision[TransactionRecord]:
        """Continue from the log: write the markers of decided transactions, set the timers of open ones."""
        turn = Turn(self.settings, NO_TICKET, now)
        for name, value in self.transactions.items():
            if value.state in ENDING:
                markers = ending.markers_of(name, value)
                turn.decision.drafts[name] = Volatile(markers=markers)
                turn.act(markers)
            elif value.state is State.ONGOING:
                turn.set_timer(TimerKey(TIMEOUT, name), max(0, ending.time_left_ms(value, now)))
        turn.set_timer(TimerKey(EXPIRATION), self.settings.expiration_check_interval_ms)
        return turn.decision

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return records.encode(record, version=1 if self.settings.version >= VERSION_FLEXIBLE else 0)

    def decode(self, key: bytes, value: bytes | None) -> TransactionRecord | None:
        return records.decode(key, value)

    # -- deciding --------------------------------------------------------------------------

    def _volatile(self, name: str) -> Volatile:
        return self.volatile.get(name, _NOTHING)

    def _init(self, command: InitProducerId, turn: Turn) -> None:
        name = command.transactional_id
        init_producer_id.init(self.transactions.get(name), self._volatile(name), command, turn)

    def _add(self, command: AddPartitions, turn: Turn) -> None:
        name = command.transactional_id
        partitions.add(self.transactions.get(name), self._volatile(name), command, turn)

    def _verify(self, command: VerifyPartitions, turn: Turn) -> None:
        partitions.verify(self.transactions.get(command.transactional_id), command, turn)

    def _end(self, command: EndTxn, turn: Turn) -> None:
        name = command.transactional_id
        ending.end(self.transactions.get(name), self._volatile(name), command, turn)

    def _markers_written(self, command: MarkersWritten, turn: Turn) -> None:
        name = command.markers.transactional_id
        ending.markers_written(self.transactions.get(name), self._volatile(name), command, turn)

    def _abort_timed_out(self, command: AbortTimedOut, turn: Turn) -> None:
        name = command.transactional_id
        found = self.transactions.get(name)
        turn.answer(ending.abort_timed_out(name, found, turn, fresh_producer_id=command.fresh_producer_id))

    def _describe(self, command: DescribeTransaction, turn: Turn) -> None:
        admin.describe(self.transactions.get(command.transactional_id), command, turn)

    def _list(self, command: ListTransactions, turn: Turn) -> None:
        admin.list_transactions(self.transactions, command, turn)

    def _expire(self, command: Expired, turn: Turn) -> None:
        timer: TimerKey = command.timer
        if timer.kind == EXPIRATION:
            admin.sweep(self.transactions, turn)
        else:
            found = self.transactions.get(timer.transactional_id)
            ending.abort_timed_out(timer.transactional_id, found, turn, fresh_producer_id=NO_PRODUCER_ID)

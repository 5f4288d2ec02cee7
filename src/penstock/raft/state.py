"""The state of one node, and the effects of the current step so far.

Shared by `voting`, `following` and `leading`; only `core.py` creates it. Every change of
role and of persisted state goes through this module, which asserts the table of
roles and the invariants.
"""

from dataclasses import dataclass
from random import Random
from uuid import UUID

from penstock.model.ids import LeaderEpoch, NodeId, Offset
from penstock.raft.events import Effects, ElectionState, Send
from penstock.raft.messages import Batch, Message
from penstock.raft.roles import TO_A_LATER_EPOCH, WITHIN_AN_EPOCH, Leader, Role, Unattached
from penstock.raft.shape import LogShape
from penstock.raft.voters import VoterHistory, Voters


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Timeouts in seconds; the defaults are those of Kafka's controller.quorum.* options."""

    election_timeout: float = 1.0
    election_backoff_max: float = 1.0
    fetch_timeout: float = 2.0
    fetch_wait: float = 0.5
    request_timeout: float = 2.0
    retry_backoff: float = 0.02
    lost_peer_pause_max: float = 0.1
    """The pause after the leader's process has exited: it only prevents a tie between voters."""

    @property
    def check_quorum_timeout(self) -> float:
        """Return how long a leader may go without fetches from a majority: longer than the fetch timeout."""
        return self.fetch_timeout * 1.5


class State:
    def __init__(
        self,
        *,
        node_id: NodeId,
        voters: VoterHistory,
        election: ElectionState,
        log: LogShape,
        timing: Timing,
        random: Random,
        disk: UUID | None,
    ) -> None:
        self.disk = disk
        self.node_id = node_id
        self.history = voters
        self.election = election
        self.log = log
        self.timing = timing
        self.random = random
        self.high_watermark = log.start_offset
        self.role: Role = Unattached(deadline=0.0)
        self.next_request_id = random.getrandbits(30)
        self._persist = False
        self._truncate_to: Offset | None = None
        self._append: list[Batch] = []
        self._send: list[Send] = []
        self._marked: Offset | None = None
        self._named = False

    @property
    def epoch(self) -> LeaderEpoch:
        return self.election.epoch

    @property
    def voters(self) -> Voters:
        return self.history.current

    @property
    def others(self) -> tuple[NodeId, ...]:
        """Return the other voters."""
        return tuple(sorted(self.history.current - {self.node_id}))

    @property
    def may_stand(self) -> bool:
        """Return whether this node is a voter that has everything it confirmed, which a refilled one may not."""
        refilling = self.election.blank and self.log.end_offset > 0
        return self.history.may_include(self.node_id, committed_end=self.high_watermark) and not refilling

    @property
    def advertised_leader(self) -> NodeId | None:
        """Return the leader to name; a resigned voter names none, or others would return to it."""
        resigned = self.election.leader == self.node_id and not isinstance(self.role, Leader)
        return None if resigned else self.election.leader

    def enter(self, role: Role, election: ElectionState) -> None:
        """Change the role and the persisted election state."""
        later = election.epoch > self.election.epoch
        allowed = (TO_A_LATER_EPOCH if later else WITHIN_AN_EPOCH)[type(self.role)]
        assert type(role) in allowed, f"no transition from {type(self.role).__name__} to {type(role).__name__}"
        self.role = role
        self.remember(election)

    def remember(self, election: ElectionState) -> None:
        before = self.election
        assert election.epoch >= before.epoch, "an epoch never decreases"
        if election.epoch == before.epoch:
            assert before.voted in (None, election.voted), "one vote per epoch"
            assert before.leader in (None, election.leader), "one leader per epoch"
        if election != before:
            self.election = election
            self._persist = True

    def send(self, to: NodeId, message: Message, *, read_from: Offset | None = None) -> None:
        self._send.append(Send(to=to, message=message, read_from=read_from))

    def append(self, batch: Batch) -> None:
        assert batch.base_offset == self.log.end_offset, "a log has no gaps"
        self.log.append(last_offset=batch.last_offset, epoch=batch.epoch)
        if batch.voters is not None:
            self.history.append(batch.last_offset, batch.voters)
        self._append.append(batch)

    def truncate_to(self, offset: Offset) -> None:
        assert offset >= self.high_watermark, "committed records are never truncated"
        assert not self._append, "a step truncates before it appends"
        self.log.truncate_to(offset)
        self.history.truncate_to(offset)
        self._truncate_to = offset

    def advance_high_watermark(self, mark: Offset) -> bool:
        """Advance the high watermark if the mark is higher; it never moves back.

        The first mark after a start is reported even if it has not moved: the driver waits for it, and a log
        that ends with its newest snapshot has nothing else to report.
        """
        assert mark <= self.log.durable_offset, "the high watermark is beyond the durable offset"
        if mark < self.high_watermark or (mark == self.high_watermark and self._named):
            return False
        self.high_watermark = self._marked = mark
        self._named = True
        return True

    def election_deadline(self, now: float) -> float:
        """Return a randomized deadline, so that ties end."""
        return now + self.timing.election_timeout * (1.0 + self.random.random())

    def backoff_deadline(self, now: float) -> float:
        return now + self.timing.election_backoff_max * self.random.random()

    def lost_peer_deadline(self, now: float) -> float:
        return now + self.timing.lost_peer_pause_max * self.random.random()

    def take_effects(self) -> Effects:
        effects = Effects(
            persist=self.election if self._persist else None,
            truncate_to=self._truncate_to,
            append=tuple(self._append),
            send=tuple(self._send),
            high_watermark=self._marked,
        )
        self._persist, self._truncate_to, self._marked = False, None, None
        self._append.clear()
        self._send.clear()
        return effects

"""One voter's state, and the effects that the present step has had so far.

Shared by `voting`, `following` and `leading`; only `core.py` hands it out. Every change of
role and every change of what must be persisted goes through here, where the table of
roles and the rules that never bend are asserted.
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
    """Seconds; the defaults are those of Kafka's controller.quorum.* options."""

    election_timeout: float = 1.0
    election_backoff_max: float = 1.0
    fetch_timeout: float = 2.0
    fetch_wait: float = 0.5
    request_timeout: float = 2.0
    retry_backoff: float = 0.02
    gone_pause_max: float = 0.1
    """When the leader's process is gone there is nobody to wait for; the pause only keeps voters from a tie."""

    @property
    def check_quorum_timeout(self) -> float:
        """How long a leader stays one without hearing from a majority: longer than a follower's patience."""
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
        return self.history.present

    @property
    def others(self) -> tuple[NodeId, ...]:
        """The other voters."""
        return tuple(sorted(self.history.present - {self.node_id}))

    @property
    def may_stand(self) -> bool:
        """Observers never stand, nor does a voter that is still being refilled: it lacks what it once confirmed."""
        refilling = self.election.blank and self.log.end_offset > 0
        return self.node_id in self.history.present and not refilling

    @property
    def leader_to_name(self) -> NodeId | None:
        """Whom to name as leader. A voter that has resigned names nobody, or others would return to it."""
        resigned = self.election.leader == self.node_id and not isinstance(self.role, Leader)
        return None if resigned else self.election.leader

    def enter(self, role: Role, election: ElectionState) -> None:
        """Change the role, and with it what must be remembered."""
        later = election.epoch > self.election.epoch
        allowed = (TO_A_LATER_EPOCH if later else WITHIN_AN_EPOCH)[type(self.role)]
        assert type(role) in allowed, f"{type(self.role).__name__} does not become {type(role).__name__}"
        self.role = role
        self.remember(election)

    def remember(self, election: ElectionState) -> None:
        before = self.election
        assert election.epoch >= before.epoch, "an epoch never goes back"
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
        assert offset >= self.high_watermark, "what is committed is never cut"
        assert not self._append, "a step cuts before it appends"
        self.log.truncate_to(offset)
        self.history.truncate_to(offset)
        self._truncate_to = offset

    def advance_high_watermark(self, mark: Offset) -> bool:
        """Move the mark forward if it is ahead; it never moves back.

        The first mark after a start is named although it has not moved: a log that ends with its newest snapshot has
        nothing else to tell, and the driver waits to be told.
        """
        assert mark <= self.log.durable_offset, "nothing is committed here that is not durable here"
        if mark < self.high_watermark or (mark == self.high_watermark and self._named):
            return False
        self.high_watermark = self._marked = mark
        self._named = True
        return True

    def election_deadline(self, now: float) -> float:
        """Timeouts differ from voter to voter and from time to time, so that ties end."""
        return now + self.timing.election_timeout * (1.0 + self.random.random())

    def backoff_deadline(self, now: float) -> float:
        return now + self.timing.election_backoff_max * self.random.random()

    def gone_deadline(self, now: float) -> float:
        return now + self.timing.gone_pause_max * self.random.random()

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

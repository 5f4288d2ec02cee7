"""The audit of a node: decisions of the authorizer, to the log and to the topic `__penstock_audit`.

`note` is called while a request is handled and only counts. Once a second, if there are events, a task logs them and
sends them to the leader of the topic. Calls security/audit.py, handlers/support/topic_creation.py and client/peers.py.
"""

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from penstock.client.interfaces import PeerUnavailable
from penstock.handlers.support.topic_creation import ensure_topic
from penstock.model.errors import Refusal
from penstock.model.topic import AUDIT
from penstock.security.audit import AuditBuffer, AuditEvent, AuditKey, shortened
from penstock.security.authorizer import SUPER_USER, Decision
from penstock.wire.api import APIS, ApiKey
from penstock.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from uuid import UUID

    from penstock.client.interfaces import Peers
    from penstock.handlers.support.context import Context
    from penstock.metrics.metrics import Metrics
    from penstock.model.ids import NodeId
    from penstock.ports.clock import Clock, Timer
    from penstock.security.rights import Rights

FLUSH_S: Final = 1.0
BATCH_COUNT_MAX: Final = 200
"""How many events are written together: encoding them takes about a millisecond."""
LINES_MAX: Final = 20
"""How many events a second are logged."""
WRITE_S_MAX: Final = 10.0

log = logging.getLogger(__name__)


class Audit:
    def __init__(self, clock: "Clock", metrics: "Metrics", *, is_enforced: bool, to_topic: bool) -> None:
        self._clock = clock
        self._metrics = metrics
        self._is_enforced = is_enforced
        self._to_topic = to_topic
        self._buffer = AuditBuffer()
        self._unwritten: list[AuditEvent] = []
        self._context: Context | None = None
        self._peers: Peers | None = None
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None
        self._warned = False

    def note(
        self, rights: "Rights", operation: int, resource_type: int, name: str, decision: Decision, api_key: int
    ) -> None:
        """Count a decision. Called for each request that is denied, so it does nothing else."""
        if decision.is_allowed and decision.rule == SUPER_USER:
            return
        api = APIS[api_key].name if api_key in APIS else ""
        key = AuditKey(
            shortened(str(rights.principal)),
            rights.host,
            api,
            operation,
            resource_type,
            shortened(name),
            decision.is_allowed,
            self._is_enforced or decision.is_allowed,
            decision.rule,
        )
        self._metrics.audit_events.add()
        if not self._buffer.note(key, self._clock.wall_ms()):
            self._metrics.audit_dropped.add()
        if self._timer is None and self._task is None:
            self._timer = self._clock.call_later(FLUSH_S, self._begin)

    def start(self, context: "Context", peers: "Peers") -> None:
        """Write events to the topic from now on; until then they are only logged."""
        self._context = context
        self._peers = peers

    def stop(self) -> None:
        self._context = None
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._timer = None
        self._task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        lines = 0
        try:
            while self._unwritten or self._buffer:
                if not self._unwritten:
                    self._unwritten = self._buffer.take(BATCH_COUNT_MAX)
                    lines = self._log(self._unwritten, lines)
                if self._context is not None and self._to_topic and not await self._write(self._context):
                    break
                self._unwritten = []
                # Other requests run between two batches.
                await asyncio.sleep(0)
        finally:
            self._task = None
        if lines > LINES_MAX:
            log.info("%d more events are not logged", lines - LINES_MAX)
        if self._unwritten or self._buffer:
            self._timer = self._clock.call_later(FLUSH_S, self._begin)

    def _log(self, events: list[AuditEvent], lines: int) -> int:
        """Log events up to the limit; return how many events were seen."""
        for event in events[: max(0, LINES_MAX - lines)]:
            repeated = f" ({event.times} times)" if event.times > 1 else ""
            log.info("%s%s", event.key, repeated)
        return lines + len(events)

    async def _write(self, context: "Context") -> bool:
        """Write events to the topic; return whether they are written."""
        try:
            topic = await ensure_topic(context, AUDIT)
            if topic is None:
                raise Refusal("it cannot be created")
            await self._send(context, topic.id, topic.partitions[0].leader, self._batch(context.node_id))
        except (Refusal, PeerUnavailable) as problem:
            if not self._warned:
                log.warning("cannot write to the topic %s, its events wait: %s", AUDIT, problem)
            self._warned = True
            return False
        self._warned = False
        return True

    def _batch(self, node_id: int) -> bytes:
        records = [
            Record(timestamp=event.first_ms, key=event.key.principal.encode(), value=event.encode(node_id))
            for event in self._unwritten
        ]
        return encode_batch(records)

    async def _send(self, context: "Context", topic_id: "UUID", leader: "NodeId", batch: bytes) -> None:
        if leader == context.node_id:
            partition = context.replicas.find(AUDIT, 0)
            if partition is None:
                raise Refusal("its log is not open yet")
            partition.append(memoryview(bytearray(batch)), acks=1, now_ms=self._clock.wall_ms())
            return
        assert self._peers is not None, "set together with the context"
        answer = await self._peers.ask(
            leader, ApiKey.PRODUCE, _request(topic_id, batch), timeout_s=WRITE_S_MAX, purpose="audit"
        )
        code = answer.responses[0].partition_responses[0].error_code
        if code:
            raise Refusal(f"node {leader} answers with error {int(code)}")


def _request(topic_id: "UUID", batch: bytes) -> Any:
    from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest, TopicProduceData
    from kio.static.primitive import i16, i32, i32Timedelta

    data: Any = PartitionProduceData(index=i32(0), records=batch)  # type: ignore[arg-type]
    return ProduceRequest(
        acks=i16(1),
        timeout=i32Timedelta.parse(timedelta(seconds=WRITE_S_MAX)),
        topic_data=(TopicProduceData(topic_id=topic_id, partition_data=(data,)),),
    )

"""The declarations of all metrics: name, kind, unit, labels and meaning.

Metrics that Kafka has use the names of Kafka's JMX exporter, so that existing dashboards work; others begin
with `penstock_`. docs/metrics.md is generated from this table, and tests check dashboards and alerts against it.
"""

from typing import Final, Literal, NamedTuple

Kind = Literal["counter", "gauge", "histogram", "summary"]


class Declaration(NamedTuple):
    name: str
    kind: Kind
    unit: str
    doc: str
    labels: tuple[str, ...] = ()

    def series(self) -> tuple[str, ...]:
        """Return the names of the time series of this metric."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        if self.kind == "summary":
            return (f"{self.name}_sum", f"{self.name}_count")
        return (self.name,)


DECLARED: Final[dict[str, Declaration]] = {}


def _declare(kind: Kind, name: str, unit: str, doc: str, *labels: str) -> Declaration:
    assert name not in DECLARED, f"{name} is declared twice"
    assert kind != "counter" or name.endswith("_total"), f"a counter ends in _total: {name}"
    declaration = DECLARED[name] = Declaration(name, kind, unit, doc, labels)
    return declaration


# -- topics
_TOPIC = "kafka_server_brokertopicmetrics_"
MESSAGES_IN = _declare("counter", _TOPIC + "messagesin_total", "records", "Records written by producers.", "topic")
BYTES_IN = _declare("counter", _TOPIC + "bytesin_total", "bytes", "Bytes written by producers.", "topic")
BYTES_OUT = _declare("counter", _TOPIC + "bytesout_total", "bytes", "Bytes read by consumers.", "topic")
PARTITION_MESSAGES_IN = _declare(
    "counter",
    "penstock_partition_messages_in_total",
    "records",
    "Records written by producers to a partition that this broker leads, for the busiest `metrics.partitions.max`.",
    "topic",
    "partition",
)
PARTITION_BYTES_IN = _declare(
    "counter",
    "penstock_partition_bytes_in_total",
    "bytes",
    "Bytes written by producers to a partition that this broker leads, for the busiest `metrics.partitions.max`.",
    "topic",
    "partition",
)
REPLICATION_BYTES_IN = _declare("counter", _TOPIC + "replicationbytesin_total", "bytes", "Bytes fetched from leaders.")
REPLICATION_BYTES_OUT = _declare("counter", _TOPIC + "replicationbytesout_total", "bytes", "Bytes sent to followers.")
FAILED_PRODUCES = _declare(
    "counter", _TOPIC + "failedproducerequests_total", "partitions", "Rejected writes to a partition."
)
FAILED_FETCHES = _declare(
    "counter", _TOPIC + "failedfetchrequests_total", "partitions", "Rejected reads of a partition."
)

# -- requests
_REQUEST = "kafka_network_requestmetrics_"
REQUESTS = _declare("counter", _REQUEST + "requests_total", "requests", "Requests by API.", "request")
ERRORS = _declare(
    "counter", _REQUEST + "errors_total", "requests", "Requests that closed their connection, by API.", "request"
)
TOTAL_TIME = _declare("histogram", _REQUEST + "totaltimems", "ms", "Time from request to response.", "request")
LOCAL_TIME = _declare(
    "histogram", _REQUEST + "localtimems", "ms", "Time spent on the request in the event loop.", "request"
)
REMOTE_TIME = _declare(
    "summary",
    _REQUEST + "remotetimems",
    "ms",
    "Time that the request waited for the disk, replicas or more records.",
    "request",
)
QUEUE_TIME = _declare(
    "summary",
    _REQUEST + "requestqueuetimems",
    "ms",
    "Time that the request waited for earlier requests in the same socket read.",
    "request",
)
THROTTLE_TIME = _declare("summary", _REQUEST + "throttletimems", "ms", "Throttle time sent to the client.", "request")

# -- partitions of this broker
_REPLICAS = "kafka_server_replicamanager_"
PARTITIONS = _declare("gauge", _REPLICAS + "partitioncount", "partitions", "Partitions with a replica on this broker.")
LEADERS = _declare("gauge", _REPLICAS + "leadercount", "partitions", "Partitions that this broker leads.")
UNDER_REPLICATED = _declare(
    "gauge", _REPLICAS + "underreplicatedpartitions", "partitions", "Led partitions with replicas that are not in sync."
)
UNDER_MIN_ISR = _declare(
    "gauge",
    _REPLICAS + "underminisrpartitioncount",
    "partitions",
    "Led partitions with an ISR below min.insync.replicas.",
)
AT_MIN_ISR = _declare(
    "gauge",
    _REPLICAS + "atminisrpartitioncount",
    "partitions",
    "Led partitions with an ISR of exactly min.insync.replicas.",
)
OFFLINE_REPLICAS = _declare(
    "gauge", _REPLICAS + "offlinereplicacount", "partitions", "Replicas assigned to this broker that are offline."
)
ISR_SHRINKS = _declare("counter", _REPLICAS + "isrshrinks_total", "changes", "Replicas removed from the ISR.")
ISR_EXPANDS = _declare("counter", _REPLICAS + "isrexpands_total", "changes", "Replicas added to the ISR.")
FAILED_ISR_UPDATES = _declare(
    "counter", _REPLICAS + "failedisrupdates_total", "changes", "ISR changes that the controller rejected."
)

# -- the cluster, as seen by its controller
_CONTROLLER = "kafka_controller_kafkacontroller_"
ACTIVE_CONTROLLER = _declare(
    "gauge",
    _CONTROLLER + "activecontrollercount",
    "",
    "1 on the active controller, 0 elsewhere; the sum over a cluster is 1.",
)
OFFLINE_PARTITIONS = _declare(
    "gauge",
    _CONTROLLER + "offlinepartitionscount",
    "partitions",
    "Partitions without a leader; 0 on nodes other than the active controller.",
)
GLOBAL_TOPICS = _declare("gauge", _CONTROLLER + "globaltopiccount", "topics", "Topics in the cluster.")
GLOBAL_PARTITIONS = _declare("gauge", _CONTROLLER + "globalpartitioncount", "partitions", "Partitions in the cluster.")
IMBALANCE = _declare(
    "gauge",
    _CONTROLLER + "preferredreplicaimbalancecount",
    "partitions",
    "Partitions not led by their preferred replica.",
)
ACTIVE_BROKERS = _declare(
    "gauge", _CONTROLLER + "activebrokercount", "brokers", "Brokers that are registered and not fenced."
)
FENCED_BROKERS = _declare(
    "gauge", _CONTROLLER + "fencedbrokercount", "brokers", "Brokers that are registered and fenced."
)
ELECTIONS = _declare(
    "counter",
    "kafka_controller_controllerstats_leaderelections_total",
    "elections",
    "Partition leader elections, counted by the active controller.",
)
UNCLEAN_ELECTIONS = _declare(
    "counter",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "elections",
    "Elections of a leader that was not in the ISR; records may have been lost.",
)

# -- the quorum
_RAFT = "kafka_server_raft_metrics_"
RAFT_STATE = _declare("gauge", _RAFT + "current_state", "", "1 for the current state of this voter.", "state")
RAFT_LEADER = _declare("gauge", _RAFT + "current_leader", "", "The id of the quorum's leader, or -1 if it is unknown.")
RAFT_EPOCH = _declare("gauge", _RAFT + "current_epoch", "", "The current epoch of the quorum.")
RAFT_MARK = _declare("gauge", _RAFT + "high_watermark", "records", "The high watermark of the metadata log.")
METADATA_OFFSET = _declare(
    "gauge",
    "penstock_metadata_applied_offset",
    "records",
    "The offset up to which this node has applied the metadata log.",
)
BROKER_FENCED = _declare("gauge", "penstock_broker_fenced", "", "1 if this broker is fenced.")

# -- network
_SOCKETS = "kafka_server_socket_server_metrics_"
CONNECTIONS = _declare("gauge", _SOCKETS + "connection_count", "connections", "Open connections.")
CONNECTIONS_CREATED = _declare(
    "counter", _SOCKETS + "connection_creation_total", "connections", "Accepted connections."
)
CONNECTIONS_REFUSED = _declare(
    "counter", "penstock_connections_refused_total", "connections", "Connections rejected because of a limit."
)
AUTHENTICATIONS = _declare(
    "counter",
    "penstock_successful_authentications_total",
    "authentications",
    "Connections that were authenticated, with SASL or a client certificate.",
)
FAILED_AUTHENTICATIONS = _declare(
    "counter", "penstock_failed_authentications_total", "authentications", "Connections that failed to authenticate."
)
AUDIT_EVENTS = _declare(
    "counter",
    "penstock_audit_events_total",
    "events",
    "Requests that the audit has recorded: what was denied, or would be, and with `authorizer.audit.allowed` what was "
    "allowed.",
)
AUDIT_DROPPED = _declare(
    "counter", "penstock_audit_dropped_events_total", "events", "Events that the audit dropped because it was full."
)
DISK_WAITS = _declare(
    "counter",
    "penstock_network_disk_waits_total",
    "waits",
    "Waits of responses for records that were not in the page cache.",
)
FAILED_CERTIFICATE_LOADS = _declare(
    "counter",
    "penstock_failed_certificate_loads_total",
    "loads",
    "Changed key stores and trust stores that could not be loaded; the listener keeps its present certificate.",
)
MEMORY_USED = _declare(
    "gauge", "kafka_network_socketserver_memorypoolused", "bytes", "Memory used by partially received requests."
)
MEMORY_LEFT = _declare(
    "gauge", "kafka_network_socketserver_memorypoolavailable", "bytes", "The unused part of queued.max.request.bytes."
)
CLOSED = _declare(
    "counter",
    "penstock_network_connections_closed_total",
    "connections",
    "Connections that this node closed, by reason: `frame_timeout`, `send_timeout`, `idle`, `read_error`, "
    "`tls_handshake`, `tls_timeout`, `tls_records`, and for lack of memory `request_memory` and `reply_memory`.",
    "reason",
)
UNSENT = _declare(
    "gauge", "penstock_network_unsent_bytes", "bytes", "Responses in memory that clients have not received yet."
)

# -- logs
LOG_SIZE = _declare("gauge", "kafka_log_log_size", "bytes", "Size of the logs on this broker, by topic.", "topic")
FLUSH_TIME = _declare("histogram", "kafka_log_logflushstats_logflushrateandtimems", "ms", "Duration of file syncs.")
OFFLINE_FOLDERS = _declare(
    "gauge", "kafka_log_logmanager_offlinelogdirectorycount", "directories", "Failed data directories."
)
READ_ONLY_FOLDERS = _declare(
    "gauge",
    "penstock_log_directory_read_only",
    "",
    "1 while the data directory is read-only because its disk is full or rejects writes.",
)
NEEDED = _declare(
    "gauge",
    "penstock_log_directory_needed_bytes",
    "bytes",
    "Free space that a full data directory needs before it accepts writes; 0 while it accepts them.",
)
RESERVED = _declare(
    "gauge",
    "penstock_log_directory_reserved_bytes",
    "bytes",
    "The remaining part of log.reserve.bytes, for the metadata log and checkpoints.",
)
READ_FAILURES = _declare(
    "counter",
    "penstock_log_read_failures_total",
    "reads",
    "Log reads, for clients or replicas, that failed with an I/O error or found a file too short.",
)
FOLDER_SIZE = _declare(
    "gauge", "penstock_log_directory_size_bytes", "bytes", "Size of the disk that holds the data directory."
)
FOLDER_FREE = _declare("gauge", "penstock_log_directory_free_bytes", "bytes", "Free space on that disk.")
UNCLEANABLE = _declare(
    "gauge",
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    "partitions",
    "Compacted partitions that are not compacted again until the next restart, because of damage or a failing disk.",
)
DISK_READ = _declare(
    "counter",
    "penstock_disk_read_bytes_total",
    "bytes",
    "Bytes read from disk; reads from the page cache are not included.",
)
DISK_WRITTEN = _declare("counter", "penstock_disk_written_bytes_total", "bytes", "Bytes written to disk.")

# -- groups
GROUPS = _declare(
    "gauge", "kafka_coordinator_group_groupmetadatamanager_numgroups", "groups", "Groups that this broker coordinates."
)
GROUP_OFFSET = _declare(
    "gauge",
    "kafka_consumergroup_current_offset",
    "records",
    "The committed offset of a group, reported by its coordinator.",
    "group",
    "topic",
    "partition",
)
GROUP_LAG = _declare(
    "gauge",
    "kafka_consumergroup_lag",
    "records",
    "The lag of a group, reported by its coordinator for partitions that it leads.",
    "group",
    "topic",
    "partition",
)
END_OFFSET = _declare(
    "gauge",
    "kafka_topic_partition_current_offset",
    "records",
    "The end offset of a partition for consumers, reported by its leader.",
    "topic",
    "partition",
)

# -- share groups
_SHARE_PARTITION = "kafka_server_sharepartitionmetrics_"
SHARE_GROUPS = _declare(
    "gauge",
    "kafka_server_group_coordinator_metrics_share_group_count",
    "groups",
    "Share groups that this broker coordinates, by state.",
    "state",
)
SHARE_ACKNOWLEDGEMENTS = _declare(
    "counter",
    "kafka_server_sharegroupmetrics_recordacknowledgements_total",
    "records",
    "Acknowledged records by type: `Accept`, `Release`, `Reject`, `Renew` and `Gap`.",
    "ackType",
)
SHARE_LOCK_TIMEOUTS = _declare(
    "counter",
    _SHARE_PARTITION + "acquisitionlocktimeout_total",
    "records",
    "Records of share groups whose acquisition lock expired before they were acknowledged.",
)
SHARE_IN_FLIGHT = _declare(
    "gauge",
    _SHARE_PARTITION + "inflightmessagecount",
    "records",
    "Records between the start offset and the end offset of a share partition that this broker leads.",
    "group",
    "topic",
    "partition",
)
SHARE_IN_FLIGHT_BATCHES = _declare(
    "gauge",
    _SHARE_PARTITION + "inflightbatchcount",
    "ranges",
    "Ranges of records in flight with the same state, delivery count and holder.",
    "group",
    "topic",
    "partition",
)
SHARE_UNFINISHED = _declare(
    "gauge",
    "penstock_share_partition_unfinished_records",
    "records",
    "Records in flight that are neither acknowledged nor archived.",
    "group",
    "topic",
    "partition",
)
SHARE_SESSIONS = _declare(
    "gauge", "kafka_server_sharesessioncache_sharesessionscount", "sessions", "Open share sessions."
)
SHARE_SESSION_PARTITIONS = _declare(
    "gauge", "kafka_server_sharesessioncache_sharepartitionscount", "partitions", "Partitions in open share sessions."
)
SHARE_WRITES = _declare(
    "counter",
    "kafka_server_share_coordinator_metrics_write_total",
    "writes",
    "Writes of share-group state that this broker coordinates.",
)
SHARE_STATES = _declare(
    "gauge", "penstock_share_coordinator_states", "partitions", "Share partitions whose state this broker coordinates."
)
SHARE_LETTERS = _declare(
    "counter", "penstock_share_dead_letters_total", "records", "Dead-letter records written for share groups."
)
SHARE_LETTER_FAILURES = _declare(
    "counter",
    "penstock_share_dead_letter_failures_total",
    "writes",
    "Writes of dead-letter records that failed; they are repeated until they succeed.",
)
SHARE_LETTERS_WAITING = _declare(
    "gauge",
    "penstock_share_dead_letters_waiting",
    "records",
    "Records of share groups whose dead-letter record is not written yet.",
)

# -- quotas
MUTED = _declare(
    "gauge",
    "penstock_quota_muted_connections",
    "connections",
    "Connections that are currently muted because of a quota.",
)
THROTTLED = _declare(
    "counter", "penstock_quota_throttled_total", "requests", "Requests that were throttled because of a quota."
)
THROTTLED_TIME = _declare("counter", "penstock_quota_throttle_seconds_total", "s", "Time that clients were throttled.")

# -- the process
LOOP_LAG = _declare(
    "histogram",
    "penstock_event_loop_lag_ms",
    "ms",
    "Delay of a timer: the time that all requests wait for the event loop.",
)
LOOP_HELD = _declare(
    "histogram", "penstock_event_loop_held_ms", "ms", "Duration of event loop iterations longer than 1 ms."
)
LOOP_HELD_MAX = _declare(
    "gauge", "penstock_event_loop_held_max_ms", "ms", "Duration of the longest event loop iteration since startup."
)
LOOP_HELD_CPU_MAX = _declare(
    "gauge",
    "penstock_event_loop_held_cpu_max_ms",
    "ms",
    "The most CPU time since startup that an event loop iteration took.",
)
REQUEST_HELD_MAX = _declare(
    "gauge",
    "penstock_request_held_max_ms",
    "ms",
    "The longest time since startup that a request kept the event loop busy without a break, by API.",
    "request",
)
REQUEST_HELD_CPU_MAX = _declare(
    "gauge",
    "penstock_request_held_cpu_max_ms",
    "ms",
    "The most CPU time since startup that a request took on the event loop without a break, by API. It is less than "
    "penstock_request_held_max_ms if the thread waited for a processor, for the disk or for another thread.",
    "request",
)
JOB_HELD_MAX = _declare(
    "gauge",
    "penstock_job_held_max_ms",
    "ms",
    "Duration of the longest step since startup of work that is done in slices, such as decoding a large request.",
)
JOB_HELD_CPU_MAX = _declare(
    "gauge",
    "penstock_job_held_cpu_max_ms",
    "ms",
    "The most CPU time since startup that a step of work that is done in slices took.",
)
REQUESTS_HELD_LONG = _declare(
    "counter",
    "penstock_request_held_long_total",
    "requests",
    "Times that a request kept the event loop busy for more than 10 ms without a break, by API.",
    "request",
)
MEMORY = _declare("gauge", "process_resident_memory_bytes", "bytes", "Resident memory of the process.")
CPU = _declare("counter", "process_cpu_seconds_total", "s", "CPU time of the process.")
OPEN_FILES = _declare("gauge", "process_open_fds", "files", "Open files and sockets.")
OPEN_FILES_MAX = _declare("gauge", "process_max_fds", "files", "Maximum number of open files and sockets.")
STARTED = _declare("gauge", "process_start_time_seconds", "s", "Start time of the process, as Unix time.")
BUILD = _declare(
    "gauge",
    "penstock_build_info",
    "",
    "1; the labels identify the build and the node.",
    "version",
    "node_id",
    "cluster_id",
)

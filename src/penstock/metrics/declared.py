"""Every metric: its name, what kind it is, its labels, and what it means.

Names are Kafka's, in the spelling that its JMX exporter gives them, where people have dashboards for them;
ours begin with `penstock_`. The guide's table and the tests of dashboards and alerts are made from this.
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
        """The names under which it can be asked for."""
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
    "Records written by producers to a partition led here, for the busiest `metrics.partitions.max`.",
    "topic",
    "partition",
)
PARTITION_BYTES_IN = _declare(
    "counter",
    "penstock_partition_bytes_in_total",
    "bytes",
    "Bytes written by producers to a partition led here, for the busiest `metrics.partitions.max`.",
    "topic",
    "partition",
)
REPLICATION_BYTES_IN = _declare("counter", _TOPIC + "replicationbytesin_total", "bytes", "Bytes fetched from leaders.")
REPLICATION_BYTES_OUT = _declare("counter", _TOPIC + "replicationbytesout_total", "bytes", "Bytes read by followers.")
FAILED_PRODUCES = _declare(
    "counter", _TOPIC + "failedproducerequests_total", "partitions", "Writes to a partition that were refused."
)
FAILED_FETCHES = _declare(
    "counter", _TOPIC + "failedfetchrequests_total", "partitions", "Reads of a partition that were refused."
)

# -- requests
_REQUEST = "kafka_network_requestmetrics_"
REQUESTS = _declare("counter", _REQUEST + "requests_total", "requests", "Requests, by API.", "request")
ERRORS = _declare(
    "counter", _REQUEST + "errors_total", "requests", "Requests that ended in a closed connection, by API.", "request"
)
TOTAL_TIME = _declare("histogram", _REQUEST + "totaltimems", "ms", "From the request to its answer.", "request")
LOCAL_TIME = _declare("histogram", _REQUEST + "localtimems", "ms", "What the event loop was busy with it.", "request")
REMOTE_TIME = _declare(
    "summary",
    _REQUEST + "remotetimems",
    "ms",
    "What it waited: for the disk, for replicas, for more records.",
    "request",
)
QUEUE_TIME = _declare(
    "summary", _REQUEST + "requestqueuetimems", "ms", "What it waited behind others that came in one read.", "request"
)
THROTTLE_TIME = _declare(
    "summary", _REQUEST + "throttletimems", "ms", "For how long its client was told to wait.", "request"
)

# -- partitions of this broker
_REPLICAS = "kafka_server_replicamanager_"
PARTITIONS = _declare("gauge", _REPLICAS + "partitioncount", "partitions", "Partitions of which a replica is here.")
LEADERS = _declare("gauge", _REPLICAS + "leadercount", "partitions", "Partitions that this broker leads.")
UNDER_REPLICATED = _declare(
    "gauge", _REPLICAS + "underreplicatedpartitions", "partitions", "Led here, with replicas that are not in sync."
)
UNDER_MIN_ISR = _declare(
    "gauge", _REPLICAS + "underminisrpartitioncount", "partitions", "Led here, with too few in sync for acks=all."
)
AT_MIN_ISR = _declare(
    "gauge", _REPLICAS + "atminisrpartitioncount", "partitions", "Led here, with as few in sync as acks=all allows."
)
OFFLINE_REPLICAS = _declare(
    "gauge", _REPLICAS + "offlinereplicacount", "partitions", "Replicas that are to be here and cannot be served."
)
ISR_SHRINKS = _declare("counter", _REPLICAS + "isrshrinks_total", "changes", "Times that a replica fell out of sync.")
ISR_EXPANDS = _declare("counter", _REPLICAS + "isrexpands_total", "changes", "Times that a replica came into sync.")
FAILED_ISR_UPDATES = _declare(
    "counter", _REPLICAS + "failedisrupdates_total", "changes", "Changes of in-sync sets that the controller refused."
)

# -- the cluster, as its controller sees it
_CONTROLLER = "kafka_controller_kafkacontroller_"
ACTIVE_CONTROLLER = _declare(
    "gauge", _CONTROLLER + "activecontrollercount", "", "1 where the active controller is; 1 in sum over a cluster."
)
OFFLINE_PARTITIONS = _declare(
    "gauge",
    _CONTROLLER + "offlinepartitionscount",
    "partitions",
    "Partitions without a leader; 0 where the active controller is not.",
)
GLOBAL_TOPICS = _declare("gauge", _CONTROLLER + "globaltopiccount", "topics", "Topics of the cluster.")
GLOBAL_PARTITIONS = _declare("gauge", _CONTROLLER + "globalpartitioncount", "partitions", "Partitions of the cluster.")
IMBALANCE = _declare(
    "gauge", _CONTROLLER + "preferredreplicaimbalancecount", "partitions", "Partitions not led by their first replica."
)
ACTIVE_BROKERS = _declare("gauge", _CONTROLLER + "activebrokercount", "brokers", "Brokers that may lead.")
FENCED_BROKERS = _declare(
    "gauge", _CONTROLLER + "fencedbrokercount", "brokers", "Brokers that are registered but not heard from."
)
ELECTIONS = _declare(
    "counter",
    "kafka_controller_controllerstats_leaderelections_total",
    "elections",
    "Partitions given another leader, counted by the active controller.",
)
UNCLEAN_ELECTIONS = _declare(
    "counter",
    "kafka_controller_controllerstats_uncleanleaderelections_total",
    "elections",
    "Of those, the ones whose new leader was not in sync: records may be lost.",
)

# -- the quorum
_RAFT = "kafka_server_raft_metrics_"
RAFT_STATE = _declare("gauge", _RAFT + "current_state", "", "1 at the state that this voter is in.", "state")
RAFT_LEADER = _declare("gauge", _RAFT + "current_leader", "", "The id of the quorum's leader; -1 if none is known.")
RAFT_EPOCH = _declare("gauge", _RAFT + "current_epoch", "", "The epoch of the quorum.")
RAFT_MARK = _declare("gauge", _RAFT + "high_watermark", "records", "Up to where the metadata log is committed.")
METADATA_OFFSET = _declare(
    "gauge", "penstock_metadata_applied_offset", "records", "Up to where metadata is applied here."
)
BROKER_FENCED = _declare("gauge", "penstock_broker_fenced", "", "1 if the cluster does not let this broker lead.")

# -- network
_SOCKETS = "kafka_server_socket_server_metrics_"
CONNECTIONS = _declare("gauge", _SOCKETS + "connection_count", "connections", "Connections that are open.")
CONNECTIONS_CREATED = _declare("counter", _SOCKETS + "connection_creation_total", "connections", "Connections let in.")
CONNECTIONS_REFUSED = _declare(
    "counter", "penstock_connections_refused_total", "connections", "Connections closed at once, for a limit."
)
MEMORY_USED = _declare(
    "gauge", "kafka_network_socketserver_memorypoolused", "bytes", "Memory that half-read requests hold."
)
MEMORY_LEFT = _declare(
    "gauge", "kafka_network_socketserver_memorypoolavailable", "bytes", "What is left of queued.max.request.bytes."
)
CLOSED = _declare(
    "counter",
    "penstock_network_connections_closed_total",
    "connections",
    "Connections that this node closed, by reason: `frame_timeout`, `send_timeout`, `idle`, `read_error`, and where "
    "memory was short `request_memory` and `reply_memory`.",
    "reason",
)
UNSENT = _declare(
    "gauge", "penstock_network_unsent_bytes", "bytes", "Answers in memory that clients have not taken yet."
)

# -- logs
LOG_SIZE = _declare("gauge", "kafka_log_log_size", "bytes", "Bytes of records here, by topic.", "topic")
FLUSH_TIME = _declare(
    "histogram", "kafka_log_logflushstats_logflushrateandtimems", "ms", "How long syncs of files take."
)
OFFLINE_FOLDERS = _declare(
    "gauge", "kafka_log_logmanager_offlinelogdirectorycount", "folders", "Data folders that failed."
)
READ_ONLY_FOLDERS = _declare(
    "gauge",
    "penstock_log_directory_read_only",
    "",
    "1 while the data folder takes no writes, because its disk is full or refuses them.",
)
RESERVED = _declare(
    "gauge",
    "penstock_log_directory_reserved_bytes",
    "bytes",
    "What is left of log.reserve.bytes for the metadata log and checkpoints.",
)
READ_FAILURES = _declare(
    "counter",
    "penstock_log_read_failures_total",
    "reads",
    "Reads of logs, for clients or replicas, that met an I/O error or a file that is too short.",
)
FOLDER_SIZE = _declare(
    "gauge", "penstock_log_directory_size_bytes", "bytes", "The size of the disk with the data folder."
)
FOLDER_FREE = _declare("gauge", "penstock_log_directory_free_bytes", "bytes", "What is free on that disk.")
UNCLEANABLE = _declare(
    "gauge",
    "kafka_log_logcleanermanager_uncleanable_partitions_count",
    "partitions",
    "Compacted partitions that are left alone until the next start, for damage or a failing disk.",
)
DISK_READ = _declare(
    "counter",
    "penstock_disk_read_bytes_total",
    "bytes",
    "Bytes that came from disks; what is read beyond them came from the page cache.",
)
DISK_WRITTEN = _declare("counter", "penstock_disk_written_bytes_total", "bytes", "Bytes that went to disks.")

# -- groups
GROUPS = _declare(
    "gauge", "kafka_coordinator_group_groupmetadatamanager_numgroups", "groups", "Groups coordinated here."
)
GROUP_OFFSET = _declare(
    "gauge",
    "kafka_consumergroup_current_offset",
    "records",
    "What a group has committed, told by its coordinator.",
    "group",
    "topic",
    "partition",
)
GROUP_LAG = _declare(
    "gauge",
    "kafka_consumergroup_lag",
    "records",
    "How far a group is behind, told by its coordinator for partitions that it leads.",
    "group",
    "topic",
    "partition",
)
END_OFFSET = _declare(
    "gauge",
    "kafka_topic_partition_current_offset",
    "records",
    "The end of a partition for consumers, told by its leader.",
    "topic",
    "partition",
)

# -- quotas
MUTED = _declare(
    "gauge", "penstock_quota_muted_connections", "connections", "Connections that are not read from now, for a quota."
)
THROTTLED = _declare(
    "counter", "penstock_quota_throttled_total", "requests", "Requests whose client was muted for a quota."
)
THROTTLED_TIME = _declare("counter", "penstock_quota_throttle_seconds_total", "s", "For how long clients were muted.")

# -- the process
LOOP_LAG = _declare(
    "histogram", "penstock_event_loop_lag_ms", "ms", "How late a timer comes: what everybody waits for."
)
LOOP_HELD = _declare(
    "histogram", "penstock_event_loop_held_ms", "ms", "How long a turn of the event loop took, if over a millisecond."
)
LOOP_HELD_MAX = _declare(
    "gauge", "penstock_event_loop_held_max_ms", "ms", "The longest turn of the event loop since the start."
)
REQUEST_HELD_MAX = _declare(
    "gauge",
    "penstock_request_held_max_ms",
    "ms",
    "For how long a request has kept the event loop without a break, at most, since the start, by API.",
    "request",
)
REQUESTS_HELD_LONG = _declare(
    "counter",
    "penstock_request_held_long_total",
    "requests",
    "Times that a request kept the event loop for more than 10 ms without a break, by API.",
    "request",
)
MEMORY = _declare("gauge", "process_resident_memory_bytes", "bytes", "Memory of the process.")
CPU = _declare("counter", "process_cpu_seconds_total", "s", "Processor time of the process.")
OPEN_FILES = _declare("gauge", "process_open_fds", "files", "Open files and sockets.")
OPEN_FILES_MAX = _declare("gauge", "process_max_fds", "files", "How many there may be.")
STARTED = _declare("gauge", "process_start_time_seconds", "s", "When the process began, since 1970.")
BUILD = _declare("gauge", "penstock_build_info", "", "1; the labels say what runs.", "version", "node_id", "cluster_id")

"""Which handler answers which API key, apart from the hot ones (Produce, Fetch, OffsetCommit).

A handler's module is imported when its first request arrives, off the event loop: the schema classes of all
APIs together cost more time than the rest of the start-up.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Final, cast

from penstock.handlers.context import ColdHandler
from penstock.model.job import Job
from penstock.wire import codec

MODULES: Final[Mapping[int, str]] = MappingProxyType(
    {
        2: "list_offsets",
        3: "metadata",
        9: "offset_fetch",
        10: "find_coordinator",
        11: "join_group",
        12: "heartbeat",
        13: "leave_group",
        14: "sync_group",
        15: "describe_groups",
        16: "list_groups",
        17: "sasl_handshake",
        18: "api_versions",
        19: "create_topics",
        20: "delete_topics",
        21: "delete_records",
        22: "init_producer_id",
        23: "offset_for_leader_epoch",
        24: "add_partitions_to_txn",
        25: "add_offsets_to_txn",
        26: "end_txn",
        27: "write_txn_markers",
        28: "txn_offset_commit",
        29: "describe_acls",
        30: "create_acls",
        31: "delete_acls",
        32: "describe_configs",
        33: "alter_configs",
        34: "alter_replica_log_dirs",
        35: "describe_log_dirs",
        36: "sasl_authenticate",
        37: "create_partitions",
        38: "create_delegation_token",
        39: "renew_delegation_token",
        40: "expire_delegation_token",
        41: "describe_delegation_token",
        42: "delete_groups",
        43: "elect_leaders",
        44: "incremental_alter_configs",
        45: "alter_partition_reassignments",
        46: "list_partition_reassignments",
        47: "offset_delete",
        48: "describe_client_quotas",
        49: "alter_client_quotas",
        50: "describe_user_scram_credentials",
        52: "vote",
        53: "begin_quorum_epoch",
        54: "end_quorum_epoch",
        55: "describe_quorum",
        56: "alter_partition",
        57: "update_features",
        58: "envelope",
        59: "fetch_snapshot",
        60: "describe_cluster",
        61: "describe_producers",
        62: "broker_registration",
        63: "broker_heartbeat",
        64: "unregister_broker",
        65: "describe_transactions",
        66: "list_transactions",
        67: "allocate_producer_ids",
        68: "consumer_group_heartbeat",
        69: "consumer_group_describe",
        70: "controller_registration",
        73: "assign_replicas_to_dirs",
        74: "list_config_resources",
        75: "describe_topic_partitions",
        80: "add_raft_voter",
        81: "remove_raft_voter",
        82: "update_raft_voter",
    }
)


class _LazyHandlers(Mapping[int, ColdHandler]):
    def __init__(self, modules: Mapping[int, str]) -> None:
        self._modules = modules
        self._loaded: dict[int, ColdHandler] = {}

    def __getitem__(self, api_key: int) -> ColdHandler:
        handler = self._loaded.get(api_key)
        if handler is None:
            module = import_module(f"penstock.handlers.{self._modules[api_key]}")
            handler = self._loaded[api_key] = cast(ColdHandler, module.handle)
        return handler

    def __iter__(self) -> Iterator[int]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


COLD: Final[Mapping[int, ColdHandler]] = _LazyHandlers(MODULES)
_loaded: Final[set[tuple[int, int]]] = set()


def is_loaded(api_key: int, version: int) -> bool:
    """Whether a request of this version can be answered without importing anything."""
    return (api_key, version) in _loaded


def loading(api_key: int, version: int) -> Job[None]:
    """Import what answers a request, off the event loop: that may take a tenth of a second."""
    if not is_loaded(api_key, version):
        yield partial(_load, api_key, version)
        _loaded.add((api_key, version))


def _load(api_key: int, version: int) -> None:
    COLD[api_key]
    codec.load(api_key, version)

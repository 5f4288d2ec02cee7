"""The nodes of a machine that `penstock start --cores` runs: their ids, ports, folders and options. No I/O but listing.

Core c of machine m is node m + 1000 c. All its ports are those of the machine plus c. Core 0 has the machine's own id,
ports and data folder, so that the folder of a single node can be used with more cores. Only core 0 is a controller.
Raises CommandError.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.cli.errors import CommandError
from penstock.config.broker import BROKER
from penstock.storage.partition_folder import METADATA_FOLDER, is_partition_like

ID_STEP: Final = 1000
"""The difference between the node ids of neighbouring cores, and so the upper limit of machine ids."""
FOLDER: Final = "cores"
"""The folder of the further cores in the data folder. `core-1` would be a partition of the topic `core`."""
PORT_MAX: Final = 65535
NODES_LISTENER: Final = "NODES"
_SHARED_MEMORY: Final = {
    "queued.max.request.bytes": 1 << 20,
    "group.metadata.memory.max.bytes": 1 << 20,
    "log.cleaner.dedupe.buffer.size": 4 << 20,
}
"""Memory limits of the machine, of which each core gets a part, with the least that a core needs."""
_WILDCARDS: Final = ("", "0.0.0.0", "::")


def parse_cores(text: str | None) -> int:
    """Return the number of cores: a number, or `auto` for all that this process may use."""
    if text is None:
        return 1
    if text == "auto":
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not text.isdigit() or not 1 <= int(text) <= 256:
        raise CommandError(f"Invalid number of cores '{text}': expected a number from 1 to 256, or 'auto'.")
    return int(text)


def check_drained(options: Mapping[str, str], count: int) -> None:
    """Raise CommandError if cores that are not started any more still hold replicas."""
    data = Path(options["log.dirs"])
    left = cores_with_replicas(data, first=count)
    if left:
        nodes = " ".join(str(node_id_of(options, core)) for core in left)
        raise CommandError(
            f"Core {', '.join(map(str, left))} in {data} holds replicas, and --cores {count} would not start it. Start "
            f"with --cores {left[-1] + 1}, run 'penstock cluster drain {nodes}', and then start with fewer cores."
        )


def node_id_of(options: Mapping[str, str], core: int) -> int:
    """Return the node id of a core from the options of its machine."""
    machine = int(options.get("node.id") or options.get("broker.id") or str(BROKER["node.id"].default))
    if machine >= ID_STEP:
        raise CommandError(
            f"Node id {machine} cannot be used with --cores: core c gets the id of the machine plus {ID_STEP} c. "
            f"Choose an id below {ID_STEP}."
        )
    return machine + ID_STEP * core


def core_folder(data: Path, core: int) -> Path:
    """Return the data folder of a core."""
    return data if core == 0 else data / FOLDER / str(core)


def cores_with_replicas(data: Path, *, first: int) -> list[int]:
    """Return the cores from `first` on whose folders hold partitions."""
    folder = data / FOLDER
    names = os.listdir(folder) if folder.is_dir() else []
    found = sorted(int(name) for name in names if name.isascii() and name.isdigit())
    return [core for core in found if core >= first and _holds_replicas(core_folder(data, core))]


def _holds_replicas(folder: Path) -> bool:
    return folder.is_dir() and any(is_partition_like(name) and name != METADATA_FOLDER for name in os.listdir(folder))


def core_options(options: Mapping[str, str], *, core: int, count: int) -> dict[str, str]:
    """Return the options of one of `count` cores from the options of the machine.

    `options` has values for `log.dirs` and `listeners`. Without controllers, core 0 is the only one.
    """
    if "controller" in options.get("process.roles", "") and "broker" not in options["process.roles"]:
        raise CommandError("A machine with several cores must be a broker: add 'broker' to process.roles.")
    if "," in options["log.dirs"]:
        raise CommandError("--cores uses one data folder for all cores: give a single one with --data or log.dirs.")
    own = dict(options)
    own.pop("broker.id", None)
    own.pop("metrics.listener", None)
    own["node.id"] = str(node_id_of(options, core))
    own["log.dirs"] = str(core_folder(Path(options["log.dirs"]), core))
    for name, least in _SHARED_MEMORY.items():
        whole = int(options.get(name) or str(BROKER[name].default))
        # Negative values mean no limit.
        own[name] = str(max(whole // count, least) if whole > 0 else whole)
    if not options.get("controller.quorum.voters") and not options.get("controller.quorum.bootstrap.servers"):
        own["controller.quorum.voters"] = f"{node_id_of(options, 0)}@{_controller_address(options)}"
    if core > 0:
        controller_only = _names(options.get("controller.listener.names", ""))
        own["process.roles"] = "broker"
        own["listeners"] = _shifted(options["listeners"], core, without=controller_only)
        if options.get("advertised.listeners"):
            own["advertised.listeners"] = _shifted(options["advertised.listeners"], core, without=controller_only)
    return own


def secure_options(listener: str, address: str, count: int) -> dict[str, str]:
    """Return the options of a secured machine: clients log in at `address`, cores use their certificates.

    The ports for the cores' own connections follow those for clients.
    """
    host, _, port = address.rpartition(":")
    return {
        "listeners": f"{listener}://{address},{NODES_LISTENER}://{host}:{int(port) + count}",
        "listener.security.protocol.map": f"{listener}:SASL_SSL,{NODES_LISTENER}:SSL",
        "inter.broker.listener.name": NODES_LISTENER,
        f"listener.name.{NODES_LISTENER.lower()}.ssl.client.auth": "required",
    }


def _names(text: str) -> list[str]:
    return [name.strip().upper() for name in text.split(",") if name.strip()]


def _entries(listeners: str) -> list[tuple[str, str, int]]:
    """Return name, host and port of each listener."""
    found = []
    for entry in listeners.split(","):
        name, _, address = entry.strip().partition("://")
        host, _, port = address.rpartition(":")
        if not port.isdigit() or int(port) == 0:
            raise CommandError(
                f"--cores needs fixed ports, because core c listens on the port plus c: change '{entry}'."
            )
        found.append((name.upper(), host, int(port)))
    return found


def _shifted(listeners: str, core: int, *, without: list[str]) -> str:
    """Return listeners with the ports of a core."""
    entries = [entry for entry in _entries(listeners) if entry[0] not in without]
    if any(port + core > PORT_MAX for _, _, port in entries):
        raise CommandError(f"There is no port for core {core}: choose a lower port than that of '{listeners}'.")
    return ",".join(f"{name}://{host}:{port + core}" for name, host, port in entries)


def _controller_address(options: Mapping[str, str]) -> str:
    """Return where the other cores reach core 0, the controller."""
    entries = _entries(options["listeners"])
    wanted = [
        *_names(options.get("controller.listener.names", "")),
        *_names(options.get("inter.broker.listener.name", "")),
    ]
    _, host, port = next((entry for name in wanted for entry in entries if entry[0] == name), entries[0])
    return f"{'localhost' if host.strip('[]') in _WILDCARDS else host}:{port}"

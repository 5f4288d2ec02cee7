from pathlib import Path

import pytest

from penstock.cli.cluster.core_options import core_options, cores_with_replicas, secure_options
from penstock.cli.errors import CommandError
from penstock.config.settings import BrokerSettings

MACHINE = {"node.id": "2", "log.dirs": "/data", "listeners": "PLAINTEXT://alpha:9092"}


def test_core_0_keeps_the_id_the_ports_and_the_folder_of_the_machine() -> None:
    options = core_options(MACHINE, core=0, count=4)
    assert {name: options[name] for name in MACHINE} == MACHINE
    assert options["controller.quorum.voters"] == "2@alpha:9092"


def test_further_cores_are_brokers_with_their_own_ids_ports_and_folders() -> None:
    options = core_options({**MACHINE, "advertised.listeners": "PLAINTEXT://beta:19092"}, core=3, count=4)
    assert options["node.id"] == "3002"
    assert options["log.dirs"] == "/data/cores/3"
    assert options["listeners"] == "PLAINTEXT://alpha:9095"
    assert options["advertised.listeners"] == "PLAINTEXT://beta:19095"
    assert options["process.roles"] == "broker"
    assert options["controller.quorum.voters"] == "2@alpha:9092"


def test_machines_of_a_cluster_keep_their_controllers() -> None:
    voters = "1@alpha:9092,2@beta:9092,3@gamma:9092"
    for core in (0, 1):
        assert (
            core_options({**MACHINE, "controller.quorum.voters": voters}, core=core, count=2)[
                "controller.quorum.voters"
            ]
            == voters
        )
    servers = {**MACHINE, "controller.quorum.bootstrap.servers": "alpha:9092"}
    assert "controller.quorum.voters" not in core_options(servers, core=1, count=2)


def test_only_core_0_has_the_listeners_of_controllers() -> None:
    machine = {
        **MACHINE,
        "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9192",
        "controller.listener.names": "CONTROLLER",
        "process.roles": "broker,controller",
    }
    assert core_options(machine, core=0, count=2)["listeners"] == machine["listeners"]
    second = core_options(machine, core=1, count=2)
    assert second["listeners"] == "PLAINTEXT://0.0.0.0:9093"
    assert second["controller.quorum.voters"] == "2@localhost:9192"


def test_memory_is_divided_between_the_cores() -> None:
    machine = {**MACHINE, "queued.max.request.bytes": str(80 << 20), "group.metadata.memory.max.bytes": "1000000"}
    options = core_options(machine, core=1, count=4)
    assert options["queued.max.request.bytes"] == str(20 << 20)
    assert options["group.metadata.memory.max.bytes"] == str(1 << 20)
    assert options["log.cleaner.dedupe.buffer.size"] == str(32 << 20)
    assert (
        core_options({**MACHINE, "queued.max.request.bytes": "-1"}, core=0, count=4)["queued.max.request.bytes"] == "-1"
    )


def test_a_secured_machine_has_a_listener_for_its_cores() -> None:
    machine = {**MACHINE, **secure_options("SASL_SSL", "alpha:9092", 4)}
    options = core_options(machine, core=2, count=4)
    assert options["listeners"] == "SASL_SSL://alpha:9094,NODES://alpha:9098"
    assert options["controller.quorum.voters"] == "2@alpha:9096"


def test_the_options_of_every_core_are_valid() -> None:
    for core in range(16):
        settings = BrokerSettings.load(overrides={**core_options(MACHINE, core=core, count=16), "cluster.id": "c"})
        assert settings.integer("default.replication.factor") == 1, "siblings are no cluster that survives a loss"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node.id": "1000"}, "Choose an id below 1000"),
        ({"listeners": "PLAINTEXT://alpha:0"}, "needs fixed ports"),
        ({"listeners": "PLAINTEXT://alpha:65534"}, "There is no port for core 3"),
        ({"process.roles": "controller"}, "must be a broker"),
    ],
)
def test_impossible_machines_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        core_options({**MACHINE, **changes}, core=3, count=4)


def test_a_core_holds_replicas_as_long_as_its_folder_has_partitions(tmp_path: Path) -> None:
    assert cores_with_replicas(tmp_path, first=1) == []
    for core, names in {1: ["orders-0"], 2: ["__cluster_metadata-0"], 3: ["orders-2.abc-delete"], 11: ["t-1"]}.items():
        for name in names:
            (tmp_path / "cores" / str(core) / name).mkdir(parents=True)
    assert cores_with_replicas(tmp_path, first=1) == [1, 11]
    assert cores_with_replicas(tmp_path, first=2) == [11]

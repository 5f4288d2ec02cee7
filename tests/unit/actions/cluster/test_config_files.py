from pathlib import Path

import pytest

from penstock.actions.cluster.config_files import plan, read, write
from penstock.actions.errors import ActionError
from penstock.config.properties import parse_properties


def test_nodes_on_one_host_get_consecutive_ports(tmp_path: Path) -> None:
    nodes = plan(tmp_path, hosts=["localhost"] * 3, first_port=9092, racks=[], one_host=True)
    assert [(node.node_id, node.address) for node in nodes] == [
        (1, "localhost:9092"),
        (2, "localhost:9093"),
        (3, "localhost:9094"),
    ]


def test_racks_must_fit_the_number_of_nodes(tmp_path: Path) -> None:
    with pytest.raises(ActionError, match="Cannot assign 2 racks to 3 nodes: give one rack per node"):
        plan(tmp_path, hosts=["a", "b", "c"], first_port=1, racks=["x", "y"], one_host=False)


def test_the_files_of_a_cluster_share_its_id_and_its_three_voters(tmp_path: Path) -> None:
    nodes = plan(tmp_path, hosts=["a", "b", "c", "d"], first_port=1, racks=["x"], one_host=False)
    assert len(write(nodes[:1], {})) == 1
    assert write(nodes, {"num.partitions": "3"}) == [node.config for node in nodes[1:]]
    files = [parse_properties(node.config.read_text()) for node in nodes]
    assert len({file["cluster.id"] for file in files}) == 1
    assert files[3]["controller.quorum.voters"] == "1@a:1,2@b:1,3@c:1"
    assert (files[2]["process.roles"], files[3]["process.roles"]) == ("broker,controller", "broker")
    assert (files[3]["num.partitions"], files[3]["broker.rack"]) == ("3", "x")
    assert write(nodes, {}) == []


def test_a_host_may_name_its_port(tmp_path: Path) -> None:
    nodes = plan(tmp_path, hosts=["a:9701", "b", "[::1]:9703"], first_port=9092, racks=[], one_host=False)
    assert [(node.host, node.port) for node in nodes] == [("a", 9701), ("b", 9092), ("::1", 9703)]


def test_files_are_read_back_as_they_were_planned(tmp_path: Path) -> None:
    nodes = plan(tmp_path, hosts=["a:9701", "b:9702"], first_port=1, racks=["x"], one_host=False)
    write(nodes, {})
    assert read(tmp_path) == nodes
    assert read(tmp_path / "empty") == []


def test_relative_paths_of_an_older_release_are_next_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "node-1.properties").write_text("node.id=1\nlisteners=PLAINTEXT://a:1\nlog.dirs=cluster/node-1\n")
    (node,) = read(tmp_path)
    assert node.data == tmp_path / "node-1"


def test_a_file_that_says_too_little_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node-1.properties").write_text("node.id=1\n")
    with pytest.raises(ActionError, match=r"does not set 'node.id' and 'listeners'"):
        read(tmp_path)

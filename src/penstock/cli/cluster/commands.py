"""The commands of penstock cluster. supervisor.py runs a local cluster, reassignment.py shows progress."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from penstock.actions.addresses import DEFAULT_PORT
from penstock.actions.cluster import config_files
from penstock.actions.connection import Connection
from penstock.actions.plurals import count_of
from penstock.cli.arguments import SecureOption, parse_list, parse_pairs
from penstock.cli.completion import complete_topic
from penstock.cli.confirm import YesOption, confirm
from penstock.cli.connection_options import CommandConfigOption, PropertyOption, read_properties
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

app = typer.Typer(
    help="Start a local cluster, and manage the nodes of any cluster.",
    epilog="Example: penstock cluster start --nodes 3 --data ./cluster --port 9092",
    no_args_is_help=True,
)

DEFAULT_NODES = 3
DataOption = Annotated[
    Path, typer.Option("--data", "-d", metavar="DIR", help="Folder of configuration files and records.")
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="NAME=VALUE", help="Broker option of all nodes. Repeatable.")
]
RacksOption = Annotated[str, typer.Option("--racks", metavar="A,B,C", help="Comma-separated racks of the nodes.")]
WaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Show progress until all replicas have moved, or return immediately.")
]
NodeArgument = Annotated[int, typer.Argument(metavar="NODE", help="Node id.", show_default=False)]


@app.command("start", epilog="Example: penstock cluster start --nodes 3 --data ./cluster --port 9092 --restart")
def start(
    nodes: Annotated[
        int | None, typer.Option("--nodes", "-n", min=1, max=100, help="Number of nodes.", show_default="3")
    ] = None,
    data: DataOption = Path("./cluster"),
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=1, max=65535, help="Port of the first node; the others count up.", show_default="9092"
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="Host name to listen on and to advertise.")] = "localhost",
    racks: RacksOption = "",
    restart: Annotated[bool, typer.Option("--restart", help="Restart nodes that exit.")] = False,
    settings: SetOption = None,
    secure: SecureOption = False,
    log_level: Annotated[str, typer.Option("--log-level", help="Log level: debug, info, warning or error.")] = "info",
) -> None:
    """Run a cluster on this machine until Ctrl-C, 'penstock cluster stop' or the end of its terminal.

    The first start writes a configuration file for each node; later starts use the existing files.
    """
    from penstock.cli.cluster import supervisor

    pairs = parse_pairs(settings or [], example="--set num.partitions=3")
    plans = config_files.read(data)
    if plans:
        _check_options(data, plans, count=nodes, first_port=port)
        if secure:
            _check_secured(data)
    else:
        hosts = [host] * (nodes or DEFAULT_NODES)
        plans = config_files.plan(
            data, hosts=hosts, first_port=port or DEFAULT_PORT, racks=parse_list(racks), one_host=True
        )
        config_files.write(plans, pairs, _secured(data, host, plans) if secure else None)
    options = [word for name, value in pairs.items() for word in ("--set", f"{name}={value}")]
    supervisor.run(data, plans, restart=restart, options=[*options, "--log-level", log_level])


def _secured(data: Path, host: str, plans: Sequence[config_files.NodePlan]) -> list[dict[str, str]]:
    """Create the certificates and the user of a secured cluster; return the options of its nodes."""
    from penstock.actions.secure_folder import SecureFolder, host_names

    folder = SecureFolder(data)
    if not folder.exists:
        folder.create(hosts=host_names(host), bootstrap=",".join(plan.address for plan in plans))
    typer.echo(f"client properties: {folder.client_file}, for Java: {folder.java_client_file}", err=True)
    return config_files.secure_options(plans, folder)


def _check_secured(data: Path) -> None:
    from penstock.actions.secure_folder import SecureFolder

    if not SecureFolder(data).exists:
        raise CommandError(
            f"The cluster in {data} was created without --secure. Start with another folder, or secure it step by "
            "step as in docs/guides/security.md."
        )


@app.command("stop", epilog="Example: penstock cluster stop --data ./cluster")
def stop(data: DataOption = Path("./cluster")) -> None:
    """Stop the cluster that 'penstock cluster start' or 'penstock start --cores' runs on this machine."""
    from penstock.cli.cluster.local import stop_cluster

    pid = stop_cluster(data)
    print(f"stopped the cluster in {data} (process {pid})")


@app.command("restart", epilog="Example: penstock cluster restart --data ./cluster")
def restart(
    data: DataOption = Path("./cluster"),
    command_config: CommandConfigOption = None,
    client_property: PropertyOption = None,
) -> None:
    """Restart the nodes of a local cluster, or the cores of this machine, one by one.

    Each restarts after the previous one is in sync.
    For a cluster that was started with --secure, the default of --command-config is its own file.
    """
    from penstock.actions.secure_folder import SecureFolder
    from penstock.cli.cluster.cores import read_nodes
    from penstock.cli.cluster.local import supervised_folder
    from penstock.cli.cluster.restart import restart_cluster

    nodes = config_files.read(data) or read_nodes(data)
    if not nodes:
        raise CommandError(f"{data} contains no cluster. Pass the folder of a running one with --data.")
    secured = SecureFolder(data)
    file = secured.client_file if command_config is None and secured.exists else command_config
    properties = read_properties(file, client_property or [])
    connection = Connection(",".join(node.address for node in nodes), properties)
    restart_cluster(supervised_folder(data), nodes, connection, report=lambda line: print(line, flush=True))


@app.command("init", epilog="Example: penstock cluster init --hosts alpha,beta,gamma --data ./configuration")
def init(
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="A,B,C", help="Comma-separated HOST or HOST:PORT, one per node.")
    ],
    data: DataOption = Path("./cluster"),
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="Port of every node.")] = 9092,
    racks: RacksOption = "",
    settings: SetOption = None,
) -> None:
    """Write the configuration files of a cluster on several machines.

    Then run 'penstock start --config FILE' on each machine.
    """
    names = parse_list(hosts)
    if not names:
        raise CommandError("--hosts is empty. Pass host names, for example --hosts alpha,beta,gamma.")
    pairs = parse_pairs(settings or [], example="--set num.partitions=3")
    one_host = len(set(names)) < len(names)
    plans = config_files.plan(data, hosts=names, first_port=port, racks=parse_list(racks), one_host=one_host)
    written = config_files.write(plans, pairs)
    for path in written:
        print(f"wrote {path}")
    if not written:
        print("all files exist; nothing was changed")


@app.command("status", epilog="Example: penstock cluster status")
def status(connection: Connection, format: FormatOption = Format.TABLE) -> None:
    """Show brokers and problems of partitions. Exits with code 1 if there is a problem."""
    from penstock.actions.cluster.status import broker_rows, find_problems

    rows, problems = broker_rows(connection), find_problems(connection)
    show(rows, ["node", "address", "rack", "state", "leads", "replicas", "behind"], format)
    if format is Format.TABLE:
        print()
        for line in problems or ["Every partition has a leader, and all its replicas are in sync."]:
            print(line)
    if problems:
        raise typer.Exit(1)


@app.command("nodes", epilog="Example: penstock cluster nodes --format json")
def nodes(connection: Connection, format: FormatOption = Format.TABLE) -> None:
    """List nodes and their roles."""
    from penstock.actions.cluster.status import node_rows

    show(node_rows(connection), ["node", "address", "rack", "roles", "state"], format)


@app.command("quorum", epilog="Example: penstock cluster quorum")
def quorum(connection: Connection, format: FormatOption = Format.TABLE) -> None:
    """Show the leader, voters and observers of the metadata quorum."""
    from penstock.actions.cluster.status import quorum_rows

    summary, rows = quorum_rows(connection)
    if format is Format.TABLE:
        print(summary)
    show(rows, ["node", "role", "end_offset", "behind", "last_fetch"], format)


@app.command("move", epilog="Example: penstock cluster move orders --partition 0 --to 2,3,1")
def move(
    connection: Connection,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="Topic name.", show_default=False, autocompletion=complete_topic)
    ],
    to: Annotated[str, typer.Option("--to", metavar="N,N,N", help="Node ids of the replicas; the first leads.")],
    partition: Annotated[
        int, typer.Option("--partition", min=-1, help="Only this partition.", show_default="all")
    ] = -1,
    wait: WaitOption = True,
) -> None:
    """Move the replicas of a topic or of one partition to other nodes.

    For a whole topic, the order of the nodes is rotated from partition to partition, so that each leads some.
    """
    from penstock.actions.cluster.reassignment import find_shared_hosts, plan_topic
    from penstock.cli.cluster.reassignment import reassign

    if not all(word.isdigit() for word in parse_list(to)):
        raise CommandError(f"Invalid node ids '{to}': expected numbers separated by commas, for example --to 1,2,3.")
    targets = tuple(int(word) for word in parse_list(to))
    moves = plan_topic(connection, topic, None if partition < 0 else partition, targets)
    for host in find_shared_hosts(connection, targets):
        print(f"warning: several of these nodes are on the host {host}, and fail with it", file=sys.stderr)
    reassign(connection, moves, wait=wait)


@app.command("drain", epilog="Example: penstock cluster drain 3")
def drain(
    connection: Connection,
    nodes: Annotated[list[int], typer.Argument(metavar="NODE", help="Node ids.", show_default=False)],
    wait: WaitOption = True,
    yes: YesOption = False,
) -> None:
    """Move all replicas off one or several nodes, so that they can be removed."""
    from penstock.actions.cluster.reassignment import plan_drain
    from penstock.cli.cluster.reassignment import reassign

    named = ", ".join(map(str, nodes))
    moves = plan_drain(connection, nodes)
    confirm(f"Move {count_of(len(moves), 'replica')} off node {named}?", yes=yes or not moves)
    reassign(connection, moves, wait=wait)
    if wait:
        commands = " and ".join(f"'penstock cluster remove {node}'" for node in nodes)
        print(f"Node {named} holds no replicas. Stop it, then run {commands}.")


@app.command("remove", epilog="Example: penstock cluster remove 3")
def remove(connection: Connection, node: NodeArgument, yes: YesOption = False) -> None:
    """Remove a node that was drained and stopped from the cluster."""
    from penstock.actions.cluster.reassignment import check_removable, unregister_node

    check_removable(connection, node)
    confirm(f"Remove node {node} from the cluster?", yes=yes)
    unregister_node(connection, node)
    print(f"removed node {node} from the cluster")


@app.command("rebalance", epilog="Example: penstock cluster rebalance --replicas")
def rebalance(
    connection: Connection,
    replicas: Annotated[bool, typer.Option("--replicas", help="Spread replicas evenly over the nodes first.")] = False,
    wait: WaitOption = True,
    yes: YesOption = False,
) -> None:
    """Elect the preferred leader of every partition."""
    from penstock.actions.cluster.reassignment import elect_preferred_leaders, plan_even_spread
    from penstock.cli.cluster.reassignment import reassign

    if replicas:
        moves = plan_even_spread(connection)
        confirm(f"Move {count_of(len(moves), 'replica')}?", yes=yes or not moves)
        reassign(connection, moves, wait=wait)
    changed = elect_preferred_leaders(connection)
    elected = f"elected the preferred leader of {count_of(changed, 'partition')}"
    print(elected if changed else "every partition has its preferred leader")


def _check_options(
    folder: Path, nodes: Sequence[config_files.NodePlan], *, count: int | None, first_port: int | None
) -> None:
    """Raise CommandError if options contradict the files of an existing cluster."""
    if count is not None and count != len(nodes):
        raise CommandError(
            f"{folder} holds a cluster of {len(nodes)} nodes, not {count}. Omit --nodes, or pass another --data."
        )
    if first_port is not None and first_port != nodes[0].port:
        raise CommandError(
            f"The first node in {folder} listens on port {nodes[0].port}, not {first_port}. Omit --port, change the "
            "'listeners' and 'controller.quorum.voters' of every file, or pass another --data."
        )

"""The commands of penstock cluster. Starting goes to supervisor.py, moving to moves.py, asking to penstock.admin."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.actions.connection import DEFAULT_BOOTSTRAP, BootstrapOption, parse_pairs, reach
from penstock.actions.cluster import config_files
from penstock.cli.errors import CommandError
from penstock.cli.output import Format, FormatOption, show

app = typer.Typer(
    help="Start a local cluster, and look after one that runs anywhere.",
    epilog="Example: penstock cluster start --nodes 3 --data ./cluster --port 9092",
    no_args_is_help=True,
)

DataOption = Annotated[Path, typer.Option("--data", "-d", metavar="DIR", help="Where configuration and records live.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", "-s", metavar="KEY=VALUE", help="A setting for every node; repeatable.")
]
RacksOption = Annotated[str, typer.Option("--racks", metavar="A,B,C", help="The rack of each node, in their order.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Show the progress until everything has moved.")]


@app.command("start", epilog="Example: penstock cluster start --nodes 3 --data ./cluster --port 9092 --restart")
def start(
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, max=100, help="How many.")] = 3,
    data: DataOption = Path("./cluster"),
    port: Annotated[
        int, typer.Option("--port", "-p", min=1, max=65535, help="The first port; the others follow.")
    ] = 9092,
    host: Annotated[str, typer.Option("--host", help="The name to listen on and to give to clients.")] = "localhost",
    racks: RacksOption = "",
    restart: Annotated[bool, typer.Option("--restart", help="Start a node again that has died.")] = False,
    settings: SetOption = None,
    log_level: Annotated[str, typer.Option("--log-level", help="How much each node says in its log.")] = "info",
) -> None:
    """Run a cluster of nodes as processes of this machine, until SIGTERM or Ctrl-C.

    The first start writes one configuration file per node to the folder; later starts use them as they are.
    """
    from penstock.cli.cluster import supervisor

    pairs = parse_pairs(settings or [], option="--set num.partitions=3")
    plans = files.plan(data, hosts=[host] * nodes, first_port=port, racks=_words(racks), one_host=True)
    files.write(plans, pairs)
    more = [word for key, value in pairs.items() for word in ("--set", f"{key}={value}")]
    supervisor.run(plans, restart=restart, more=[*more, "--log-level", log_level])


@app.command("init", epilog="Example: penstock cluster init --hosts alpha,beta,gamma --data ./configuration")
def init(
    hosts: Annotated[str, typer.Option("--hosts", metavar="A,B,C", help="The machines, one node each.")],
    data: DataOption = Path("./cluster"),
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="The port of every node.")] = 9092,
    racks: RacksOption = "",
    settings: SetOption = None,
) -> None:
    """Write the configuration of a cluster on several machines; each then runs penstock start --config FILE."""
    names = _words(hosts)
    if not names:
        raise CommandError("No machine is named: write for example --hosts alpha,beta,gamma.")
    pairs = parse_pairs(settings or [], option="--set num.partitions=3")
    plans = files.plan(data, hosts=names, first_port=port, racks=_words(racks), one_host=len(set(names)) < len(names))
    written = files.write(plans, pairs)
    for path in written:
        print(f"wrote {path}")
    if not written:
        print("every file is there already; nothing was changed")


@app.command("status", epilog="Example: penstock cluster status")
def status(format: FormatOption = Format.TABLE, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Show each broker's share, and whether every partition is in order. Exit code 1 if one is not."""
    from penstock.actions.cluster.status import broker_rows, health

    reach(bootstrap)
    rows, columns, trouble = broker_rows(bootstrap), None, health(bootstrap)
    columns = ["node", "address", "rack", "state", "leads", "replicas", "behind"]
    show(rows, columns, format)
    if format is Format.TABLE:
        print()
        for line in trouble or ["Every partition has a leader, and all its replicas are in sync."]:
            print(line)
    if trouble:
        raise typer.Exit(1)


@app.command("nodes", epilog="Example: penstock cluster nodes --format json")
def nodes(format: FormatOption = Format.TABLE, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """List the nodes with their roles."""
    from penstock.actions.cluster.status import node_rows

    reach(bootstrap)
    show(node_rows(bootstrap), ["node", "address", "rack", "roles", "state"], format)


@app.command("quorum", epilog="Example: penstock cluster quorum")
def quorum(format: FormatOption = Format.TABLE, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Show the metadata quorum: who leads it, who votes, how far behind each is."""
    from penstock.actions.cluster.status import quorum_rows

    reach(bootstrap)
    summary, rows = quorum_rows(bootstrap)
    if format is Format.TABLE:
        print(summary)
    show(rows, ["node", "role", "end_offset", "behind", "last_fetch"], format)


@app.command("move", epilog="Example: penstock cluster move orders --partition 0 --to 2,3,1")
def move(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic.", show_default=False)],
    to: Annotated[
        str, typer.Option("--to", metavar="N,N,N", help="The nodes of its replicas; the first is preferred.")
    ],
    partition: Annotated[
        int, typer.Option("--partition", min=-1, help="One partition.", show_default="all of them")
    ] = -1,
    wait: WaitOption = True,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Put the replicas of a topic, or of one partition, on these nodes."""
    from penstock.actions.cluster import reassignment

    reach(bootstrap)
    if not all(word.isdigit() for word in _words(to)):
        raise CommandError(f"'{to}' is no list of nodes: write for example --to 1,2,3.")
    targets = tuple(int(word) for word in _words(to))
    moves.carry_out(bootstrap, moves.for_topic(bootstrap, topic, partition, targets), wait=wait)


@app.command("drain", epilog="Example: penstock cluster drain 3   then stop the node, and: penstock cluster remove 3")
def drain(
    node: Annotated[int, typer.Argument(metavar="NODE", help="The number of the node.", show_default=False)],
    wait: WaitOption = True,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Move every replica off a node, so that it can be taken away with nothing lost."""
    from penstock.actions.cluster import reassignment

    reach(bootstrap)
    planned = moves.off_node(bootstrap, node)
    _confirm(f"Move {len(planned)} replicas off node {node}?", yes=yes or not planned)
    moves.carry_out(bootstrap, planned, wait=wait)
    if wait:
        print(f"Node {node} holds no replica: stop it, then 'penstock cluster remove {node}' forgets it.")


@app.command("remove", epilog="Example: penstock cluster remove 3")
def remove(
    node: Annotated[int, typer.Argument(metavar="NODE", help="The number of the node.", show_default=False)],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Forget a node that was drained and stopped. Refused while a partition has a replica there."""
    from penstock.actions.cluster import reassignment

    reach(bootstrap)
    moves.forget(bootstrap, node)
    print(f"node {node} is no longer part of the cluster")


@app.command("rebalance", epilog="Example: penstock cluster rebalance --replicas")
def rebalance(
    replicas: Annotated[bool, typer.Option("--replicas", help="Even out the replicas too, not just leaders.")] = False,
    wait: WaitOption = True,
    yes: YesOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Give partitions their preferred leaders back; with --replicas, spread the replicas evenly first."""
    from penstock.actions.cluster import reassignment

    reach(bootstrap)
    if replicas:
        planned = moves.spread_evenly(bootstrap)
        _confirm(f"Move {len(planned)} replicas?", yes=yes or not planned)
        moves.carry_out(bootstrap, planned, wait=wait)
    changed = moves.elect_preferred(bootstrap)
    print(f"{changed} partitions have another leader now" if changed else "every leader is the preferred one")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _confirm(question: str, *, yes: bool) -> None:
    if not yes and not typer.confirm(question):
        raise typer.Abort()

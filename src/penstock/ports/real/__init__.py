"""The ports on the operating system: files, sockets, clocks, processes. The simulator has its own."""

from penstock.ports.instruments import Instruments
from penstock.ports.real.child import RealChildren
from penstock.ports.real.clock import RealClock
from penstock.ports.real.disk import RealDisk
from penstock.ports.real.documents import RealDocuments
from penstock.ports.real.entropy import RealEntropy
from penstock.ports.real.http import RealHttp
from penstock.ports.real.network import RealNetwork
from penstock.ports.real.offload import ThreadOffload
from penstock.ports.real.process import process_usage

__all__ = [
    "RealChildren",
    "RealClock",
    "RealDisk",
    "RealDocuments",
    "RealEntropy",
    "RealNetwork",
    "ThreadOffload",
    "real_instruments",
]


def real_instruments(disk: RealDisk, network: RealNetwork) -> Instruments:
    return Instruments(
        stopwatch=network,
        watch=network.watch,
        http=RealHttp(),
        network_usage=network.usage,
        process_usage=process_usage,
        time_syncs=disk.time_syncs,
    )

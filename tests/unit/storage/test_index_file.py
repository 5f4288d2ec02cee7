from penstock.storage.offset_index import OffsetIndex
from penstock.storage.time_index import TimeIndex
from penstock_sim.disk import SimDisk

LOG = "/data/a.log-0/00000000000000000000.log"


def test_the_path_of_an_index_follows_from_that_of_the_log() -> None:
    assert OffsetIndex(LOG, 0).path == "/data/a.log-0/00000000000000000000.index"
    assert TimeIndex(LOG + ".swap", 0).path == "/data/a.log-0/00000000000000000000.timeindex.swap"


def test_a_renamed_index_is_read_under_its_new_name() -> None:
    index = OffsetIndex(LOG, 0)
    index.path += ".cleaned"
    assert index.path == "/data/a.log-0/00000000000000000000.index.cleaned"
    index.path = index.path.removesuffix(".cleaned")
    assert index.path == "/data/a.log-0/00000000000000000000.index"


def test_entries_are_saved_together_and_dropped_entries_never() -> None:
    disk, index = SimDisk(), OffsetIndex("/0.log", 0)
    for number in range(3):
        index.append(number, 100 * number)
    index.truncate(200)
    assert index.unsaved_size() == 16
    index.save(disk)
    assert (index.unsaved_size(), len(disk.read_file("/0.index"))) == (0, 16)
    index.append(5, 500)
    index.save(disk)
    assert len(disk.read_file("/0.index")) == 24

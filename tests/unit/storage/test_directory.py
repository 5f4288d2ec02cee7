from penstock.storage.directory import LogDirectory, OpenFiles
from penstock_sim.disk import SimDisk


def test_the_least_recently_used_handle_is_dropped_first() -> None:
    disk = SimDisk()
    for name in "abc":
        disk.open(f"/{name}", create=True)
    files = OpenFiles(disk, most=2)
    a, b = files.get("/a"), files.get("/b")
    assert files.get("/a") is a
    files.get("/c")
    assert files.get("/a") is a
    assert files.get("/b") is not b


def test_a_forgotten_handle_is_opened_again() -> None:
    disk = SimDisk()
    disk.open("/a", create=True)
    files = OpenFiles(disk)
    first = files.get("/a")
    files.forget("/a")
    assert files.get("/a") is not first


def test_only_the_first_failure_is_reported() -> None:
    directory = LogDirectory(SimDisk(), "/data")
    told: list[OSError] = []
    directory.on_failure = told.append
    first = OSError(5, "first")
    directory.fail(first)
    directory.fail(OSError(5, "second"))
    assert told == [first]
    assert directory.failure is first

"""Tests of functions that not every build of Python has."""

import os

import pytest

from penstock.ports.real.c_library import create_memory_file, find_function


@pytest.mark.parametrize("python_has_it", [True, False])
def test_a_memory_file_is_written_and_read(monkeypatch: pytest.MonkeyPatch, python_has_it: bool) -> None:
    if not python_has_it:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    fd = create_memory_file("key")
    try:
        os.write(fd, b"secret")
        with open(f"/proc/self/fd/{fd}", "rb") as file:
            assert file.read() == b"secret"
        assert not os.get_inheritable(fd)
        assert os.fstat(fd).st_nlink == 0
    finally:
        os.close(fd)


def test_a_function_that_does_not_exist_is_not_found() -> None:
    assert find_function("no_such_function") is None

"""Tests that open many files or sockets at a time."""

import resource

import pytest


def need_open_files(count: int) -> None:
    """Allow this process and those that it starts so many open files, or skip the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"needs {count} open files; `ulimit -Hn` allows {hard}")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))

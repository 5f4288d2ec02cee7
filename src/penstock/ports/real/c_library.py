"""Functions of the C library that Python does not have, or not in every build."""

import ctypes
import os
from collections.abc import Callable

_CLOSE_ON_EXEC = 1


def find_function(name: str, *arguments: type) -> Callable[..., int] | None:
    """Return a function of the C library, None if this system does not have it."""
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None
    function.argtypes = arguments
    found: Callable[..., int] = function
    return found


def create_memory_file(name: str) -> int:
    """Return the descriptor of a new file that exists in memory only."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    # Portable builds of Python, such as those that uv installs, are compiled for C libraries without it.
    create = find_function("memfd_create", ctypes.c_char_p, ctypes.c_uint)
    fd = -1 if create is None else create(os.fsencode(name), _CLOSE_ON_EXEC)
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"memfd_create: {os.strerror(number)}")
    return fd

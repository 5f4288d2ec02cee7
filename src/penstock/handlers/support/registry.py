"""The handlers of all APIs but the hot ones, by API key.

The module of a handler is imported when its first request arrives, off the event loop: the schema classes of all
APIs together take longer to import than everything else that a node needs to start.
"""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Final, cast

from penstock.handlers.support.context import ColdHandler
from penstock.model.job import Job
from penstock.wire import codec
from penstock.wire.api import APIS


class _ColdHandlers(dict[int, ColdHandler]):
    """Handlers by API key; imports the module of an API (wire/api.py) when it is first looked up."""

    def __missing__(self, api_key: int) -> ColdHandler:
        module = import_module(f"penstock.handlers.{APIS[api_key].module}")
        handler = self[api_key] = cast(ColdHandler, module.handle)
        return handler


COLD: Final[Mapping[int, ColdHandler]] = _ColdHandlers()
_loaded: Final[set[tuple[int, int]]] = set()


def is_loaded(api_key: int, version: int) -> bool:
    """Return whether a request of this version can be answered without an import."""
    return (api_key, version) in _loaded


def loading(api_key: int, version: int) -> Job[None]:
    """Import the modules that answer a request, off the event loop: that may take a tenth of a second."""
    if not is_loaded(api_key, version):
        yield partial(_load, api_key, version)
        _loaded.add((api_key, version))


def _load(api_key: int, version: int) -> None:
    COLD[api_key]
    codec.load(api_key, version)

"""The handlers of all APIs but the hot ones, by API key.

The module of a handler is imported when its first request arrives, off the event loop: the schema classes of all
APIs together take longer to import than everything else that a node needs to start.
"""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, Final, cast

from penstock.handlers.support.context import ColdHandler, Context, Request
from penstock.handlers.support.denials import denied
from penstock.model.job import Job
from penstock.wire import codec
from penstock.wire.api import APIS, Api


class _ColdHandlers(dict[int, ColdHandler]):
    """Handlers by API key; imports the module of an API (wire/api.py) when it is first looked up."""

    def __missing__(self, api_key: int) -> ColdHandler:
        module = import_module(f"penstock.handlers.{APIS[api_key].module}")
        handler = self[api_key] = _guarded(APIS[api_key], cast(ColdHandler, module.handle))
        return handler


def _guarded(api: Api, handler: ColdHandler) -> ColdHandler:
    """Return a handler that answers only clients with a right on the cluster, if the API requires one.

    Every request passes here, whether a client or an envelope brings it. Other handlers check the names in requests.
    """
    if not api.requires.is_whole:
        return handler

    async def guarded(context: Context, request: Request) -> Any:
        if request.rights is not None and not _is_allowed(api, request):
            return denied(request)
        return await handler(context, request)

    return guarded


def _is_allowed(api: Api, request: Request) -> bool:
    *others, last = api.requires.rights
    # Only the last of several rights that each suffice is reported.
    return any(request.may_on_cluster(each.operation, is_asked=False) for each in others) or request.may_on_cluster(
        last.operation
    )


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

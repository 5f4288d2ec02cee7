"""Documents through urllib, in a thread: a slow web server never blocks the event loop."""

import asyncio
import urllib.error
import urllib.parse
import urllib.request

SIZE_MAX = 1024 * 1024
TIMEOUT_S = 10.0
_SCHEMES = ("file", "http", "https")


class RealDocuments:
    async def read(self, url: str) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(None, _read, url)


def _read(url: str) -> bytes:
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise OSError(f"{url} is not a URL of the schemes {', '.join(_SCHEMES)}")
    if parts.scheme == "file":
        with open(urllib.parse.unquote(parts.path), "rb") as file:
            data = file.read(SIZE_MAX + 1)
    else:
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:
                data = response.read(SIZE_MAX + 1)
        except (urllib.error.URLError, ValueError) as error:
            raise OSError(f"cannot read {url}: {error}") from None
    if len(data) > SIZE_MAX:
        raise OSError(f"{url} is larger than {SIZE_MAX} bytes")
    return bytes(data)

"""Small documents from files and web servers, such as the public keys of an identity provider."""

from typing import Protocol


class Documents(Protocol):
    async def read(self, url: str) -> bytes:
        """Return the content of a `file:`, `http:` or `https:` URL. Raises OSError."""
        ...

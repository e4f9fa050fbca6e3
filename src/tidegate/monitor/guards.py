"""What keeps the page from being read or changed by pages of others.

A name in the ``Host`` of a request must be one of this machine: a page of another site that makes
its own name point here (DNS rebinding) is refused. Answers may load nothing from elsewhere.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


class Guarded:
    """An application that answers only requests to this machine, with headers that restrict pages.

    Args:
        app: the application.
        names: names of this machine besides its own and ``localhost``; addresses always count.
    """

    def __init__(self, app: App, names: Iterable[str] = ()) -> None:
        self._app = app
        own = {"localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
        self._names = own | {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *own]
            await send(message)

        if self._is_known(_host(scope)):
            await self._app(scope, receive, send_guarded)
            return
        plain = [(b"content-type", b"text/plain; charset=utf-8")]
        await send_guarded({"type": "http.response.start", "status": 403, "headers": plain})
        await send({"type": "http.response.body", "body": b"This is not the name of this machine."})

    def _is_known(self, host: str) -> bool:
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return host.lower().rstrip(".") in self._names
        return True


def _host(scope: Scope) -> str:
    """The name or address that a request was sent to, without its port."""
    found = [value for name, value in scope["headers"] if name == b"host"]
    text = found[0].decode("latin-1") if len(found) == 1 else ""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]

"""The web application: the page, its files, and what it shows as JSON.

    GET /                                the page
    GET /static/monitor.css ..           its files
    GET /api/transforms                  the list of transforms
    GET /api/transform?id=..&after=..    one of them, with the points of later epochs

Only these are served: no path of a request reaches the disk.
"""

from __future__ import annotations

import json
import time
from hashlib import blake2b
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidegate.monitor.facts import damaged, facts_of, overview_of
from tidegate.monitor.follower import Follower
from tidegate.monitor.watch import Watch

_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def make_app(watch: Watch) -> Starlette:
    """Return the application that shows what is watched."""
    static = _static_files()

    def page(_: Request) -> Response:
        return _file("index.html", static)

    def file(request: Request) -> Response:
        return _file(request.path_params["name"], static)

    def transforms(request: Request) -> Response:
        followers = watch.followers
        shown = [_overview(id, follower) for id, follower in followers.items()]
        return _json(request, {"transforms": shown})

    def transform(request: Request) -> Response:
        id, after = request.query_params.get("id", ""), request.query_params.get("after", "")
        follower = watch.ask(id)
        if follower is None:
            return Response("There is no such transform.", 404, media_type="text/plain")
        epoch = int(after) if after.removeprefix("-").isdecimal() and len(after) < 20 else -1
        return _json(request, _facts(id, follower, epoch))

    return Starlette(
        routes=[
            Route("/", page),
            Route("/static/{name}", file),
            Route("/api/transforms", transforms),
            Route("/api/transform", transform),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=2_000)],
    )


def _facts(id: str, follower: Follower, after: int) -> dict[str, Any]:
    try:
        return facts_of(id, follower, after)
    except Exception as error:  # a damaged manifest may hold anything
        return damaged(id, follower, error)


def _overview(id: str, follower: Follower) -> dict[str, Any]:
    try:
        return overview_of(id, follower)
    except Exception as error:  # likewise
        return damaged(id, follower, error)


def _static_files() -> dict[str, bytes]:
    folder = files("tidegate.monitor") / "static"
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()}


def _file(name: str, static: dict[str, bytes]) -> Response:
    body = static.get(name)
    media_type = _TYPES.get(f".{name.rpartition('.')[2]}")
    if body is None or media_type is None:
        return Response("There is no such file.", 404, media_type="text/plain")
    return Response(body, media_type=media_type, headers={"cache-control": "no-cache"})


def _json(request: Request, facts: dict[str, Any]) -> Response:
    """Facts as JSON with the time; not sent again while the page has the same ones."""
    text = json.dumps(facts, ensure_ascii=False, allow_nan=False, default=str)
    tag = f'"{blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()}"'
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    body = f'{{"now_s": {time.time():.3f}, {text[1:]}'
    return Response(body.encode("utf-8", "replace"), media_type="application/json", headers=headers)

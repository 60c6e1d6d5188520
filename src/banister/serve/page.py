"""The live page: a few files that are read once and served from memory; no path ever reaches the disk."""

from __future__ import annotations

import hashlib
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HEADERS = {
    # Nothing from elsewhere, nothing inline, in nobody's frame.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def _pages() -> dict[str, Response]:
    found: dict[str, Response] = {}
    for file in files("banister.serve").joinpath("static").iterdir():
        kind = _KINDS.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            data = file.read_bytes()
            tag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
            path = "/" if file.name == "index.html" else f"/static/{file.name}"
            found[path] = Response(data, headers={**_HEADERS, "etag": tag}, media_type=kind)
    return found


PAGES = _pages()


async def show(request: Request) -> Response:
    """One of the files."""
    page = PAGES[request.url.path]
    if request.headers.get("if-none-match") == page.headers["etag"]:
        return Response(status_code=304, headers={**_HEADERS, "etag": page.headers["etag"]})
    return page

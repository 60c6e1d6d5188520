"""Libraries that only an extra brings: asked for where a feature begins, so that the error names it."""

from __future__ import annotations

from importlib.util import find_spec

from banister.errors import MissingExtraError

LOGS = {"polars": "logs"}
STUDY = {"polars": "study"}
FIGURES = {"matplotlib": "report"}
PAGES = {"jinja2": "report"}
RAY = {"ray": "ray"}
SERVE = {"fastapi": "serve", "uvicorn": "serve", "prometheus_client": "serve"}
CLIENT = {"httpx": "client"}


def need(libraries: dict[str, str]) -> None:
    """An error with the way out if one of the libraries is not installed; they map to their extras.

    Examples:
        >>> need({"numpy": "core"})
        >>> need({"no_such_library": "logs"})
        Traceback (most recent call last):
        banister.errors.MissingExtraError: This needs no_such_library, which is not installed; get it ...
    """
    for library, extra in libraries.items():
        if find_spec(library) is None:
            raise MissingExtraError.of(library, extra)

"""The application: routes behind their gates, the page, the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from banister.errors import ServiceError
from banister.online.bandit import SafeBandit
from banister.serve import openapi
from banister.serve.gate import Gate, refused
from banister.serve.page import PAGES, show
from banister.serve.routes import ROUTES, Route
from banister.serve.service import Service
from banister.serve.settings import ServeSettings

_ABOUT = (
    "Improve many related decisions at once; no task may be expected to earn less than a set share of what "
    "the policy in place earns. Errors are problem documents (RFC 9457)."
)


def make_app(bandit: SafeBandit, settings: ServeSettings) -> FastAPI:
    """The application that serves a bandit; it closes the bandit when it stops."""
    from banister import __version__

    service = Service(bandit, settings)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = FastAPI(
        title="Banister", description=_ABOUT, version=__version__, lifespan=lifespan,
        docs_url=None, redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    app.state.service = service
    for route in ROUTES:
        _add(app, service, route)
    for path in PAGES:
        app.add_route(path, show, methods=["GET"], include_in_schema=False)
    app.add_exception_handler(HTTPException, _unknown(service))
    document = app.openapi
    app.openapi = lambda: openapi.complete(document())  # type: ignore[method-assign]
    return app


def _add(app: FastAPI, service: Service, route: Route) -> None:
    gate = Gate(service, route.path, route.role, route.handler, route.kinds)

    async def endpoint(request: Request) -> Response:
        return await gate(request)

    app.add_api_route(
        route.path, endpoint, methods=[route.method], summary=(route.handler.__doc__ or "").split("\n")[0],
        operation_id=getattr(route.handler, "__name__", None), response_model=None,
        openapi_extra=openapi.extra(route), response_class=Response,
        responses={200: {"model": route.gives}} if route.gives else None,
    )  # fmt: skip


def _unknown(service: Service) -> Any:
    """Paths and methods that are not there."""

    async def handler(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        told = {404: "There is nothing at this path.", 405: f"{request.method} is not for this path."}
        detail = told.get(error.status_code, str(error.detail))
        return refused(
            service, request, "-", ServiceError.of(error.status_code, detail, dict(error.headers or {}))
        )

    return handler

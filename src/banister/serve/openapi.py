"""The OpenAPI document, made from the routes."""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from banister.serve.packing import PACKED
from banister.serve.problems import Problem
from banister.serve.routes import JSON, ROUTES, Route
from banister.serve.schema import TasksQuery

_REFUSALS = {
    "400": "not JSON", "401": "no token", "403": "another role", "404": "no such thing", "408": "too slow",
    "413": "too large", "415": "not JSON by its content-type", "421": "another host",
    "422": "a value that cannot be used", "429": "too often", "503": "the store cannot be used",
}  # fmt: skip
_NUMBERS = {
    "schema": {
        "type": "string", "format": "binary",
        "description": "a line of JSON, a line break, and the numbers as little-endian 64-bit floats",
    }
}  # fmt: skip
_REF = "#/components/schemas/{model}"


def extra(route: Route) -> dict[str, Any]:
    """What a route's entry says besides what FastAPI finds out."""
    problem = {"application/problem+json": {"schema": {"$ref": _REF.format(model="Problem")}}}
    entry: dict[str, Any] = {
        "responses": {
            "200": {"description": "done", "content": {route.kind: {}}},
            **{code: {"description": text, "content": problem} for code, text in _REFUSALS.items()},
        },
        "security": [] if route.role is None else [{"token": []}],
    }
    if route.takes is not None:
        body: dict[str, Any] = {"schema": {"$ref": _REF.format(model=route.takes.__name__)}}
        examples = route.takes.model_json_schema().get("examples")
        if examples:
            body["example"] = examples[0]
        entry["requestBody"] = {"required": True, "content": {JSON: body}}
    if route.packed:
        entry["requestBody"]["content"][PACKED] = entry["responses"]["200"]["content"][PACKED] = _NUMBERS
    inside = re.findall(r"{(\w+)(?::path)?}", route.path)
    entry["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in inside
    ]
    if route.asks is not None:
        entry["parameters"] += [
            {"name": name, "in": "query", "schema": described}
            for name, described in TasksQuery.model_json_schema()["properties"].items()
        ]
    if route.method == "POST" and route.takes is not None and "key" in route.takes.model_fields:
        entry["parameters"] += [
            {
                "name": "Idempotency-Key",
                "in": "header",
                "schema": {"type": "string", "minLength": 1, "maxLength": 255},
            }
        ]
    return entry


def complete(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the models that its entries name, and how to send a token."""
    bodies: list[type[BaseModel]] = [r.takes for r in ROUTES if r.takes is not None]
    bodies.append(Problem)
    _, found = models_json_schema([(model, "validation") for model in bodies], ref_template=_REF)
    parts = document.setdefault("components", {})
    parts.setdefault("schemas", {}).update(found["$defs"])
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return document

"""The OpenAPI document of the control API, made from the operations."""

from typing import Any

import msgspec

from gatepost.core.registry import Registry
from gatepost.serve.control.answers import ApiErrorKind, is_time
from gatepost.serve.control.contract import Operation

Json = dict[str, Any]
_REFERENCE = "#/components/schemas/{name}"
_ERROR: Json = {
    "type": "object",
    "properties": {
        "ok": {"const": False},
        "error": {
            "type": "object",
            "properties": {
                "kind": {"type": "string", "enum": [each.value for each in ApiErrorKind]},
                "text": {"type": "string"},
            },
            "required": ["kind", "text"],
        },
    },
    "required": ["ok", "error"],
}


def make_openapi(operations: Registry[Operation]) -> Json:
    """Everything of it that an operation decides comes from its declaration."""
    known = [each for _, each in operations.items()]
    args, arguments = _make_schemas([each.args for each in known])
    results, answers = _make_schemas([each.result for each in known])
    for schema in answers.values():
        _fix_row(schema)
    paths: Json = {
        "/v1/health": {"get": _make_method("health", "Tell whether the gateway answers.", {"type": "object"})},
        "/v1/status": {"get": _make_method("status", "Tell what the gateway does.", _wrap({"type": "object"}))},
    }
    for each, given, answer in zip(known, args, results, strict=True):
        paths[f"/v1/ops/{each.info.name}"] = {"post": _make_operation(each, given, answer)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gatepost control API", "version": "1"},
        "paths": paths,
        "components": {"schemas": {**arguments, **answers, "Error": _ERROR}},
    }


def _make_schemas(types: list[Any]) -> tuple[tuple[Json, ...], Json]:
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    return schemas, components


def _make_operation(each: Operation, given: Json, answer: Json) -> Json:
    return {
        **_make_method(each.info.name, each.summary, _wrap(answer)),
        "x-right": f"op:{each.info.right}",
        "x-offline": each.info.offline,
        "requestBody": {"content": {"application/json": {"schema": given}}},
    }


def _make_method(name: str, summary: str, answer: Json) -> Json:
    error = {"description": "The error.", "content": _content({"$ref": _REFERENCE.format(name="Error")})}
    done = {"description": "The answer.", "content": _content(answer)}
    return {"operationId": name, "summary": summary, "responses": {"200": done, "default": error}}


def _content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


def _wrap(answer: Json) -> Json:
    return {"type": "object", "properties": {"ok": {"const": True}, "result": answer}, "required": ["ok", "result"]}


def _fix_row(schema: Json) -> None:
    """Describe the times of a row as texts, as JSON has them. An `…_until` may be null: it is 0 in the row."""
    for name, value in schema.get("properties", {}).items():
        if is_time(name) and "integer" in str(value):
            optional = "anyOf" in value or name.endswith("_until")
            schema["properties"][name] = {"type": ["string", "null"] if optional else "string"}
            schema["properties"][name]["format"] = "date-time"

"""The API: every operation with its arguments, its answer and an example; and the tokens by which programs run them."""

import json
from functools import lru_cache
from typing import Any

from msgspec import UNSET

from gatepost.core.registry import Registry
from gatepost.serve.control.arguments.credentials import ApiTokenView, ListApiTokensArgs
from gatepost.serve.control.contract import Operation
from gatepost.serve.control.declaration import ArgumentField, get_help, list_fields, list_inputs
from gatepost.serve.control.openapi import make_openapi
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import code, flag, get_tone, made, make_columns, make_table, shorten, text
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Block,
    Cell,
    Code,
    EmptyState,
    Fact,
    Facts,
    Link,
    LongText,
    Note,
    PageView,
    Tone,
)
from gatepost.store.rights.tokens import TokenState

LONGEST_ANSWER = 20_000  # characters of a schema
NEW = Action(label="New token", operation="api_token.add", asks=True, tone=Tone.GOOD)
NO_TOKEN = EmptyState(text="No program has a token. With one it runs operations over HTTP.", action=NEW)


def _link_operation(operation: Operation) -> Cell:
    name = operation.info.name
    return Link(shorten(name), render_path("/api/{operation}", operation=name))


def _show_effect(operation: Operation) -> Cell:
    effect = "reads" if operation.info.right.endswith(".read") else "acts"
    return Badge(effect, get_tone(effect))


def render_kind(field: ArgumentField) -> str:
    return shorten(", ".join(map(str, field.choices)) or getattr(field.kind, "__name__", str(field.kind)))


def render_default(field: ArgumentField) -> str:
    """Render the default as JSON; '' if it is empty."""
    return "" if field.default in (None, "", (), [], {}, False, UNSET) else json.dumps(field.default, default=str)


def _show_default(field: ArgumentField) -> Cell:
    default = render_default(field)
    return Code(default) if default else None


OPERATION = (
    made("name", "Operation", _link_operation),
    text("summary", "What it does"),
    made("right", "Right", lambda operation: Code(shorten(operation.info.right))),
    made("kind", "Kind", _show_effect),
)
TOKEN = make_columns(ApiTokenView)
ARGUMENT = (
    code("name", "Argument"),
    made("kind", "Type", render_kind),
    flag("required", "Needed", "needed"),
    made("default", "Default", _show_default),
    text("description", "What it is"),
    made("example", "For example", lambda field: shorten("; ".join(field.examples)) or None),
)


@page("/api", "API", Section.GATEWAY, order=90)
async def show_api(request: PageRequest) -> PageView:
    rows = [each for _, each in request.operations.items()]
    blocks: list[Block] = [make_table(rows, OPERATION, EmptyState(text="There are no operations."))]
    actions: tuple[Action, ...] = ()
    if await request.may("api_token.list", "api_token.add"):
        found = await request.ask(ListApiTokensArgs())
        blocks.append(make_table(found, TOKEN, NO_TOKEN, actions=list_actions, title="Tokens"))
        actions = (NEW,)
    document = Note(text="The same as an OpenAPI document:", link=Link("openapi.json", "/openapi.json"))
    return PageView(
        lead="Operations for programs, by POST with JSON and a token. Each operation is a command and a form, too.",
        blocks=[document, *blocks],
        actions=actions,
    )


def list_actions(token: ApiTokenView) -> tuple[Action, ...]:
    if token.state != TokenState.VALID:
        return ()
    given = {"id": token.id}
    return (Action(label="Revoke", operation="api_token.rm", args=given, asks=True, tone=Tone.BAD),)


@page("/api/{operation}", "Operation", Section.GATEWAY)
async def show_operation(request: PageRequest) -> PageView:
    operation = request.operations[request.params["operation"]]
    name = operation.info.name
    facts = [
        Fact("Right", Code(f"op:{operation.info.right}")),
        Fact("A token needs the scope", Code(operation.info.right)),
        Fact("Works without a running gateway", "yes" if operation.info.offline else "no"),
        Fact("All operations", Link("API", render_path("/api"))),
    ]
    return PageView(
        title=name,
        lead=" ".join(get_help(operation.args).split()),
        actions=(Action(label="Run it", operation=name, asks=True),),
        blocks=[
            Facts(items=facts),
            make_table(
                list_inputs(operation.args), ARGUMENT, EmptyState(text="It has no arguments."), title="Arguments"
            ),
            LongText(title="Example", text=render_example(operation)),
            LongText(title="What it answers, as a JSON schema", text=render_answer(request.operations, name)),
        ],
    )


def render_example(operation: Operation) -> str:
    """A request with its needed arguments, for a shell."""
    given = {each.name: _get_example(each) for each in list_fields(operation.args) if each.required}
    body = json.dumps(given, ensure_ascii=False).replace("'", "'\\''")
    return "\n".join(
        (
            "curl -H 'Authorization: Bearer TOKEN' -H 'Content-Type: application/json' \\",
            f"  -d '{body}' \\",
            f"  http://127.0.0.1:8420/v1/ops/{operation.info.name}",
        )
    )


def _get_example(field: ArgumentField) -> Any:
    if field.spec.examples:
        return field.spec.examples[0]
    if field.choices:
        return field.choices[0]
    return {int: 1, float: 1.0, bool: True, list[str]: ["…"]}.get(field.kind, "…")


@lru_cache(maxsize=4)
def _make_document(operations: Registry[Operation]) -> dict[str, Any]:
    return make_openapi(operations)


def render_answer(operations: Registry[Operation], name: str) -> str:
    """The schema of the answer, with the parts that it refers to below it."""
    document = _make_document(operations)
    content = document["paths"][f"/v1/ops/{name}"]["post"]["responses"]["200"]["content"]
    schema = content["application/json"]["schema"]["properties"]["result"]
    parts: dict[str, Any] = {}
    _collect(schema, document["components"]["schemas"], parts)
    shown = {**schema, "$defs": parts} if parts else schema
    return json.dumps(shown, ensure_ascii=False, indent=2)[:LONGEST_ANSWER]


def _collect(schema: Any, known: dict[str, Any], found: dict[str, Any]) -> None:
    if isinstance(schema, dict):
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name in known and name not in found:
            found[name] = known[name]
            _collect(known[name], known, found)
        for value in schema.values():
            _collect(value, known, found)
    elif isinstance(schema, list):
        for value in schema:
            _collect(value, known, found)

"""Credentials: the browsers in which a person is signed in, and their passkeys; links; the API and its tokens.

Links are webhooks, chat links and invitations. Each is shown when it is made, and never again. The API's page has every
operation with its arguments, its answer and an example.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import UNSET

from gatepost.core.languages.catalogue import NAMES, current_language, list_languages
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.serve.control.arguments.credentials import (
    LOGINS_READ,
    ApiTokenView,
    BrowserLoginView,
    ListApiTokensArgs,
    ListLoginsArgs,
    ListPasskeysArgs,
    ListTokensArgs,
    PasskeyList,
    PasskeyView,
    ShowSignInArgs,
    SignInState,
    TokenView,
)
from gatepost.serve.control.contract import Operation
from gatepost.serve.control.declaration import ArgumentField, get_help, list_fields, list_inputs
from gatepost.serve.control.openapi import make_openapi
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import (
    code,
    flag,
    get_tone,
    in_files,
    link,
    made,
    make_columns,
    make_facts,
    make_moment,
    make_table,
    shorten,
    text,
)
from gatepost.serve.web.dashboard.view import (
    Action,
    Badge,
    Block,
    Cell,
    Choice,
    ChoiceList,
    ChoiceOption,
    Code,
    EmptyState,
    Fact,
    Facts,
    Filter,
    FormInput,
    InputKind,
    Link,
    LongText,
    Note,
    PageView,
    ScriptForm,
    Tone,
)
from gatepost.store.rights.tokens import TokenKind, TokenState

WHOSE = (("", "Mine"), ("all", "Everybody's"))
NO_BROWSERS = EmptyState(
    text="No browser is signed in as you. This prints an address that does it:", command="gatepost login"
)
LOGINS_LEAD = "Each browser stays signed in for some weeks. Sign out what you do not know or use no more."
PASSKEY = make_columns(PasskeyView)
OWN_PASSKEY = make_columns(PasskeyView, without=("person",))
NO_PASSKEY = EmptyState(text="You have no passkey. Add one below: then you sign in with your device alone.")
PASSKEYS_OFF = "Passkeys are off, so these sign nobody in. The setting web.passkey_login switches them on."
PASSKEY_HELP = (
    "Your phone, computer or security key keeps it. It works for the address by which you open this page now, which"
    " must begin with https:// or be http://localhost. Add it within ten minutes of signing in."
)
PASSKEY_FORM = ScriptForm(
    script="passkey_form.js",
    inputs=[FormInput(name="label", label="What you call it", kind=InputKind.TEXT, required=True, example="My phone")],
    submit="Add a passkey",
    title="Add a passkey",
    help=PASSKEY_HELP,
)

LINKS_PER_PAGE = 100
LONGEST_SHOWN_INSTRUCTIONS = 60  # characters of instructions
NEW_WEBHOOK = Action(
    label="New webhook", operation="token.add", args={"kind": TokenKind.WEBHOOK.value}, asks=True, tone=Tone.GOOD
)
NEW_CHAT = Action(label="New chat link", operation="token.add", args={"kind": TokenKind.CHAT_LINK.value}, asks=True)
NEW_INVITATION = Action(label="Invite by a code", operation="invite.create", asks=True)
NO_LINKS = EmptyState(text="There are no links. By a webhook a program hands messages to an agent.", action=NEW_WEBHOOK)
LONGEST_ANSWER = 20_000  # characters of a schema
NEW_API_TOKEN = Action(label="New token", operation="api_token.add", asks=True, tone=Tone.GOOD)
NO_API_TOKENS = EmptyState(text="No program has a token. With one it runs operations over HTTP.", action=NEW_API_TOKEN)


def _show_this(login: BrowserLoginView) -> Cell:
    return Badge("this browser", Tone.GOOD) if login.is_this else ""


THIS_BROWSER = {"is_this": made("is_this", "Where", _show_this)}
BROWSER = make_columns(BrowserLoginView, THIS_BROWSER)
OWN_BROWSER = make_columns(BrowserLoginView, THIS_BROWSER, without=("person",))


@page("/logins", "Sign-ins", Section.PEOPLE, "login.list", order=30)
async def show_logins(request: PageRequest) -> PageView:
    sees_all = await request.has_right(LOGINS_READ)
    everybody = sees_all and request.query.get("whose") == "all"
    found = await request.ask(ListLoginsArgs(everybody=everybody))
    view = make_logins_view(found, await request.ask(ShowSignInArgs()), sees_all, everybody)
    passkeys = await request.ask(ListPasskeysArgs(everybody=everybody))
    return replace(view, blocks=[*view.blocks, *make_passkey_blocks(passkeys, everybody), make_languages()])


def make_languages() -> ChoiceList:
    chosen = current_language.get()
    options = [
        ChoiceOption(
            label=NAMES.get(each, each),
            is_chosen=each == chosen,
            action=Action(label=each, operation="user.language", args={"language": each}) if each != chosen else None,
        )
        for each in list_languages()
    ]
    return ChoiceList(
        title="Language",
        choices=[Choice(sentence="This page, notices and answers to commands", options=tuple(options))],
    )


def make_logins_view(
    found: Sequence[BrowserLoginView], state: SignInState, sees_all: bool, everybody: bool
) -> PageView:
    """`state`: how the person signs in. `sees_all`: they may see those of other people; `everybody`: they do."""
    fields = BROWSER if everybody else OWN_BROWSER
    whose = Filter(name="whose", label="Whose", choices=WHOSE, chosen="all" if everybody else "")
    return PageView(
        blocks=[*_list_facts(state), make_table(found, fields, NO_BROWSERS, actions=list_login_actions)],
        lead=LOGINS_LEAD,
        filters=(whose,) if sees_all else (),
        actions=(
            *_list_password_actions(state),
            Action(label="Sign out elsewhere", operation="login.end_all", args={"keep_this": True}, asks=True),
            Action(label="Sign out everywhere", operation="login.end_all", asks=True, tone=Tone.BAD),
        ),
    )


def list_login_actions(login: BrowserLoginView) -> tuple[Action, ...]:
    return (Action(label="Sign out", operation="login.end", args={"id": login.id}, asks=True, tone=Tone.BAD),)


def _list_facts(state: SignInState) -> list[Block]:
    return [make_facts(state, make_columns(SignInState))] if state.password_login else []


def _list_password_actions(state: SignInState) -> tuple[Action, ...]:
    if not state.password_login:
        return ()
    label = "Change password" if state.changed_at else "Set a password"
    change = Action(label=label, operation="login.set_password", asks=True)
    remove = Action(label="Remove password", operation="login.remove_password", asks=True, tone=Tone.BAD)
    return (change, remove) if state.changed_at else (change,)


def make_passkey_blocks(answer: PasskeyList, everybody: bool) -> list[Block]:
    """Make the blocks of passkeys: those of a person, and the form that adds one. No blocks if they are off and unused.

    `everybody`: those of other people are among them.
    """
    fields = PASSKEY if everybody else OWN_PASSKEY
    table = make_table(answer.passkeys, fields, NO_PASSKEY, title="Passkeys", actions=list_passkey_actions)
    if answer.missing:
        return [table, Note(text="The library for passkeys is not installed.", hint=answer.missing, tone=Tone.WARN)]
    if answer.is_on:
        return [table, PASSKEY_FORM]
    return [table, Note(text=PASSKEYS_OFF, tone=Tone.QUIET)] if answer.passkeys else []


def list_passkey_actions(passkey: PasskeyView) -> tuple[Action, ...]:
    return (Action(label="Remove", operation="passkey.rm", args={"id": passkey.id}, asks=True, tone=Tone.BAD),)


OWN_LINK_COLUMNS = {
    "label": made("label", "Label", lambda row: row.label or Code(row.id)),
    "kind": made("kind", "Kind", lambda row: Badge(row.kind.replace("_", " "))),
    "folder": link("folder", "Group", "/groups/{folder}"),
    "instructions": made(
        "instructions", "Instructions", lambda row: shorten(row.instructions, LONGEST_SHOWN_INSTRUCTIONS) or None
    ),
    "expires_at": made("expires_at", "Ends", lambda row: show_end(row)),
    "state": in_files("state"),
}
LINK = make_columns(TokenView, OWN_LINK_COLUMNS)


@page("/links", "Links", Section.CHANNELS, "token.list", order=40)
async def show_links(request: PageRequest) -> PageView:
    found = await request.ask(ListTokensArgs(limit=LINKS_PER_PAGE, before=request.query.get("before", "")))
    more = f"?before={found[-1].id}" if len(found) == LINKS_PER_PAGE else ""
    return PageView(
        lead="Everybody who has one of these may use it. A link is shown when it is made, and never again.",
        blocks=[make_table(found, LINK, NO_LINKS, actions=list_link_actions, more=more)],
        actions=(NEW_WEBHOOK, NEW_CHAT, NEW_INVITATION),
    )


def show_end(token: TokenView) -> Cell:
    """When it ends, or what has ended it."""
    if token.state != TokenState.VALID:
        return Badge(token.state.replace("_", " "))
    return make_moment(token.expires_at) if token.expires_at else None


def list_link_actions(token: TokenView) -> tuple[Action, ...]:
    if token.state != TokenState.VALID:
        return ()
    given = {"id": token.id}
    revoke = Action(label="Revoke", operation="token.rm", args=given, asks=True, tone=Tone.BAD)
    if token.kind != TokenKind.WEBHOOK:
        return (revoke,)
    return (Action(label="Sign", operation="token.sign", args=given, asks=True), revoke)


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
API_TOKEN = make_columns(ApiTokenView)
ARGUMENT = (
    code("name", "Argument"),
    made("kind", "Type", render_kind),
    flag("required", "Needed", "needed"),
    made("default", "Default", _show_default),
    text("description", "What it is"),
    made("example", "For example", lambda field: shorten("; ".join(field.examples)) or None),
)


@page("/api", "API", Section.SYSTEM, order=90)
async def show_api(request: PageRequest) -> PageView:
    rows = [each for _, each in request.operations.items()]
    blocks: list[Block] = [make_table(rows, OPERATION, EmptyState(text="There are no operations."))]
    actions: tuple[Action, ...] = ()
    if await request.may("api_token.list", "api_token.add"):
        found = await request.ask(ListApiTokensArgs())
        blocks.append(make_table(found, API_TOKEN, NO_API_TOKENS, actions=list_api_token_actions, title="Tokens"))
        actions = (NEW_API_TOKEN,)
    document = Note(text="The same as an OpenAPI document:", link=Link("openapi.json", "/openapi.json"))
    return PageView(
        lead="Operations for programs, by POST with JSON and a token. Each operation is a command and a form, too.",
        blocks=[document, *blocks],
        actions=actions,
    )


def list_api_token_actions(token: ApiTokenView) -> tuple[Action, ...]:
    if token.state != TokenState.VALID:
        return ()
    given = {"id": token.id}
    return (Action(label="Revoke", operation="api_token.rm", args=given, asks=True, tone=Tone.BAD),)


@page("/api/{operation}", "Operation", Section.SYSTEM)
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

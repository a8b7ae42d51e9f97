"""The REST API of the emulated Discord."""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gatepost_testing.platform_rules.discord import BY_NAME
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.broken_answers import abort_connection
from gatepost_testing.platforms.discord import API, SENDING, TOKEN, DiscordPlatform

MISSPELT = ("✔\ufe0f",)  # its table has some emoji with U+FE0F and some without; these are known by reports
Handler = Callable[[DiscordPlatform, Request], Awaitable[Response]]


def refuse(name: str, field: str = "") -> JSONResponse:
    """The refusal of a rule. `field`: the one of a form that is wrong, where it is another than the rule's."""
    rule = BY_NAME[name]
    (code, message), (path, *error) = rule.refusal.split(" ", 1), [""]
    if message.startswith("Invalid Form Body: "):
        message, path, *error = message.split(": ", 3)
    body: dict[str, Any] = {"message": message, "code": int(code)}
    if error:
        made: dict[str, Any] = {"_errors": [{"code": error[0], "message": error[1]}]}
        for each in reversed((field or path).split(".")):
            made = {each: made}
        body["errors"] = made
    return JSONResponse(body, rule.status)


def _exceeds(name: str, size: float) -> bool:
    return size > BY_NAME[name].limit


def list_routes(platform: DiscordPlatform) -> list[Route]:
    table: list[tuple[str, str, Handler]] = [
        ("GET", "/gateway", get_gateway),
        ("GET", "/gateway/bot", get_gateway),
        ("GET", "/users/@me", get_self),
        ("GET", "/applications/@me", get_application),
        ("GET", "/oauth2/applications/@me", get_application),
        ("PUT", "/applications/{application}/commands", set_commands),
        ("POST", "/users/@me/channels", open_direct),
        ("GET", "/channels/{channel}", get_channel),
        ("POST", "/channels/{channel}/typing", show_typing),
        ("GET", "/channels/{channel}/messages/pins", list_pins),
        ("PUT", "/channels/{channel}/messages/pins/{message}", set_pin),
        ("DELETE", "/channels/{channel}/messages/pins/{message}", set_pin),
        ("GET", "/channels/{channel}/messages", list_messages),
        ("POST", "/channels/{channel}/messages", add_message),
        ("GET", "/channels/{channel}/messages/{message}", get_message),
        ("PATCH", "/channels/{channel}/messages/{message}", edit_message),
        ("DELETE", "/channels/{channel}/messages/{message}", delete_message),
        ("PUT", "/channels/{channel}/messages/{message}/reactions/{emoji}/@me", add_reaction),
    ]
    made = [Route(API + path, _guard(platform, handler), methods=[method]) for method, path, handler in table]
    click = "/interactions/{interaction}/{token}/callback"  # who has its token may answer it
    made.append(Route(API + click, _guard(platform, answer_click, open_to_all=True), methods=["POST"]))
    return [*made, Route("/cdn/{ident}/{name}", _guard(platform, get_file, open_to_all=True))]


def _guard(platform: DiscordPlatform, handler: Handler, *, open_to_all: bool = False) -> Callable[[Request], Any]:
    async def serve(request: Request) -> Response:
        with platform.changed:
            platform.requests.append((request.method, request.url.path.removeprefix(API)))
        params = request.path_params
        allowed = request.headers.get("authorization") == f"Bot {TOKEN}"
        if not open_to_all and (platform.is_faulty(PlatformFault.UNAUTHORIZED) or not allowed):
            return refuse("token")
        if wrong := next((each for each in ("channel", "message") if not params.get(each, "1").isdecimal()), ""):
            return refuse("id in a path", f"{wrong}_id")
        if "channel" in params and params["channel"] not in platform.channels:
            return refuse("known channel")
        if "message" in params and params["message"] not in platform.messages:
            return refuse("known message")
        answer = await handler(platform, request)
        platform.notify()
        return answer

    return serve


async def get_gateway(platform: DiscordPlatform, request: Request) -> Response:
    limit = {"total": 1000, "remaining": platform.connections_left, "reset_after": 0, "max_concurrency": 1}
    return JSONResponse({"url": platform.url.replace("http", "ws"), "shards": 1, "session_start_limit": limit})


async def get_self(platform: DiscordPlatform, request: Request) -> Response:
    return JSONResponse({**platform.bot, "flags": 0, "verified": True, "mfa_enabled": False})


async def get_application(platform: DiscordPlatform, request: Request) -> Response:
    owner = platform.find_person("owner")
    made = {"id": platform.bot["id"], "name": "gatepost", "icon": None, "description": "", "owner": owner, "team": None}
    return JSONResponse(
        {
            **made,
            "flags": 0 if platform.is_faulty(PlatformFault.NO_RIGHTS) else platform.application_flags,
            "bot_public": True,
            "bot_require_code_grant": False,
            "verify_key": "",
        }
    )


async def set_commands(platform: DiscordPlatform, request: Request) -> Response:
    """docs.discord.com, "Application commands", read 2026-11-17: this list takes the place of all that there are."""
    if request.path_params["application"] != platform.bot["id"]:
        return refuse("right to the application")
    if platform.is_faulty(PlatformFault.NO_RIGHTS):
        return refuse("scope of commands")
    listed = await request.json()
    names = [str(each.get("name")) for each in listed]
    if _exceeds("number of commands", len(listed)):
        return refuse("number of commands")
    if len(set(names)) < len(names):
        return refuse("one name for each command")
    for at, each in enumerate(listed):
        if wrong := next(filter(None, map(_check_command, (each, *(each.get("options") or ())))), ""):
            return refuse(wrong, BY_NAME[wrong].refusal.split(": ")[1].replace("0", str(at)))
    with platform.changed:
        platform.commands = {each["name"]: {**each, "id": str(at + 1)} for at, each in enumerate(listed)}
        return JSONResponse(list(platform.commands.values()))


def _check_command(given: dict[str, Any]) -> str:
    """Return the name of the rule that a command or an option of one breaks."""
    name, words = str(given.get("name") or ""), str(given.get("description") or "")
    plain = name.replace("-", "").replace("_", "").replace("'", "")
    if not name or _exceeds("name of a command", len(name)) or (plain and not plain.isalnum()) or name != name.lower():
        return "name of a command"
    if not words or _exceeds("description of a command", len(words)):
        return "description of a command"
    return "options of a command" if _exceeds("options of a command", len(given.get("options") or ())) else ""


async def open_direct(platform: DiscordPlatform, request: Request) -> Response:
    wanted = (await request.json()).get("recipient_id")
    with platform.changed:
        names = [name for name, each in platform.people.items() if each["id"] == wanted]
        if not names:
            return refuse("person to write to")
        return JSONResponse(platform.find_channel(f"direct:{names[0]}"))


async def get_channel(platform: DiscordPlatform, request: Request) -> Response:
    return JSONResponse(platform.channels[request.path_params["channel"]])


async def show_typing(platform: DiscordPlatform, request: Request) -> Response:
    with platform.changed:
        platform.typings.append(platform.channels[request.path_params["channel"]]["room"])
    return Response(status_code=204)


async def list_messages(platform: DiscordPlatform, request: Request) -> Response:
    """Newest first. With `after` they are those that follow it, else the newest. Nonces are not kept."""
    wanted = request.query_params
    limit = int(wanted.get("limit", "50"))
    if _exceeds("number of messages to read", limit):
        return refuse("number of messages to read")
    with platform.changed:
        rows = [each for each in platform.messages.values() if each["channel_id"] == request.path_params["channel"]]
        rows = [
            each
            for each in rows
            if int(wanted.get("after", "0")) < int(each["id"]) < int(wanted.get("before", str(1 << 63)))
        ]
        rows.sort(key=lambda each: int(each["id"]))
        chosen = rows[:limit] if "after" in wanted else rows[-limit:]
        return JSONResponse(chosen[::-1])


async def get_message(platform: DiscordPlatform, request: Request) -> Response:
    return JSONResponse(platform.messages[request.path_params["message"]])


async def add_message(platform: DiscordPlatform, request: Request) -> Response:
    body, files = await _read_body(request)
    fault = platform.claim_fault(*SENDING)
    if fault is PlatformFault.FORBIDDEN:
        return refuse("right to write")
    if fault is PlatformFault.BUSY:
        return refuse("service away")
    if fault is PlatformFault.RATE_LIMIT:
        return _limit(platform)
    with platform.changed:
        if wrong := _check_new(platform, body, files) or _check_body(body, files, "empty message"):
            return wrong
        made = _find_same(platform, body)
        if made is None:
            channel = platform.channels[request.path_params["channel"]]
            made = platform.add_message(channel, platform.bot, body, files)
            if body.get("nonce"):
                platform.nonces[str(body["nonce"])] = (time.monotonic(), made["id"])
    if fault is PlatformFault.NO_ANSWER:
        return abort_connection(platform, request.scope)
    return JSONResponse(made)


def _find_same(platform: DiscordPlatform, body: dict[str, Any]) -> dict[str, Any] | None:
    """A nonce that is enforced stands for the message that it made, for a while."""
    at, ident = platform.nonces.get(str(body.get("nonce")), (0.0, ""))
    if not body.get("enforce_nonce") or not ident or time.monotonic() - at > platform.nonce_window_s:
        return None
    found = platform.messages.get(ident)
    return {**found, "nonce": body["nonce"]} if found else None


def _check_new(platform: DiscordPlatform, body: dict[str, Any], files: list[GivenFile]) -> Response | None:
    if _exceeds("number of files", len(files)):
        return refuse("number of files")
    if any(_exceeds("file size", len(each.data)) for each in files):
        return refuse("file size")
    if _exceeds("size of a request", sum(len(each.data) for each in files)):
        return refuse("size of a request")
    if _exceeds("nonce length", len(str(body.get("nonce") or ""))):
        return refuse("nonce length")
    if reference := body.get("message_reference"):
        answered = str(reference.get("message_id"))
        if not answered.isdecimal():
            return refuse("id of an answered message")
        if reference.get("fail_if_not_exists", True) and answered not in platform.messages:
            return refuse("answered message")
    if int(body.get("flags") or 0) & (1 << 13):
        sound = (body.get("attachments") or [{}])[0]
        if body.get("content"):
            return refuse("words beside a voice message")
        if len(files) != 1:
            return refuse("file of a voice message")
        if "waveform" not in sound or "duration_secs" not in sound:
            return refuse("data of a voice message")
    return None


def _check_body(body: dict[str, Any], files: list[GivenFile], empty: str) -> Response | None:
    content = str(body.get("content") or "")
    if _exceeds("content length", len(content)):
        return refuse("content length")
    if not content.strip() and not files and not body.get("embeds") and not body.get("sticker_ids"):
        return refuse(empty)
    return _check_embeds(body.get("embeds") or []) or _check_rows(body.get("components") or [])


def _check_embeds(embeds: list[dict[str, Any]]) -> Response | None:
    if _exceeds("number of embeds", len(embeds)):
        return refuse("number of embeds")
    total = 0
    for at, each in enumerate(embeds):
        fields = each.get("fields") or []
        if _exceeds("number of fields", len(fields)):
            return refuse("number of fields", f"embeds.{at}.fields")
        parts = [
            ("title length", "title", each.get("title")),
            ("description length", "description", each.get("description")),
        ]
        for place, field in enumerate(fields):
            for part in ("name", "value"):
                if not str(field.get(part) or "").strip():
                    return refuse("empty field", f"embeds.{at}.fields.{place}.{part}")
                parts.append((f"field {part} length", f"fields.{place}.{part}", field[part]))
        for name, path, text in parts:
            if _exceeds(name, _count(text)):
                return refuse(name, f"embeds.{at}.{path}")
        total += sum(_count(text) for _, _, text in parts)
    return refuse("size of all embeds") if _exceeds("size of all embeds", total) else None


def _check_rows(rows: list[dict[str, Any]]) -> Response | None:
    if _exceeds("number of rows", len(rows)):
        return refuse("number of rows")
    known = set[str]()
    for at, row in enumerate(rows):
        if not row["components"] or _exceeds("buttons in a row", len(row["components"])):
            return refuse("buttons in a row", f"components.{at}.components")
        for place, each in enumerate(row["components"]):
            path = f"components.{at}.components.{place}"
            ident = str(each.get("custom_id") or "")
            if not ident or _exceeds("id of a component", len(ident)):
                return refuse("id of a component", f"{path}.custom_id")
            if ident in known:
                return refuse("one id for each component", f"{path}.custom_id")
            known.add(ident)
            if wrong := _check_component(each, path):
                return wrong
    return None


def _check_component(given: dict[str, Any], path: str) -> Response | None:
    if given["type"] == 2:
        return refuse("label length", f"{path}.label") if _exceeds("label length", len(given["label"])) else None
    options = given.get("options") or []
    if not options or _exceeds("options of a menu", len(options)):
        return refuse("options of a menu", f"{path}.options")
    for at, each in enumerate(options):
        for part in ("label", "value", "description"):
            if _exceeds("text of an option", len(str(each.get(part) or ""))):
                return refuse("text of an option", f"{path}.options.{at}.{part}")
    return None


def _count(text: Any) -> int:
    return len(str(text or "").encode("utf-16-le")) // 2


def _limit(platform: DiscordPlatform) -> Response:
    scope = "global" if platform.global_limit else "user"
    rule = BY_NAME["rate limit"]
    body = {
        "message": rule.refusal.removeprefix("0 "),
        "retry_after": platform.retry_after,
        "global": platform.global_limit,
    }
    headers = {"retry-after": "1", "x-ratelimit-scope": scope, "via": "1.1 emulated"}
    return JSONResponse(body, rule.status, headers)


async def _read_body(request: Request) -> tuple[dict[str, Any], list[GivenFile]]:
    if "multipart" not in request.headers.get("content-type", ""):
        return dict(await request.json()), []
    form = await request.form()
    files = [
        GivenFile(each.filename or "", await each.read(), each.content_type or "")
        for each in form.values()
        if isinstance(each, UploadFile)
    ]
    return dict(json.loads(str(form.get("payload_json", "{}")))), files


async def edit_message(platform: DiscordPlatform, request: Request) -> Response:
    body, _ = await _read_body(request)
    with platform.changed:
        if platform.messages[request.path_params["message"]]["author"] is not platform.bot:
            return refuse("edits of others")
        before = platform.messages[request.path_params["message"]]
        if before["flags"] & (1 << 13):
            return refuse("edits of a voice message")
        files = [platform.files[each] for each in platform.files if each.startswith(f"{before['id']}-")]
        if wrong := _check_body({**before, **body}, files, "empty edit"):
            return wrong
        return JSONResponse(platform.change_message(request.path_params["message"], body))


async def delete_message(platform: DiscordPlatform, request: Request) -> Response:
    with platform.changed:
        platform.remove_message(request.path_params["message"])
    return Response(status_code=204)


async def add_reaction(platform: DiscordPlatform, request: Request) -> Response:
    emoji = request.path_params["emoji"]
    if not any(ord(each) > 0x2000 for each in emoji):
        return refuse("known emoji")
    if emoji in MISSPELT:
        return refuse("spelling of an emoji")
    with platform.changed:
        platform.add_reaction(request.path_params["message"], request.path_params["emoji"], platform.bot, "bot")
    return Response(status_code=204)


async def set_pin(platform: DiscordPlatform, request: Request) -> Response:
    with platform.changed:
        pinned = request.method == "PUT"
        ident = request.path_params["message"]
        platform.messages[ident]["pinned"] = platform.find(ident).pinned = pinned
    return Response(status_code=204)


async def list_pins(platform: DiscordPlatform, request: Request) -> Response:
    with platform.changed:
        rows = [each for each in platform.messages.values() if each["channel_id"] == request.path_params["channel"]]
        items = [{"pinned_at": each["timestamp"], "message": each} for each in rows if each["pinned"]]
        return JSONResponse({"items": items[:50], "has_more": len(items) > 50})


async def answer_click(platform: DiscordPlatform, request: Request) -> Response:
    """docs.discord.com, "Receiving and responding": once, and within 3 seconds; a command is answered
    by a message (4) or the promise of one (5)."""
    ident, answer = request.path_params["interaction"], await request.json()
    with platform.changed:
        since = platform.given.get(ident)
        if since is not None and ident in platform.answered:
            return refuse("one answer to an interaction")
        if since is not None and _exceeds("interaction in time", time.monotonic() - since):
            return refuse("interaction in time")
        if since is not None and answer.get("type") not in (4, 5):
            return refuse("kind of an answer")
        if since is not None:
            platform.receipts.append(answer)
        platform.answered.append(ident)
    if request.query_params.get("with_response", "").lower() not in ("1", "true"):
        return Response(status_code=204)
    return JSONResponse({"interaction": {"id": ident, "type": 3}, "resource": {"type": 6}})


async def get_file(platform: DiscordPlatform, request: Request) -> Response:
    file = platform.files.get(request.path_params["ident"])
    if file is None:
        return PlainTextResponse(BY_NAME["known file"].refusal, BY_NAME["known file"].status)
    return Response(file.data, media_type=file.mime)

"""The REST API of the emulated Discord."""

import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.testing.platforms.base import GivenFile, PlatformFault
from gatepost.testing.platforms.broken_answers import abort_connection
from gatepost.testing.platforms.discord import API, SENDING, TOKEN, DiscordPlatform

Handler = Callable[[DiscordPlatform, Request], Awaitable[Response]]


def refuse(status: int, code: int, message: str) -> JSONResponse:
    return JSONResponse({"message": message, "code": code}, status)


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
            return refuse(401, 0, "401: Unauthorized")
        if "channel" in params and params["channel"] not in platform.channels:
            return refuse(404, 10003, "Unknown Channel")
        if "message" in params and params["message"] not in platform.messages:
            return refuse(404, 10008, "Unknown Message")
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
        return refuse(403, 20012, "You are not authorized to perform this action on this application")
    if platform.is_faulty(PlatformFault.NO_RIGHTS):
        return refuse(403, 50001, "Missing Access")
    listed = await request.json()
    names = [str(each.get("name")) for each in listed]
    if len(listed) > 100:
        return refuse(400, 30032, "Maximum number of application commands reached (100)")
    if len(set(names)) < len(names):
        return refuse(400, 50035, "Invalid Form Body: name: Application command names must be unique")
    for each in listed:
        if wrong := _check_command(each) or next(filter(None, map(_check_command, each.get("options") or ())), ""):
            return refuse(400, 50035, f"Invalid Form Body: {wrong}")
    with platform.changed:
        platform.commands = {each["name"]: {**each, "id": str(at + 1)} for at, each in enumerate(listed)}
        return JSONResponse(list(platform.commands.values()))


def _check_command(given: dict[str, Any]) -> str:
    """The same page: ^[-_'\\p{L}\\p{N}]{1,32}$ in lower case for commands and options, descriptions of 1-100 signs,
    at most 25 options."""
    name, words = str(given.get("name") or ""), str(given.get("description") or "")
    plain = name.replace("-", "").replace("_", "").replace("'", "")
    if not 1 <= len(name) <= 32 or (plain and not plain.isalnum()) or name != name.lower():
        return "name: String value did not match validation regex."
    if not 1 <= len(words) <= 100:
        return "description: Must be between 1 and 100 in length."
    return "options: Must be 25 or fewer in length." if len(given.get("options") or ()) > 25 else ""


async def open_direct(platform: DiscordPlatform, request: Request) -> Response:
    wanted = (await request.json()).get("recipient_id")
    with platform.changed:
        names = [name for name, each in platform.people.items() if each["id"] == wanted]
        if not names:
            return refuse(400, 50033, "Invalid Recipient(s)")
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
        return refuse(403, 50013, "Missing Permissions")
    if fault is PlatformFault.BUSY:
        return JSONResponse({"message": "503: Service Unavailable", "code": 0}, 503)
    if fault is PlatformFault.RATE_LIMIT:
        return _limit(platform)
    if wrong := _check_body(body, files):
        return refuse(400, 50035, wrong)
    with platform.changed:
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


def _check_body(body: dict[str, Any], files: list[GivenFile]) -> str:
    content = str(body.get("content") or "")
    if len(content) > 2000:
        return "Invalid Form Body: content: Must be 2000 or fewer in length."
    if len(str(body.get("nonce") or "")) > 25:
        return "Invalid Form Body: nonce: Must be 25 or fewer in length."
    if not content and not files and not body.get("embeds") and not body.get("sticker_ids"):
        return "Cannot send an empty message"
    if wrong := _check_embeds(body.get("embeds") or []):
        return f"Invalid Form Body: embeds: {wrong}"
    rows = body.get("components") or []
    if len(rows) > 5 or any(len(row["components"]) > 5 for row in rows):
        return "Invalid Form Body: components: at most 5 rows of 5"
    if int(body.get("flags") or 0) & (1 << 13):
        sound = (body.get("attachments") or [{}])[0]
        if content or "waveform" not in sound or "duration_secs" not in sound:
            return "Voice messages have one file with duration_secs and waveform, and no content"
    if any(len(each.data) > 10 * 1024 * 1024 for each in files):
        return "Request entity too large"
    return ""


def _check_embeds(embeds: list[dict[str, Any]]) -> str:
    """docs.discord.com, "Embed limits": 10 embeds, and 6,000 characters in all of them together."""
    sizes: list[tuple[str, int, int]] = [("embeds", len(embeds), 10)]
    for each in embeds:
        fields = each.get("fields") or []
        sizes += [("title", _count(each.get("title")), 256), ("description", _count(each.get("description")), 4096)]
        sizes += [("fields", len(fields), 25)]
        sizes += [("field name", _count(field["name"]), 256) for field in fields]
        sizes += [("field value", _count(field["value"]), 1024) for field in fields]
    for name, size, most in sizes:
        if size > most:
            return f"{name}: Must be {most} or fewer in length."
    total = sum(size for name, size, _ in sizes if name not in ("embeds", "fields"))
    return "Embed size exceeds maximum size of 6000" if total > 6000 else ""


def _count(text: Any) -> int:
    return len(str(text or "").encode("utf-16-le")) // 2


def _limit(platform: DiscordPlatform) -> Response:
    scope = "global" if platform.global_limit else "user"
    body = {
        "message": "You are being rate limited.",
        "retry_after": platform.retry_after,
        "global": platform.global_limit,
    }
    headers = {"retry-after": "1", "x-ratelimit-scope": scope, "via": "1.1 emulated"}
    return JSONResponse(body, 429, headers)


async def _read_body(request: Request) -> tuple[dict[str, Any], list[GivenFile]]:
    if "multipart" not in request.headers.get("content-type", ""):
        return dict(await request.json()), []
    form = await request.form()
    files = [
        GivenFile(each.filename or "", await each.read(), each.content_type or "")
        for each in form.values()
        if isinstance(each, UploadFile)
    ]
    return dict(json.loads(str(form["payload_json"]))), files


async def edit_message(platform: DiscordPlatform, request: Request) -> Response:
    body, _ = await _read_body(request)
    with platform.changed:
        if platform.messages[request.path_params["message"]]["author"] is not platform.bot:
            return refuse(403, 50005, "Cannot edit a message authored by another user")
        if wrong := _check_embeds(body.get("embeds") or []):
            return refuse(400, 50035, f"Invalid Form Body: embeds: {wrong}")
        if len(str(body.get("content") or "")) > 2000:
            return refuse(400, 50035, "Invalid Form Body: content: Must be 2000 or fewer in length.")
        return JSONResponse(platform.change_message(request.path_params["message"], body))


async def delete_message(platform: DiscordPlatform, request: Request) -> Response:
    with platform.changed:
        platform.remove_message(request.path_params["message"])
    return Response(status_code=204)


async def add_reaction(platform: DiscordPlatform, request: Request) -> Response:
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
            return refuse(400, 40060, "Interaction has already been acknowledged.")
        if since is not None and time.monotonic() - since > 3:
            return refuse(404, 10062, "Unknown interaction")
        if since is not None and answer.get("type") not in (4, 5):
            return refuse(400, 50035, "Invalid Form Body: type: Value must be one of {4, 5}.")
        if since is not None:
            platform.receipts.append(answer)
        platform.answered.append(ident)
    if request.query_params.get("with_response", "").lower() not in ("1", "true"):
        return Response(status_code=204)
    return JSONResponse({"interaction": {"id": ident, "type": 3}, "resource": {"type": 6}})


async def get_file(platform: DiscordPlatform, request: Request) -> Response:
    file = platform.files.get(request.path_params["ident"])
    return Response(file.data, media_type=file.mime) if file else Response(status_code=404)

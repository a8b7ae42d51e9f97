"""The Web API of the emulated Slack, and where its files lie."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.channels.slack.emoji import NAMES
from gatepost.testing.platforms.base import GivenFile, PlatformFault
from gatepost.testing.platforms.broken_answers import abort_connection
from gatepost.testing.platforms.slack import APP_TOKEN, BOT_TOKEN, SENDING, SlackPlatform

Given = dict[str, Any]
Method = Callable[[SlackPlatform, Given], Given]
JSON_ARGUMENTS = ("blocks", "metadata", "files", "prompts", "attachments")
FAULTY = frozenset({"chat.postMessage", "files.completeUploadExternal"})


def fail(error: str, **more: Any) -> Given:
    return {"ok": False, "error": error, **more}


def list_routes(platform: SlackPlatform) -> list[Route]:
    async def serve(request: Request) -> Response:
        return await _serve_method(platform, request)

    async def upload(request: Request) -> Response:
        return await _upload(platform, request)

    async def download(request: Request) -> Response:
        return await _download(platform, request)

    return [
        Route("/api/{method}", serve, methods=["GET", "POST"]),
        Route("/upload/{file}", upload, methods=["POST"]),
        Route("/files-pri/{file}/{name}", download),
    ]


async def _serve_method(platform: SlackPlatform, request: Request) -> Response:
    name, given = request.path_params["method"], await _read_arguments(request)
    token = request.headers.get("authorization", "").removeprefix("Bearer ") or str(given.get("token") or "")
    with platform.changed:
        platform.requests.append((request.method, name))
    if not token:
        return JSONResponse(fail("not_authed"))
    if platform.is_faulty(PlatformFault.UNAUTHORIZED):
        return JSONResponse(fail("token_revoked"))
    if token != (APP_TOKEN if name == "apps.connections.open" else BOT_TOKEN):
        return JSONResponse(fail("invalid_auth"))
    if name == "apps.connections.open" and "connections:write" not in platform.app_granted:
        return JSONResponse({**fail("missing_scope"), "needed": "connections:write", "provided": platform.app_granted})
    fault = platform.claim_fault(*SENDING) if name in FAULTY else None
    if fault is PlatformFault.RATE_LIMIT:
        return JSONResponse(fail("ratelimited"), 429, {"retry-after": f"{platform.retry_after:g}"})
    if fault is PlatformFault.BUSY:
        return Response("upstream connect error", 503)
    if fault is PlatformFault.FORBIDDEN:
        return JSONResponse(fail("not_in_channel"))
    if name in FAULTY and platform.lacking:
        return JSONResponse(fail("missing_scope", needed=platform.lacking, provided=platform.granted))
    method = METHODS.get(name)
    with platform.changed:
        answer = method(platform, given) if method else fail("unknown_method")
        platform.changed.notify_all()
    if fault is PlatformFault.NO_ANSWER:
        return abort_connection(platform, request.scope)
    return JSONResponse({"ok": True, **answer}, headers={"x-oauth-scopes": _list_granted(platform)})


def _list_granted(platform: SlackPlatform) -> str:
    if not platform.is_faulty(PlatformFault.NO_RIGHTS):
        return platform.granted
    return ",".join(each for each in platform.granted.split(",") if each.strip() != "chat:write")


async def _read_arguments(request: Request) -> Given:
    given: Given = dict(request.query_params)
    kind = request.headers.get("content-type", "")
    if "json" in kind:
        body = await request.body()
        given |= json.loads(body) if body else {}
    elif "form" in kind:
        given |= {name: value for name, value in (await request.form()).items() if isinstance(value, str)}
    for name in JSON_ARGUMENTS:
        if isinstance(given.get(name), str):
            given[name] = json.loads(given[name])
    return given


def _auth_test(platform: SlackPlatform, given: Given) -> Given:
    who = {"user": platform.bot["name"], "user_id": platform.bot["id"], "bot_id": platform.bot["bot_id"]}
    return {
        **who,
        "team": "Emulated",
        "team_id": platform.team,
        "url": platform.url + "/",
        "is_enterprise_install": False,
    }


def _open_socket(platform: SlackPlatform, given: Given) -> Given:
    return {"url": f"{platform.url.replace('http', 'ws')}/link?ticket={platform.make_id('ticket')}&app_id=A0EMULATED"}


def _post(platform: SlackPlatform, given: Given) -> Given:
    channel, text = str(given.get("channel")), str(given.get("text") or "")
    if channel not in platform.channels:
        return fail("channel_not_found")
    if not text and not given.get("blocks"):
        return fail("no_text")
    if len(text) > 40_000:
        return fail("msg_too_long")
    text, rest = text[:4000], text[4000:]  # a longer one is shown in parts, whatever stands there (chainloop #272)
    given = {**given, "text": text} if rest else given
    if wrong := _check_blocks(given.get("blocks") or ()):
        return fail("invalid_blocks", response_metadata={"messages": [wrong]})
    made = platform.add_message(channel, platform.bot["id"], given)
    if rest:
        platform.add_message(channel, platform.bot["id"], {"text": rest})
    return {"channel": channel, "ts": made["ts"], "message": made}


def _check_blocks(blocks: Any) -> str:
    if len(blocks) > 50:
        return "at most 50 blocks"
    for block in blocks:
        parts = block.get("elements") or ()
        if block["type"] == "header" and len(block["text"]["text"]) > 150:
            return "a header has at most 150 characters"
        if block["type"] == "section" and len((block.get("text") or {}).get("text", "")) > 3000:
            return "a section has at most 3000 characters"
        if len(block.get("fields") or ()) > 10 or len(parts) > 25:
            return "at most 10 fields, 25 elements"
        idents = [part.get("action_id") for part in parts if "action_id" in part]
        if len(idents) != len(set(idents)):
            return "action_id is not unique"
        if any(part["type"] == "checkboxes" and len(part["options"]) > 10 for part in parts):
            return "at most 10 options"
    return ""


def _update(platform: SlackPlatform, given: Given) -> Given:
    place = (str(given.get("channel")), str(given.get("ts")))
    if place not in platform.messages:
        return fail("message_not_found")
    if platform.messages[place]["user"] != platform.bot["id"]:
        return fail("cant_update_message")
    if len(str(given.get("text") or "").encode()) > 4000:  # docs.slack.dev/chat.update, read 2026-11-17; GitLab !258898
        return fail("msg_too_long")
    if wrong := _check_blocks(given.get("blocks") or ()):
        return fail("invalid_blocks", response_metadata={"messages": [wrong]})
    made = platform.change_message(*place, given)
    return {"channel": place[0], "ts": place[1], "text": made.get("text"), "message": made}


def _delete(platform: SlackPlatform, given: Given) -> Given:
    place = (str(given.get("channel")), str(given.get("ts")))
    if place not in platform.messages:
        return fail("message_not_found")
    platform.remove_message(*place)
    return {"channel": place[0], "ts": place[1]}


def _react(platform: SlackPlatform, given: Given) -> Given:
    place = (str(given.get("channel")), str(given.get("timestamp")))
    if place not in platform.messages:
        return fail("message_not_found")
    if str(given.get("name")) not in NAMES and str(given.get("name")) not in platform.own_emoji:
        return fail("invalid_name")  # the names are those of emoji-datasource, and the workspace's own
    new = platform.add_reaction(*place, str(given["name"]), platform.bot["id"], "bot")
    return {} if new else fail("already_reacted")


def _pin(pinned: bool) -> Method:
    def apply(platform: SlackPlatform, given: Given) -> Given:
        place = (str(given.get("channel")), str(given.get("timestamp")))
        if place not in platform.messages:
            return fail("message_not_found")
        shown = platform.find(place[1])
        if shown.pinned == pinned:
            return fail("already_pinned" if pinned else "no_pin")
        shown.pinned = pinned
        return {}

    return apply


def _list_pins(platform: SlackPlatform, given: Given) -> Given:
    channel = str(given.get("channel"))
    pinned = [made for (place, ts), made in platform.messages.items() if place == channel and platform.find(ts).pinned]
    return {"items": [{"type": "message", "channel": channel, "message": made} for made in pinned]}


def _history(platform: SlackPlatform, given: Given) -> Given:
    """Newest first, by pages; answers in threads are not in it. Metadata only if asked for."""
    rows = [
        made
        for (channel, ts), made in platform.messages.items()
        if channel == given.get("channel") and made.get("thread_ts", ts) == ts
    ]
    return _page(platform, given, rows, newest_first=True)


def _replies(platform: SlackPlatform, given: Given) -> Given:
    """Oldest first, with the message that began the thread."""
    root = str(given.get("ts"))
    if (str(given.get("channel")), root) not in platform.messages:
        return fail("thread_not_found")
    rows = [
        made
        for (channel, ts), made in platform.messages.items()
        if channel == given.get("channel") and root in (ts, made.get("thread_ts"))
    ]
    return _page(platform, given, rows, newest_first=False)


def _page(platform: SlackPlatform, given: Given, rows: list[Given], *, newest_first: bool) -> Given:
    if given.get("channel") not in platform.channels:
        return fail("channel_not_found")
    oldest, latest = Decimal(str(given.get("oldest") or 0)), Decimal(str(given.get("latest") or 10**12))
    found = sorted(
        (each for each in rows if oldest < Decimal(each["ts"]) < latest), key=lambda each: Decimal(each["ts"])
    )
    if newest_first:
        found.reverse()
    start, limit = int(given.get("cursor") or 0), int(given.get("limit") or 100)
    if str(given.get("include_all_metadata")).lower() not in ("true", "1"):
        found = [{name: value for name, value in each.items() if name != "metadata"} for each in found]
    rest = start + limit < len(found)
    more = {"response_metadata": {"next_cursor": str(start + limit) if rest else ""}}
    return {"messages": found[start : start + limit], "has_more": rest, **more}


def _open_direct(platform: SlackPlatform, given: Given) -> Given:
    names = [name for name, each in platform.people.items() if each == given.get("users")]
    return {"channel": {"id": platform.find_channel(f"direct:{names[0]}")}} if names else fail("user_not_found")


def _user(platform: SlackPlatform, given: Given) -> Given:
    ident = str(given.get("user"))
    if ident not in (*platform.people.values(), platform.bot["id"]):
        return fail("user_not_found")
    if ident == platform.bot["id"]:  # an app has its name in `real_name` (users.info, read 2026-11-17)
        name, shown = platform.bot["name"], platform.bot["real_name"]
        return {"user": {"id": ident, "name": name, "real_name": shown, "profile": {"display_name": ""}}}
    name = platform.find_name(ident)
    return {"user": {"id": ident, "name": name, "real_name": name, "profile": {"display_name": name}}}


def _channel(platform: SlackPlatform, given: Given) -> Given:
    ident = str(given.get("channel"))
    if ident not in platform.channels:
        return fail("channel_not_found")
    return {"channel": {"id": ident, "name": platform.channels[ident], "is_im": ident[0] == "D", "is_member": True}}


def _start_upload(platform: SlackPlatform, given: Given) -> Given:
    if not given.get("filename") or not str(given.get("length") or "").isdecimal():
        return fail("invalid_arguments")
    made = platform.add_file(GivenFile(str(given["filename"]), b""))
    return {"upload_url": f"{platform.url}/upload/{made['id']}", "file_id": made["id"]}


def _complete_upload(platform: SlackPlatform, given: Given) -> Given:
    channel, idents = str(given.get("channel_id")), [each["id"] for each in given["files"]]
    if channel not in platform.channels:
        return fail("channel_not_found")
    if any(each not in platform.files for each in idents):
        return fail("file_not_found")
    files = [platform.files[each] for each in idents]
    body: Given = {"text": given.get("initial_comment") or "", "files": files, "subtype": "file_share"}
    if given.get("thread_ts"):
        body["thread_ts"] = given["thread_ts"]
    made = platform.add_message(channel, platform.bot["id"], body)
    for file in files:
        file["shares"] = {"public": {channel: [{"ts": made["ts"]}]}}
    return {"files": [{"id": each["id"], "title": each["title"]} for each in files]}


def _file(platform: SlackPlatform, given: Given) -> Given:
    found = platform.files.get(str(given.get("file")))
    return {"file": found} if found else fail("file_not_found")


def _set_status(platform: SlackPlatform, given: Given) -> Given:
    if given.get("channel_id") not in platform.channels:
        return fail("channel_not_found")
    if given.get("status"):
        platform.typings.append(platform.channels[given["channel_id"]])
    return {}


def _set_title(platform: SlackPlatform, given: Given) -> Given:
    platform.titles[str(given["thread_ts"])] = str(given["title"])
    return {}


def _set_prompts(platform: SlackPlatform, given: Given) -> Given:
    if not 1 <= len(given["prompts"]) <= 4:
        return fail("invalid_arguments")
    platform.prompts[str(given["thread_ts"])] = given["prompts"]
    return {}


METHODS: dict[str, Method] = {
    "apps.connections.open": _open_socket,
    "assistant.threads.setStatus": _set_status,
    "assistant.threads.setSuggestedPrompts": _set_prompts,
    "assistant.threads.setTitle": _set_title,
    "auth.test": _auth_test,
    "chat.delete": _delete,
    "chat.postMessage": _post,
    "chat.update": _update,
    "conversations.history": _history,
    "conversations.info": _channel,
    "conversations.open": _open_direct,
    "conversations.replies": _replies,
    "files.completeUploadExternal": _complete_upload,
    "files.getUploadURLExternal": _start_upload,
    "files.info": _file,
    "pins.add": _pin(True),
    "pins.list": _list_pins,
    "pins.remove": _pin(False),
    "reactions.add": _react,
    "users.info": _user,
}


async def _upload(platform: SlackPlatform, request: Request) -> Response:
    ident = request.path_params["file"]
    if "multipart" in request.headers.get("content-type", ""):
        parts = [each for each in (await request.form()).values() if not isinstance(each, str)]
        data = await parts[0].read()
    else:
        data = await request.body()
    with platform.changed:
        before = platform.contents[ident]
        platform.contents[ident] = GivenFile(before.name, data, before.mime)
        platform.files[ident]["size"] = len(data)
    return Response(f"OK - {len(data)}")


async def _download(platform: SlackPlatform, request: Request) -> Response:
    if request.headers.get("authorization") != f"Bearer {BOT_TOKEN}":
        return Response("<html>Sign in</html>", 302, {"location": f"{platform.url}/signin"})
    file = platform.contents[request.path_params["file"]]
    return Response(file.data, media_type=file.mime)

"""The Web API of the emulated Slack, and where its files lie."""

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatepost.channels.slack.wire import NAMES
from gatepost_testing.platform_rules.slack import BY_NAME
from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.broken_answers import abort_connection
from gatepost_testing.platforms.slack import APP_TOKEN, BOT_TOKEN, SENDING, SlackPlatform

Given = dict[str, Any]
Method = Callable[[SlackPlatform, Given], Given]
JSON_ARGUMENTS = ("blocks", "metadata", "files", "prompts", "attachments")
FAULTY = frozenset({"chat.postMessage", "files.completeUploadExternal"})


LONGEST_TEXT = 40_000  # the rest is left out, with a warning (api.slack.com/changelog/2018-04)
_TIMESTAMP = re.compile(r"\d+\.\d{6}")


def refuse(name: str, **more: Any) -> Given:
    """The refusal of a rule."""
    return {"ok": False, "error": BY_NAME[name].refusal, **more}


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
    if refused := _check_token(platform, name, token):
        return JSONResponse(refused)
    fault = platform.claim_fault(*SENDING) if name in FAULTY else None
    if fault is PlatformFault.RATE_LIMIT:
        return JSONResponse(refuse("pace"), BY_NAME["pace"].status, {"retry-after": f"{platform.retry_after:g}"})
    if fault is PlatformFault.BUSY:
        return JSONResponse(refuse("a server that is busy"), BY_NAME["a server that is busy"].status)
    if fault is PlatformFault.FORBIDDEN:
        return JSONResponse(refuse("member of the channel"))
    method = METHODS.get(name)
    with platform.changed:
        lacking = platform.lacking if name in FAULTY and platform.lacking else _find_lacking(platform, name)
        if lacking:
            answer = refuse("scope of the bot", needed=lacking, provided=platform.granted)
        else:
            answer = method(platform, given) if method else refuse("known method")
        platform.changed.notify_all()
    if fault is PlatformFault.NO_ANSWER:
        return abort_connection(platform, request.scope)
    return JSONResponse({"ok": True, **answer}, headers={"x-oauth-scopes": _list_granted(platform)})


def _check_token(platform: SlackPlatform, name: str, token: str) -> Given | None:
    opens = name == "apps.connections.open"
    if not token:
        return refuse("a token")
    if platform.is_faulty(PlatformFault.UNAUTHORIZED):
        return refuse("a token in force")
    if token not in (APP_TOKEN, BOT_TOKEN):
        return refuse("a known token")
    if token != (APP_TOKEN if opens else BOT_TOKEN):
        return refuse("kind of a token")
    if opens and "connections:write" not in platform.app_granted:
        return refuse("scope of the app", needed="connections:write", provided=platform.app_granted)
    return refuse("workspace in its place") if platform.moving else None


def _find_lacking(platform: SlackPlatform, name: str) -> str:
    """Return the scope that a method needs and the app does not have, or ''."""
    needed = NEEDED.get(name, "")
    return "" if needed in {each.strip() for each in platform.granted.split(",")} else needed


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
        return refuse("known channel")
    if not text and not given.get("blocks"):
        return refuse("empty text")
    if not _is_metadata(given.get("metadata")):
        return refuse("shape of metadata")
    text, rest = (
        text[:4000],
        text[4000:LONGEST_TEXT],
    )  # a longer one is shown in parts, whatever stands there (chainloop #272)
    given = {**given, "text": text} if rest else given
    if wrong := _check_blocks(given.get("blocks") or ()):
        return refuse(wrong, response_metadata={"messages": [BY_NAME[wrong].source]})
    made = platform.add_message(channel, platform.bot["id"], given)
    if rest:
        platform.add_message(channel, platform.bot["id"], {"text": rest})
    return {"channel": channel, "ts": made["ts"], "message": made}


def _is_metadata(given: Any) -> bool:
    return given is None or (
        isinstance(given, dict)
        and isinstance(given.get("event_type"), str)
        and isinstance(given.get("event_payload"), dict)
    )


def _check_blocks(blocks: Any) -> str:
    """Return the name of the rule that a block breaks, or ''."""
    return next((name for name, size in _list_sizes(blocks) if size > BY_NAME[name].limit), "")


def _list_sizes(blocks: Any) -> Iterator[tuple[str, int]]:
    yield "number of blocks", len(blocks)
    yield "length of all blocks", len(json.dumps(blocks, ensure_ascii=False)) if blocks else 0
    for block in blocks:
        parts, fields = block.get("elements") or (), block.get("fields") or ()
        if block["type"] == "header":
            yield "header length", len(block["text"]["text"])
        if block["type"] == "section":
            yield "section length", len((block.get("text") or {}).get("text", ""))
        yield "number of fields", len(fields)
        yield "field length", max((len(each["text"]) for each in fields), default=0)
        yield "number of elements", len(parts)
        idents = [part.get("action_id") for part in parts if "action_id" in part]
        yield "one id for each action", len(idents) - len(set(idents))
        for part in parts:
            if part["type"] == "button":
                yield "button length", len(part["text"]["text"])
                yield "value of a button", len(part.get("value") or "")
            if part["type"] == "checkboxes":
                yield "number of boxes", len(part["options"])
                for option in part["options"]:
                    yield "label of a box", len(option["text"]["text"])
                    yield "value of a box", len(option["value"])
                    yield "words about a box", len((option.get("description") or {}).get("text", ""))


def _update(platform: SlackPlatform, given: Given) -> Given:
    place = (str(given.get("channel")), str(given.get("ts")))
    if place not in platform.messages:
        return refuse("message to edit")
    if platform.messages[place]["user"] != platform.bot["id"]:
        return refuse("edits of others")
    text = str(given.get("text") or "")
    if not text and not given.get("blocks"):
        return refuse("edit text")
    if len(text.encode()) > BY_NAME["edit length"].limit:
        return refuse("edit length")
    if wrong := _check_blocks(given.get("blocks") or ()):
        return refuse(wrong, response_metadata={"messages": [BY_NAME[wrong].source]})
    made = platform.change_message(*place, given)
    return {"channel": place[0], "ts": place[1], "text": made.get("text"), "message": made}


def _delete(platform: SlackPlatform, given: Given) -> Given:
    place = (str(given.get("channel")), str(given.get("ts")))
    if place not in platform.messages:
        return refuse("message to delete")
    if platform.messages[place]["user"] != platform.bot["id"]:
        return refuse("deletions of others")
    platform.remove_message(*place)
    return {"channel": place[0], "ts": place[1]}


def _react(platform: SlackPlatform, given: Given) -> Given:
    place = (str(given.get("channel")), str(given.get("timestamp")))
    if not _TIMESTAMP.fullmatch(place[1]):
        return refuse("form of a timestamp")
    if place not in platform.messages:
        return refuse("message to react to")
    if str(given.get("name")) not in NAMES and str(given.get("name")) not in platform.own_emoji:
        return refuse("known emoji")
    new = platform.add_reaction(*place, str(given["name"]), platform.bot["id"], "bot")
    return {} if new else refuse("reaction that is there")


def _pin(pinned: bool) -> Method:
    def apply(platform: SlackPlatform, given: Given) -> Given:
        place = (str(given.get("channel")), str(given.get("timestamp")))
        if not _TIMESTAMP.fullmatch(place[1]):
            return refuse("form of a timestamp")
        if place not in platform.messages:
            return refuse("message to pin")
        shown = platform.find(place[1])
        if shown.pinned and pinned:
            return refuse("pin that is there")
        if not shown.pinned and not pinned:
            return refuse("pin that was taken off" if place in platform.unpinned else "message that is pinned")
        shown.pinned = pinned
        if not pinned:
            platform.unpinned.add(place)
        return {}

    return apply


def _list_pins(platform: SlackPlatform, given: Given) -> Given:
    channel = str(given.get("channel"))
    if channel not in platform.channels:
        return refuse("channel of pins")
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
        return refuse("thread to read")
    rows = [
        made
        for (channel, ts), made in platform.messages.items()
        if channel == given.get("channel") and root in (ts, made.get("thread_ts"))
    ]
    return _page(platform, given, rows, newest_first=False)


def _page(platform: SlackPlatform, given: Given, rows: list[Given], *, newest_first: bool) -> Given:
    if given.get("channel") not in platform.channels:
        return refuse("channel to read")
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
    return {"channel": {"id": platform.find_channel(f"direct:{names[0]}")}} if names else refuse("person to write to")


def _user(platform: SlackPlatform, given: Given) -> Given:
    ident = str(given.get("user"))
    if ident not in (*platform.people.values(), platform.bot["id"]):
        return refuse("known person")
    if ident == platform.bot["id"]:  # an app has its name in `real_name` (users.info)
        name, shown = platform.bot["name"], platform.bot["real_name"]
        return {"user": {"id": ident, "name": name, "real_name": shown, "profile": {"display_name": ""}}}
    name = platform.find_name(ident)
    return {"user": {"id": ident, "name": name, "real_name": name, "profile": {"display_name": name}}}


def _channel(platform: SlackPlatform, given: Given) -> Given:
    ident = str(given.get("channel"))
    if ident not in platform.channels:
        return refuse("channel with a name")
    return {"channel": {"id": ident, "name": platform.channels[ident], "is_im": ident[0] == "D", "is_member": True}}


def _start_upload(platform: SlackPlatform, given: Given) -> Given:
    if not given.get("filename") or not re.fullmatch(r"[1-9]\d*", str(given.get("length"))):
        return refuse("content of a file")
    made = platform.add_file(GivenFile(str(given["filename"]), b""))
    return {"upload_url": f"{platform.url}/upload/{made['id']}", "file_id": made["id"]}


def _complete_upload(platform: SlackPlatform, given: Given) -> Given:
    channel, idents = str(given.get("channel_id")), [each["id"] for each in given["files"]]
    if channel not in platform.channels:
        return refuse("channel to share in")
    if any(each not in platform.files for each in idents):
        return refuse("file to share")
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
    return {"file": found} if found else refuse("known file")


def _set_status(platform: SlackPlatform, given: Given) -> Given:
    if wrong := _check_pane(platform, given):
        return refuse(wrong)
    if given.get("status"):
        platform.typings.append(platform.channels[given["channel_id"]])
    return {}


def _set_title(platform: SlackPlatform, given: Given) -> Given:
    if wrong := _check_pane(platform, given):
        return refuse(wrong)
    platform.titles[str(given["thread_ts"])] = str(given["title"])
    return {}


def _set_prompts(platform: SlackPlatform, given: Given) -> Given:
    if wrong := _check_pane(platform, given):
        return refuse(wrong)
    if not 1 <= len(given["prompts"]) <= BY_NAME["number of prompts"].limit:
        return refuse("number of prompts")
    platform.prompts[str(given["thread_ts"])] = given["prompts"]
    return {}


def _check_pane(platform: SlackPlatform, given: Given) -> str:
    """Return the name of the rule that is broken, or ''."""
    channel, thread = str(given.get("channel_id")), str(given.get("thread_ts"))
    if channel not in platform.channels:
        return "channel of a pane"
    return "" if thread in platform.panes or (channel, thread) in platform.messages else "thread of a pane"


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


NEEDED = {  # the scope that a method needs, as its page says
    "assistant.threads.setStatus": "chat:write",
    "assistant.threads.setSuggestedPrompts": "assistant:write",
    "assistant.threads.setTitle": "assistant:write",
    "conversations.open": "im:write",
    "files.completeUploadExternal": "files:write",
    "files.getUploadURLExternal": "files:write",
    "files.info": "files:read",
    "pins.add": "pins:write",
    "pins.list": "pins:read",
    "pins.remove": "pins:write",
    "reactions.add": "reactions:write",
    "users.info": "users:read",
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
        rule = BY_NAME["token of a file"]
        return Response(rule.refusal, rule.status, {"location": f"{platform.url}/signin"})
    file = platform.contents[request.path_params["file"]]
    return Response(file.data, media_type=file.mime)

"""toy: a made-up platform, played by `gatepost_testing.platforms.toy`. Put this file into `plugins/channels/`."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, ChannelGuide, EndReason, Receive, channel
from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal
from gatepost.channels.kit.uploads import open_upload
from gatepost.core.errors import NotFound, Unavailable
from gatepost.core.settings import setting
from gatepost.messages.inbound import CLICK, Attachment, Inbound, Quote, Verb
from gatepost.messages.outbound import Feature, Op, Outbound, OutboundFile

API_URL = setting("channels.toy.api_url", "https://toy.invalid", help="Where Toy answers.")
TOKEN = setting("channels.toy.token", help="The bot's token.", secret=True)
POLL_S, PAUSE_S = 20.0, 0.5  # a poll, and the time before the next one after something went wrong
NAME, ROOM = re.compile(r"[\w-]{1,64}"), "toy:room/"  # rooms and people with other names have no address
VERBS = {"message": Verb.MESSAGE, "edit": Verb.EDIT, "delete": Verb.DELETE, "reaction": Verb.LIKE, "join": Verb.JOIN}
EVENTS = {each: each for each in ("message", "delete", "join")} | {"click": CLICK, "edit": "edit:{revision}"}
EVENTS["reaction"] = "reaction:{emoji}:toy:user/{from}"  # each is an event of its own


def read_event(event: dict[str, Any], open_file: Any) -> Inbound | None:
    """One event in the gateway's words; None for one that we do not know."""
    kind, room, sender = event["type"], event["room"], event["from"]
    if kind not in EVENTS or not NAME.fullmatch(room) or not NAME.fullmatch(sender):
        return None
    return Inbound(
        address=f"{ROOM}{room}",
        platform_id=event["id"],
        sender=f"toy:user/{sender}",
        sender_name=sender,
        text=event["emoji"] if kind == "reaction" else event.get("text", ""),
        event=EVENTS[kind].format_map(event),
        verb=Verb.MENTION if event.get("mentions_you") else VERBS.get(kind, Verb.MESSAGE),
        thread=event.get("thread", ""),
        direct=event["direct"],
        own=sender == "bot",
        reply_to=Quote(platform_id=event["reply_to"]) if event.get("reply_to") else None,
        click=event.get("button", ""),
        attachments=tuple(
            Attachment(name=file["name"], mime=file["mime"], size=file["size"], open=open_file(file["id"]))
            for file in event.get("files", ())
        ),
    )


def render(message: Outbound, files: list[str]) -> dict[str, Any]:
    """A card is its text with buttons; one that is decided has none left."""
    buttons = [{"id": each.id, "label": each.label} for each in (message.card.buttons if message.card else ())]
    more = {"thread": message.thread, "reply_to": message.reply_to, "files": files, "buttons": buttons}
    return {"text": message.text, "key": message.key, **more}


@channel(
    "toy",
    title="Toy",
    settings=(API_URL, TOKEN),
    features=frozenset({Feature.EDIT, Feature.DELETE, Feature.REACT, Feature.REPLY, Feature.FILES, Feature.THREADS})
    | {Feature.TYPING, Feature.CARDS, Feature.KEYED, Feature.DIRECT},
    verbs=frozenset({Verb.MENTION, Verb.DISLIKE, *VERBS.values()}),
    max_text=500,
    largest_file=1_000_000,
    deaf_after_s=3 * POLL_S,
    guide=ChannelGuide(before="Make a bot at https://toy.invalid/bots.", ask=(TOKEN,)),
    tested_against="our emulator; there is no such platform",
)
class Toy:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._http = deps, None

    async def listen(self, receive: Receive) -> None:
        after, conflicts = int(await self._deps.cursor.load() or 0), 0
        while True:
            try:
                http, asked = await self._connect(), {"after": after, "wait": POLL_S}
                answer = await http.call("GET", "events", params=asked, timeout=2 * POLL_S)
                self._deps.beat()  # a poll has come back, be it empty
                for event in answer["events"]:
                    if (inbound := read_event(event, partial(partial, self._download))) is not None:
                        await receive(inbound)
                    after, conflicts = event["n"], 0  # only now: had `receive` failed, the next poll would bring it
                await self._deps.cursor.save(str(after))
            except PlatformRefusal as error:
                conflicts += 1  # one may be our own poll of before
                if error.status != 409:
                    raise  # nobody foresaw it: the channel is started again, later each time, and `status` shows why
                if conflicts > 2:
                    raise ChannelEnded(EndReason.SECOND_POLLER, str(error), "stop the other program") from None
                await asyncio.sleep(PAUSE_S)
            except Unavailable:
                await asyncio.sleep(PAUSE_S)

    async def send(self, address: str, message: Outbound) -> str:
        http, room = await self._connect(), make_path("room", address.removeprefix(ROOM))
        target = message.target and make_path("message", message.target)
        match message.op:
            case Op.EDIT:
                await http.call("PATCH", target, json=render(message, []))
            case Op.DELETE:
                await http.call("DELETE", target)
            case Op.REACT:
                await http.call("PUT", f"{target}/reactions", json={"emoji": message.reaction})
            case _:
                files = [await self._upload(http, file) for file in message.files]
                return str((await http.call("POST", f"{room}/messages", json=render(message, files)))["id"])
        return message.target

    async def typing(self, address: str, thread: str, on: bool) -> None:
        room = make_path("room", address.removeprefix(ROOM))
        if on:
            await (await self._connect()).call("POST", f"{room}/typing", reads=True)

    async def open_direct(self, sender: str) -> str:
        path = f"people/{sender.removeprefix('toy:user/')}/room"
        return f"{ROOM}{(await (await self._connect()).call('POST', path, reads=True))['room']}"

    async def check(self) -> BotIdentity:
        return BotIdentity(name="@" + (await (await self._connect()).call("GET", "me"))["name"])

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def _connect(self) -> PlatformHttp:
        """The secret is read when we connect. A new one counts because `channel set` starts the channel anew."""
        if self._http is None:
            token, url = await self._deps.secret(TOKEN), self._deps.config[API_URL]
            self._http = PlatformHttp("Toy", url, headers={"Authorization": f"Bearer {token}"})
        return self._http

    async def _upload(self, http: PlatformHttp, file: OutboundFile) -> str:
        async with open_upload(file) as data:
            given = {"file": (file.name, data, file.mime)}
            return str((await http.call("POST", "files", files=given, reads=True))["id"])

    async def _download(self, file: str) -> AsyncIterator[bytes]:
        async for chunk in (await self._connect()).download(f"files/{file}"):
            yield chunk


def make_path(kind: str, name: str) -> str:
    """A room or a message may be named by an agent, so the name is checked."""
    if not NAME.fullmatch(name):
        raise NotFound(kind, name)
    return f"{kind}s/{name}"

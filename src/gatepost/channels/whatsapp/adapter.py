"""WhatsApp's Cloud API: events by hooks, messages by the Graph API.

A message whose answer was lost cannot be asked for. Meta reports each message that it took by a status, with our key in
it. So a look-up waits a while for that report; without one nobody knows, and it is never sent again on suspicion. A
record of our own shows which sends never began.
"""

import json
from collections import OrderedDict
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from gatepost.channels.contract import (
    BotIdentity,
    ChannelDeps,
    ChannelEnded,
    EndReason,
    HookRequest,
    HookResponse,
    LateFailure,
    Receive,
)
from gatepost.channels.kit.hooks import SIGNATURE, HookInbox, has_signature, is_same, is_signed, parse_object
from gatepost.channels.kit.http import PlatformAnswer, PlatformHttp, PlatformRefusal
from gatepost.channels.kit.send_attempts import SendAttempts
from gatepost.channels.kit.uploads import open_upload
from gatepost.channels.whatsapp import (
    API_URL,
    APP_SECRET,
    CHECK_S,
    PHONE_NUMBER_ID,
    TEMPLATE,
    TEMPLATE_LANGUAGE,
    TOKEN,
    VERIFY_TOKEN,
    wire,
)
from gatepost.channels.whatsapp.number_state import (
    FIELDS,
    HOOKS,
    NO_RIGHT,
    check_hooks,
    check_registered,
    explain_refusal,
    list_notes,
)
from gatepost.core import log
from gatepost.core.clock import SECOND
from gatepost.core.errors import GatepostError, NotFound, Refused, Unavailable
from gatepost.messages.inbound import OpenFile
from gatepost.messages.outbound import MESSAGES, Op, Outbound, OutboundFile

MEDIA_ORIGIN = "https://lookaside.fbsbx.com"
WAY_OUT = "make a new token for the system user and set it with `gatepost channel set`"
EVERYWHERE = {4, 80007, 130429, 131048}  # limits of the app or of the number
ONE_ROOM = 131056  # too many messages to one person
WINDOW = 131047  # more than 24 hours since the person's last message
BAD_TOKEN = {0, 190}
BUSY = {1, 2, 131000, 131016, 131057, 133004}  # 131057: the account is in maintenance
UNKNOWN_ERROR = {1, 131000}  # after which nobody can say whether it was sent
NOT_THERE = ""  # in place of an id: Meta reports that it did not deliver the message
TOO_LATE = "the person's last message is more than 24 hours old"
LONGEST_REASON = 300
REPORTED_WITHIN = 30 * SECOND  # a status comes within seconds, or it does not come
MOST_KEPT, MOST_SAVED = 2000, 200
REPORTS = "reports"  # the name of a cursor
RETRY_S = 5.0

_log = log.get("whatsapp")


def read_error(given: PlatformAnswer) -> GatepostError | None:
    """Meta's codes say more than its statuses: it answers 400 for nearly everything, and 500 for a right that lacks."""
    code = _find_code(given.body) if given.status >= 300 else None
    if code in BAD_TOKEN:
        return ChannelEnded(EndReason.TOKEN, f"WhatsApp no longer accepts the token (code {code})", WAY_OUT)
    if code in EVERYWHERE or code == ONE_ROOM:
        wait = (6.0 if code == ONE_ROOM else RETRY_S) if given.retry_after is None else given.retry_after
        return Unavailable("WhatsApp", "it asks us to wait", retry_after=wait, everywhere=code in EVERYWHERE)
    if code in BUSY:
        uncertain = given.effect and code in UNKNOWN_ERROR
        return Unavailable("WhatsApp", f"it cannot do it now (code {code})", uncertain=uncertain)
    if code in NO_RIGHT:
        plain = PlatformRefusal("WhatsApp", given.action, given.status, given.body)
        why = f"{plain.detail}; the token needs whatsapp_business_messaging for this number"
        return PlatformRefusal("WhatsApp", given.action, given.status, given.body, why)
    if code != -1 and code is not None and given.status < 500 and given.status not in (401, 429):
        return PlatformRefusal("WhatsApp", given.action, given.status, given.body, _explain(given.body["error"]))
    return None


def _explain(error: dict[str, Any]) -> str:
    """The title of an error, and its details, in which alone stands what is wrong."""
    data = error.get("error_data")
    details = data.get("details") if isinstance(data, dict) else None
    return ": ".join(each for each in (error.get("message"), details) if isinstance(each, str) and each)


class WhatsAppCloud:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps, self._config = deps, deps.config
        self._number = deps.config[PHONE_NUMBER_ID]
        self._inbox = HookInbox(deps)
        self._clients: dict[str, PlatformHttp] = {}
        self._attempts = SendAttempts(deps.cursor, deps.clock)
        self._reported: OrderedDict[str, str] = OrderedDict()  # our key -> the message that Meta reported
        self._asked: OrderedDict[str, int] = OrderedDict()  # since when a look-up waits for a report
        self._last: OrderedDict[str, str] = OrderedDict()  # room -> the message that was read last

    async def listen(self, receive: Receive) -> None:
        """Events come by the hook. Meanwhile the token is tried now and then, so that a revoked one is found."""
        await self._inbox.listen(receive, self._get_number, self._config[CHECK_S])

    async def check_hook_head(self, head: HookRequest) -> HookResponse | None:
        known = head.method == "GET" or has_signature(head, SIGNATURE)
        return None if known else HookResponse(status=403)

    async def answer_hook(self, request: HookRequest) -> HookResponse:
        if request.method == "GET":
            return await self._verify(request)
        if request.method != "POST" or not is_signed(request, SIGNATURE, await self._deps.secret(APP_SECRET)):
            return HookResponse(status=403)
        request.admit()
        payload = parse_object(request.body)
        if payload is None:
            return HookResponse(status=400)
        for value in wire.list_values(payload, self._number):
            await self._record_statuses(list(wire.read_statuses(value)))
            await self._inbox.receive(list(wire.read_messages(value, self._open_media)))
        return HookResponse()

    async def _verify(self, request: HookRequest) -> HookResponse:
        """Meta asks once whether the address is ours."""
        given, challenge = request.query.get("hub.verify_token", ""), request.query.get("hub.challenge", "")
        known = is_same(given, await self._deps.secret(VERIFY_TOKEN))
        if request.query.get("hub.mode") != "subscribe" or not known or len(challenge) > 200:
            return HookResponse(status=403)
        return HookResponse(body=challenge.encode())

    async def _record_statuses(self, statuses: list[wire.MessageStatus]) -> None:
        """A report on a message whose answer has not come outlives a kill, and is seen by the gateway that sends: Meta
        does not repeat what we answered. One that failed is not there, whatever was reported before."""
        needed: dict[str, str] = {}
        failed = [each for each in statuses if each.has_failed and each.key and each.message]
        for status in statuses:
            if status.key and status.message:
                found = NOT_THERE if status.has_failed else status.message
                _keep(self._reported, status.key, found)
                if await self._attempts.is_open(status.key):
                    needed[status.key] = found
        if needed:
            await self._deps.cursor.update(partial(_add_reports, needed), REPORTS, durable=True)
        for status in failed:
            why = TOO_LATE if status.code == WINDOW else f"WhatsApp did not deliver it: {status.detail} ({status.code})"
            failure = LateFailure(
                key=status.key, platform_id=status.message, why=why[:LONGEST_REASON], again=status.code == WINDOW
            )
            await self._deps.report_failure(failure)

    async def _load_reports(self) -> dict[str, str]:
        """Return what an earlier process was told, and other gateways."""
        saved = await self._deps.cursor.load(REPORTS)
        return json.loads(saved) if saved else {}

    async def _forget_report(self, key: str) -> None:
        self._reported.pop(key, None)
        await self._deps.cursor.update(partial(_remove_report, key), REPORTS, durable=True)

    async def send(self, address: str, message: Outbound) -> str:
        to = wire.parse_recipient(address)
        if to is None:
            raise NotFound("room", address, "a WhatsApp room is whatsapp:user/<number or id> or whatsapp:group/<id>")
        if message.op is Op.FORWARD:
            message = wire.render_forward(message)
        if message.op not in MESSAGES:
            return (await self._post_part(to, message, wire.render_message(to, message)))[0]
        too_late = message.refusal == TOO_LATE
        bodies = [] if too_late else await self._render(to, message)
        if too_late:
            await self._forget_report(message.key[: wire.LONGEST_CALLBACK])
        async with self._attempts.attempt(message.key):
            if too_late:
                sent = _read_message_id(await self._post_template(to, message))
            else:
                sent = await self._post_all(to, message, bodies)
        _keep(self._reported, message.key[: wire.LONGEST_CALLBACK], sent)
        return sent

    async def _post_all(self, to: wire.Recipient, message: Outbound, bodies: list[dict[str, Any]]) -> str:
        sent = ""
        for body in bodies:
            try:
                sent, is_whole = await self._post_part(to, message, body)
            except (Unavailable, ChannelEnded) as error:
                if not sent:
                    raise
                why = f"only a part was sent ({error.why})"
                raise Unavailable("WhatsApp", why, uncertain=True) from None
            if is_whole:
                break
        return sent

    async def _render(self, to: wire.Recipient, message: Outbound) -> list[dict[str, Any]]:
        """A message has one file, so several are several messages; they are uploaded before the first is sent. The last
        one alone has our key: what is found by it is there whole."""
        message = wire.name_untaken(message)
        if not message.files:
            return [wire.render_message(to, message)]
        media = []
        for file in message.files:
            # Sound of that type that came from WhatsApp is a voice note.
            voice = message.op is Op.VOICE or (message.op is Op.FORWARD and file.mime == "audio/ogg")
            kind, mime = wire.find_media_kind(file, voice=voice)
            media.append((await self._upload(file, mime), kind))
        return wire.render_files(to, message, media)

    async def _post_part(self, to: wire.Recipient, message: Outbound, body: dict[str, Any]) -> tuple[str, bool]:
        """Its id, and whether it was a template, which says all that can be said: nothing is sent after it."""
        is_template = False
        try:
            answer = await self._call("POST", f"{self._number}/messages", action="send a message", json=body)
        except PlatformRefusal as error:
            if _find_code(error.answer) != WINDOW or message.op is Op.REACT:
                raise
            answer, is_template = await self._post_template(to, message), True
        return _read_message_id(answer), is_template

    async def _post_template(self, to: wire.Recipient, message: Outbound) -> Any:
        name = self._config[TEMPLATE]
        if not name:
            raise Refused(
                "this bot",
                "write first",
                to.address,
                "the person's last message is more than 24 hours old; wait for one, or set channels.whatsapp.template"
                " to an approved template with one parameter",
            )
        body = wire.render_template(to, message, name, self._config[TEMPLATE_LANGUAGE])
        return await self._call("POST", f"{self._number}/messages", action="send a template", json=body)

    async def _upload(self, file: OutboundFile, mime: str) -> str:
        """Uploading is no effect that anybody sees, so it may be repeated."""
        async with open_upload(file) as stream:
            answer = await self._call(
                "POST",
                f"{self._number}/media",
                action="upload a file",
                reads=True,
                timeout=120.0,
                data={"messaging_product": "whatsapp", "type": mime},
                files={"file": (file.name, stream, mime)},
            )
        media = answer.get("id") if isinstance(answer, dict) else None
        if not isinstance(media, str):
            raise Unavailable("WhatsApp", "it gave no id for an uploaded file")
        return media

    async def look_up(self, address: str, key: str) -> str | None:
        """None only for what never began: that Meta has not reported a message does not prove that it lacks it."""
        known = key[: wire.LONGEST_CALLBACK]
        found = self._reported.get(known)
        if found is None:
            found = (await self._load_reports()).get(known)
        if found == NOT_THERE:
            await self._forget_report(known)  # it is about this try; the next one has a report of its own
            return None
        if found is not None:
            return found
        if await self._attempts.find(key) is None:
            return None
        now = self._deps.clock.now()
        since = self._asked.get(key, now)
        _keep(self._asked, key, since)
        if now - since < REPORTED_WITHIN:
            raise Unavailable("WhatsApp", "it has not reported on the message yet", retry_after=RETRY_S)
        raise Refused("this bot", "know whether it was sent", address, "WhatsApp has not reported on the message")

    async def mark_read(self, address: str, thread: str, messages: tuple[str, ...]) -> None:
        """The mark of the newest stands for those before it, too. Groups have none of a business."""
        if not address.startswith(wire.GROUPS):
            _keep(self._last, address, messages[-1])
            await self._mark_read(messages[-1], "mark a message as read")

    async def _mark_read(self, message: str, action: str, **more: Any) -> None:
        body = {"messaging_product": "whatsapp", "status": "read", "message_id": message, **more}
        await self._call("POST", f"{self._number}/messages", action=action, reads=True, json=body)

    async def typing(self, address: str, thread: str, on: bool) -> None:
        """The sign marks a message as read, so it is shown for one that an agent has taken. It ends with the answer, or
        after 25 seconds."""
        message = self._last.get(address)
        if on and message is not None:
            await self._mark_read(message, "show that it types", typing_indicator={"type": "text"})

    async def check(self) -> BotIdentity:
        for name, value in (
            ("app_secret", await self._deps.secret(APP_SECRET)),
            ("verify_token", await self._deps.secret(VERIFY_TOKEN)),
        ):
            if not value:
                raise ChannelEnded(EndReason.SETTING, f"channels.whatsapp.{name} is not set", "set it")
        try:
            number = await self._get_number()
        except PlatformRefusal as refusal:
            raise (explain_refusal(refusal, self._number) or refusal) from None
        check_registered(number)
        shown = str(number.get("display_phone_number", ""))
        digits = "".join(sign for sign in shown if sign.isdecimal())
        return BotIdentity(
            name=f"{shown} ({number.get('verified_name', '')})",
            link=f"https://wa.me/{digits}" if digits else "",
            notes=list_notes(number),
        )

    async def check_poller(self) -> None:
        try:
            answer = await self._call("GET", self._number, action="read its webhooks", params={"fields": HOOKS})
        except PlatformRefusal:
            return  # the token may send and not manage: then nobody can know
        check_hooks(answer, self._deps.instance)

    async def close(self) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()

    async def _get_number(self) -> dict[str, Any]:
        if not self._number:
            raise ChannelEnded(
                EndReason.SETTING, "channels.whatsapp.phone_number_id is not set", "copy it from the app's API Setup"
            )
        answer = await self._call("GET", self._number, action="read its number", params={"fields": FIELDS})
        return answer if isinstance(answer, dict) else {}

    def _open_media(self, media: str) -> OpenFile:
        async def stream() -> AsyncIterator[bytes]:
            """Two steps: the address, which holds for five minutes, then the bytes."""
            found = await self._call("GET", media, action="find a file", params={"phone_number_id": self._number})
            url = found.get("url") if isinstance(found, dict) else None
            if not isinstance(url, str):
                raise NotFound("file", media, "WhatsApp keeps files for seven days")
            http = await self._connect(url)
            async for chunk in http.download(url):
                yield chunk

        return stream

    async def _call(self, method: str, path: str, **more: Any) -> Any:
        http = await self._connect()
        return await http.call(method, path, **more)

    async def _connect(self, url: str = "") -> PlatformHttp:
        """The client for the Graph API, or for the host of Meta that has the files. No other host gets the token, nor
        a request."""
        api = self._config[API_URL]
        origin = MEDIA_ORIGIN if url and not _is_below(url, api) else api
        if origin == MEDIA_ORIGIN and not _is_below(url, MEDIA_ORIGIN):
            raise Refused("this bot", "read a file", "WhatsApp", "its address is not on a host of Meta")
        if origin not in self._clients:
            token = await self._deps.secret(TOKEN)
            if not token:
                raise ChannelEnded(EndReason.TOKEN, "channels.whatsapp.token is not set", WAY_OUT)
            headers = {"authorization": f"Bearer {token}"}
            self._clients[origin] = PlatformHttp(
                "WhatsApp", origin, headers=headers, remedy=WAY_OUT, read_error=read_error
            )
        return self._clients[origin]


def _is_below(url: str, base: str) -> bool:
    """Return True if an address has the origin of another."""
    given, known = urlsplit(url), urlsplit(base)
    return (given.scheme, given.netloc) == (known.scheme, known.netloc)


def _add_reports(needed: dict[str, str], saved: str) -> str:
    known = (json.loads(saved) if saved else {}) | needed
    return json.dumps(dict(list(known.items())[-MOST_SAVED:]))


def _remove_report(key: str, saved: str) -> str:
    known = json.loads(saved) if saved else {}
    return json.dumps({name: found for name, found in known.items() if name != key})


def _keep(table: OrderedDict[str, Any], name: str, value: Any) -> None:
    """The newest entries only."""
    table.pop(name, None)
    table[name] = value
    while len(table) > MOST_KEPT:
        table.popitem(last=False)


def _find_code(answer: Any) -> int:
    error = answer.get("error") if isinstance(answer, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else -1


def _read_message_id(answer: Any) -> str:
    messages = answer.get("messages") if isinstance(answer, dict) else None
    first = messages[0] if isinstance(messages, list) and messages else None
    found = first.get("id") if isinstance(first, dict) else None
    if not isinstance(found, str):
        raise Unavailable("WhatsApp", "its answer names no message", uncertain=True)
    return found

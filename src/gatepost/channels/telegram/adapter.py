"""Telegram: long polls bring updates, the Bot API sends.

The platform deduplicates nothing that a bot sends, and tells a bot nothing of what was said earlier. So a message whose
answer got lost ends as `uncertain`, and is not sent again.
"""

import json
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from functools import partial

from gatepost.channels.contract import BotIdentity, ChannelDeps, ChannelEnded, EndReason, Receive
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.native_commands import CommandRules, ShownCommand, fit_commands, register_commands
from gatepost.channels.kit.receiving import skip_invalid
from gatepost.channels.telegram import API_URL, POLL_S, TOKEN
from gatepost.channels.telegram.api import BOTFATHER, WAY_OUT, TelegramApi
from gatepost.channels.telegram.polling import PROBE_S, UpdatePoller, check_conflict, make_hook_error
from gatepost.channels.telegram.render import (
    CHOOSE,
    DIGEST,
    DONE,
    Keyboard,
    find_reaction,
    join_choices,
    render_card,
    render_keyboard,
    show_choices,
)
from gatepost.channels.telegram.sending import TelegramSender
from gatepost.channels.telegram.updates import find_message
from gatepost.channels.telegram.wire import (
    Payload,
    TelegramSelf,
    parse_person,
    parse_room,
    read_click,
    read_self,
    read_update,
)
from gatepost.core import log
from gatepost.core.errors import Invalid, NotFound, Refused, Unavailable, Unsupported
from gatepost.core.records import replace
from gatepost.messages.inbound import Inbound, OpenFile
from gatepost.messages.outbound import Op, Outbound

LOG = log.get("telegram")
LARGEST_DOWNLOAD = 20 * 1024 * 1024  # that the Bot API gives out
MOST_LONG_IDS = 500
LONG_IDS = "buttons"  # the name of the cursor that keeps them
COMMAND_RULES = CommandRules(name=r"[a-z0-9_]{1,32}", longest_help=256, most=100, hyphen="_")
_TOKEN = re.compile(r"[0-9]{3,20}:[A-Za-z0-9_-]{20,}\Z")
CardKey = tuple[str, str, str]  # room, message, person
MOST_CARDS = 1000


class CardChoices:
    """Choices that each person has checked on cards of several. In memory: after a restart they check them again."""

    def __init__(self) -> None:
        self._chosen: OrderedDict[CardKey, frozenset[str]] = OrderedDict()

    def get(self, card: CardKey) -> frozenset[str]:
        return self._chosen.get(card, frozenset())

    def toggle(self, card: CardKey, choice: str) -> frozenset[str]:
        """Return what is checked from now on. The oldest cards are forgotten."""
        chosen = self._chosen[card] = self.get(card) ^ {choice}
        self._chosen.move_to_end(card)
        if len(self._chosen) > MOST_CARDS:
            self._chosen.popitem(last=False)
        return chosen


class TelegramChannel:
    def __init__(self, deps: ChannelDeps) -> None:
        self._deps = deps
        self._api: TelegramApi | None = None
        self._me = TelegramSelf()
        self._receive: Receive | None = None
        self._choices = CardChoices()
        self._long_ids: dict[str, str] | None = None  # of buttons, by what stands for them
        self._term = 0

    @property
    def own_names(self) -> frozenset[str]:
        return frozenset({self._me.username.lower()} - {""})

    async def close(self) -> None:
        if self._api is not None:
            await self._api.close()
            self._api = None

    async def _get_api(self) -> TelegramApi:
        if self._api is None:
            token = (await self._deps.secret(TOKEN)).strip()
            if not token:
                raise ChannelEnded(
                    EndReason.TOKEN, "there is no token of a bot", f"get one from {BOTFATHER}, and set it"
                )
            if not _TOKEN.match(token):
                raise ChannelEnded(EndReason.TOKEN, "the token has not the form of one", WAY_OUT)
            if self._api is None:
                self._api = TelegramApi(self._deps.config[API_URL], token, self._deps)
        return self._api

    # Receiving.

    async def listen(self, receive: Receive) -> None:
        self._receive = skip_invalid(receive)
        api = await self._get_api()
        self._me = read_self(await api.call("getMe", {}, "ask who it is", reads=True))
        commands = fit_commands(self._deps.commands, COMMAND_RULES)
        await register_commands(self._deps, str(self._me.id), commands, partial(_set_commands, api, commands))
        await UpdatePoller(api, self._deps, self._deps.config[POLL_S], self._handle).run()

    async def _handle(self, updates: Sequence[Payload]) -> None:
        """Updates that belong together: one, or the parts of an album."""
        api = await self._get_api()
        try:
            await self._record_moves(api, updates)
            query = updates[0].get("callback_query")
            moved = await api.load_moved()
            click = read_click(query, moved) if query else None
            made = [each for update in updates for each in read_update(update, self._me, moved, self._open_file)]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # It would come again for ever, and stop everything behind it.
            LOG.error("an update cannot be read, and is left out", error=repr(error), update=updates[0]["update_id"])
            return
        if query:
            if click is not None:
                await self._handle_click(api, query, click)
            return
        for each in [join_album(made)] if len(updates) > 1 and made else made:
            await self._hand_in(each)

    async def _record_moves(self, api: TelegramApi, updates: Sequence[Payload]) -> None:
        for update in updates:
            message = find_message(update)
            here = (message.get("chat") or {}).get("id")
            new, old = message.get("migrate_to_chat_id"), message.get("migrate_from_chat_id")
            if isinstance(here, int) and isinstance(new, int):
                await api.record_move(here, new)
            elif isinstance(here, int) and isinstance(old, int):
                await api.record_move(old, here)

    async def _hand_in(self, inbound: Inbound) -> None:
        if self._receive is not None:
            await self._receive(inbound)

    async def _handle_click(self, api: TelegramApi, query: Payload, found: Inbound) -> None:
        """Handle a pressed button. If several may be chosen, each person has their own choices, and the boxes show
        those of whoever pressed last: nobody signs what somebody else has checked."""
        message = query.get("message") or {}
        keyboard = (message.get("reply_markup") or {}).get("inline_keyboard") or []
        words, card = "", (found.address, str(message.get("message_id")), found.sender)
        if found.click.startswith(CHOOSE):
            chosen = self._choices.toggle(card, found.click)
            await self._change_choice(api, query, show_choices(keyboard, chosen))
        else:
            ids = await self._load_long_ids()
            chosen = self._choices.get(card)
            click = join_choices(keyboard, chosen, ids) if found.click == DONE else ids.get(found.click, found.click)
            if click:
                await self._hand_in(replace(found, click=click))
            else:
                words = "Choose at least one."
        await self._answer_click(api, query, words)

    async def _change_choice(self, api: TelegramApi, query: Payload, keyboard: Keyboard) -> None:
        message = query["message"]
        payload = {"message_id": message["message_id"], "reply_markup": {"inline_keyboard": keyboard}}
        try:
            await api.call_chat(message["chat"]["id"], "editMessageReplyMarkup", payload, "show a choice")
        except PlatformRefusal:
            return  # the card is gone, or somebody was faster

    async def _answer_click(self, api: TelegramApi, query: Payload, words: str) -> None:
        payload = {"callback_query_id": query["id"], **({"text": words} if words else {})}
        try:
            await api.call("answerCallbackQuery", payload, "answer a click", reads=True)
        except (Unavailable, PlatformRefusal):
            return  # the click is ours; only the sign on the screen stays a little

    def _open_file(self, ident: str, size: int) -> OpenFile:
        async def read() -> AsyncIterator[bytes]:
            if size > LARGEST_DOWNLOAD:
                raise Invalid("file", f"it has {size} bytes; Telegram gives bots at most {LARGEST_DOWNLOAD}")
            api = await self._get_api()
            found = await api.call("getFile", {"file_id": ident}, "read a file", reads=True)
            path = str(found.get("file_path") or "")
            if not path or ".." in path:
                raise Invalid("file", "Telegram does not say where it is")
            async for chunk in api.http.download(api.find_file_url(path)):
                yield chunk

        return read

    # Sending.

    async def send(self, address: str, message: Outbound) -> str:
        chat = parse_room(address)
        if chat is None:
            raise NotFound("room", address, "a room on Telegram is telegram:group/<id> or telegram:user/<id>")
        api = await self._get_api()
        sender = TelegramSender(api, chat)
        match message.op:
            case Op.SEND | Op.FILE:
                return await sender.send_message(message)
            case Op.CARD:
                return await self._send_card(sender, message)
            case Op.VOICE:
                return await sender.send_voice(message)
            case Op.FORWARD:
                return await sender.forward(message, parse_room(message.source))
            case Op.EDIT:
                keyboard = await self._make_keyboard(message) if message.card is not None else []
                return await sender.edit(message, keyboard)
            case Op.DELETE:
                return await sender.delete(message)
            case Op.REACT:
                return await sender.react(message, find_reaction(message.reaction) if message.reaction else "")
            case Op.PIN | Op.UNPIN | Op.UNPIN_ALL:
                return await sender.pin(message)
            case _:
                raise Unsupported(message.op.value, "telegram", "use send")

    async def _send_card(self, sender: TelegramSender, message: Outbound) -> str:
        if message.card is None:
            return await sender.send_message(message)
        keyboard = await self._make_keyboard(message)
        return await sender.send_words(render_card(message.card), message, keyboard)

    async def _make_keyboard(self, message: Outbound) -> Keyboard:
        assert message.card is not None
        keyboard, long_ids = render_keyboard(message.card)
        if long_ids:
            known = await self._load_long_ids()
            known |= long_ids
            while len(known) > MOST_LONG_IDS:
                del known[next(iter(known))]
            await self._deps.cursor.save(json.dumps(known), LONG_IDS)
        return keyboard

    async def _load_long_ids(self) -> dict[str, str]:
        if self._long_ids is None or self._term != self._deps.cursor.term:
            term = self._deps.cursor.term
            kept = json.loads(await self._deps.cursor.load(LONG_IDS) or "{}")
            self._long_ids = {str(short): str(ident) for short, ident in kept.items() if short.startswith(DIGEST)}
            self._term = term
        return self._long_ids

    # The rest.

    async def typing(self, address: str, thread: str, on: bool) -> None:
        chat = parse_room(address)
        if on and chat is not None:  # it ends by itself after five seconds, or with the next message
            api = await self._get_api()
            payload = {"action": "typing", **({"message_thread_id": int(thread)} if thread.isdecimal() else {})}
            await api.call_chat(chat, "sendChatAction", payload, "show typing")

    async def open_direct(self, sender: str) -> str:
        """Return the room of a person, which has the person's number. Only a try shows if the bot may write there."""
        person = parse_person(sender)
        if person is None:
            raise NotFound("person", sender, "a person on Telegram is telegram:user/<id>")
        api = await self._get_api()
        try:
            await api.call_chat(person, "sendChatAction", {"action": "typing"}, "write to a person")
        except PlatformRefusal:
            name = self._me.username or "the bot's name"
            why = f"the person must first press Start at https://t.me/{name}"
            raise Refused("this bot", "write to", sender, why) from None
        return f"telegram:user/{person}"

    async def check(self) -> BotIdentity:
        api = await self._get_api()
        me = read_self(await api.call("getMe", {}, "ask who it is", reads=True))
        hook = await api.call("getWebhookInfo", {}, "ask for its webhook", reads=True)
        if hook.get("url"):
            raise make_hook_error()
        notes = []
        if not me.reads_all:
            notes.append(
                "privacy mode is on: in groups it sees commands, replies to it and mentions only; "
                "send /setprivacy to @BotFather, or make it an administrator, to let it read everything"
            )
        if not me.joins_groups:
            notes.append("it cannot be added to groups; send /setjoingroups to @BotFather to allow it")
        notes.append("reactions are told to it in groups where it is an administrator")
        return BotIdentity(name=f"@{me.username} ({me.name})", link=f"https://t.me/{me.username}", notes=tuple(notes))

    async def check_poller(self) -> None:
        await check_conflict(await self._get_api(), min(self._deps.config[POLL_S], PROBE_S))


async def _set_commands(api: TelegramApi, commands: Sequence[ShownCommand]) -> None:
    listed = [{"command": each.shown, "description": each.help} for each in commands]
    await api.call("setMyCommands", {"commands": listed}, "set its commands", reads=True)  # done twice, it is done once


def join_album(parts: Sequence[Inbound]) -> Inbound:
    """The parts as one message: the words stand at one of them."""
    first = parts[0]
    return replace(
        first,
        text="\n".join(each.text for each in parts if each.text),
        attachments=tuple(file for each in parts for file in each.attachments),
        verb=next((each.verb for each in parts if each.verb != first.verb and each.text), first.verb),
    )

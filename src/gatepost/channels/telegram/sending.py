"""Messages to one chat. An effect is one call where Telegram lets it be; else its first part decides."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from gatepost.channels.contract import ChannelEnded
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.uploads import open_upload
from gatepost.channels.telegram.api import TelegramApi
from gatepost.channels.telegram.render import (
    LONGEST_CAPTION,
    Keyboard,
    RenderedText,
    count_shown,
    pick_method,
    render_card,
    render_group,
    render_words,
    split_groups,
)
from gatepost.core.errors import NotFound, Unavailable
from gatepost.messages.outbound import Op, Outbound, OutboundFile

NO_PREVIEW = {"is_disabled": True}  # else Telegram would fetch every address that an agent writes
NOT_MODIFIED = "message is not modified"
NO_ENTITIES = "can't parse entities"
NO_WORDS = "there is no text in the message to edit"
GONE = ("message to delete not found", "message identifier is not specified")

Step = Callable[[], Awaitable[str]]


class TelegramSender:
    def __init__(self, api: TelegramApi, chat: int) -> None:
        self._api, self._chat = api, chat

    async def _call(self, method: str, payload: dict[str, Any], action: str, **more: Any) -> Any:
        return await self._api.call_chat(self._chat, method, payload, action, **more)

    async def send_message(self, message: Outbound) -> str:
        if not message.files:
            return await self.send_words(render_words(message.text), message)
        caption = render_words(message.text)
        fits = count_shown(caption.html) <= LONGEST_CAPTION
        steps: list[Step] = [] if fits else [lambda: self.send_words(caption, message)]
        for number, group in enumerate(split_groups(message.files)):
            words = caption if fits and number == 0 else RenderedText("", "")
            steps.append(lambda group=group, words=words: self._send_files(group, words, message))  # type: ignore[misc]
        return await run_steps(steps)

    async def send_words(self, text: RenderedText, message: Outbound, keyboard: Keyboard | None = None) -> str:
        payload = {"link_preview_options": NO_PREVIEW, **self._place(message)}
        if keyboard:
            payload["reply_markup"] = {"inline_keyboard": keyboard}
        return read_id(await self._call_with_words("sendMessage", "text", text, payload, "send a message"))

    def _place(self, message: Outbound) -> dict[str, Any]:
        """The topic, and what is answered."""
        place: dict[str, Any] = {}
        if message.thread:
            place["message_thread_id"] = parse_number("thread", message.thread)
        if message.reply_to:
            answered = parse_number("message", message.reply_to)
            place["reply_parameters"] = {"message_id": answered, "allow_sending_without_reply": True}
        return place

    async def _call_with_words(
        self, method: str, field: str, text: RenderedText, payload: dict[str, Any], action: str, **more: Any
    ) -> Any:
        """Words that Telegram cannot read as HTML are sent as they were written. Nothing had happened then."""
        try:
            html = {field: text.html, "parse_mode": "HTML", **payload}
            return await self._api.call_chat(self._chat, method, html, action, **more)
        except PlatformRefusal as error:
            if NO_ENTITIES not in error.detail.lower() or more:
                raise
            return await self._call(method, {field: text.plain, **payload}, action)

    async def _send_files(self, files: tuple[OutboundFile, ...], words: RenderedText, message: Outbound) -> str:
        if len(files) > 1:
            return await self._send_group(files, words, message)
        method, field = pick_method(files[0])
        try:
            return await self._send_file(method, field, files[0], words, message)
        except PlatformRefusal as error:
            if field != "photo" or error.status != 400:
                raise
        # A picture that Telegram cannot show as one (too narrow, too many points, none at all) is still a file.
        return await self._send_file("sendDocument", "document", files[0], words, message)

    async def _send_file(
        self, method: str, field: str, file: OutboundFile, words: RenderedText, message: Outbound
    ) -> str:
        payload = {**({"caption": words.html, "parse_mode": "HTML"} if words.html else {}), **self._place(message)}
        async with open_upload(file) as data:
            upload = {field: (file.name, data, file.mime)}
            return read_id(await self._call(method, payload, "send a file", files=upload))

    async def _send_group(self, files: tuple[OutboundFile, ...], words: RenderedText, message: Outbound) -> str:
        payload = {"media": render_group(files, words.html), **self._place(message)}
        async with AsyncExitStack() as stack:
            uploads = {
                f"file{at}": (file.name, await stack.enter_async_context(open_upload(file)), file.mime)
                for at, file in enumerate(files)
            }
            sent = await self._call("sendMediaGroup", payload, "send files", files=uploads)
        return read_id(sent[0])

    async def send_voice(self, message: Outbound) -> str:
        words = render_words(message.text)
        if count_shown(words.html) > LONGEST_CAPTION:
            words = RenderedText("", "")  # cut, they would only seem to be what is said
        return await self._send_file("sendVoice", "voice", message.files[0], words, message)

    async def forward(self, message: Outbound, source: int | None) -> str:
        if source is None:
            raise NotFound("room", message.source)
        where = self._api.find_current(await self._api.load_moved(), source)
        payload = {
            "from_chat_id": where,
            "message_id": parse_number("message", message.target),
            **self._thread(message),
        }

        async def pass_on() -> str:
            return read_id(await self._call("forwardMessage", payload, "forward a message"))

        comment: list[Step] = [lambda: self.send_words(render_words(message.text), message)] if message.text else []
        return await run_steps([pass_on, *comment])

    def _thread(self, message: Outbound) -> dict[str, Any]:
        return {name: value for name, value in self._place(message).items() if name == "message_thread_id"}

    async def edit(self, message: Outbound, keyboard: Keyboard) -> str:
        target = parse_number("message", message.target)
        text = render_card(message.card) if message.card is not None else render_words(message.text)
        payload: dict[str, Any] = {"message_id": target}
        if message.card is not None:
            payload["reply_markup"] = {"inline_keyboard": keyboard}
        try:
            more = {**payload, "link_preview_options": NO_PREVIEW}
            await self._call_with_words("editMessageText", "text", text, more, "edit a message")
        except PlatformRefusal as error:
            if NO_WORDS in error.detail.lower():
                await self._edit_caption(message, payload)
            elif NOT_MODIFIED not in error.detail.lower():
                raise
        return message.target

    async def _edit_caption(self, message: Outbound, payload: dict[str, Any]) -> None:
        text = render_words(message.text, LONGEST_CAPTION)
        try:
            await self._call_with_words("editMessageCaption", "caption", text, payload, "edit a message")
        except PlatformRefusal as error:
            if NOT_MODIFIED not in error.detail.lower():
                raise

    async def delete(self, message: Outbound) -> str:
        target = parse_number("message", message.target)
        try:
            await self._call("deleteMessage", {"message_id": target}, "delete a message (within 48 hours)")
        except PlatformRefusal as error:
            if not any(words in error.detail.lower() for words in GONE):
                raise
        return message.target

    async def react(self, message: Outbound, emoji: str) -> str:
        reaction = [{"type": "emoji", "emoji": emoji}] if emoji else []
        payload = {"message_id": parse_number("message", message.target), "reaction": reaction}
        await self._call("setMessageReaction", payload, f"react with {emoji}")
        return message.target

    async def pin(self, message: Outbound) -> str:
        if message.op is Op.UNPIN_ALL:
            method = "unpinAllForumTopicMessages" if message.thread else "unpinAllChatMessages"
            await self._call(method, self._thread(message), "unpin all messages")
            return str(self._chat)
        target = {"message_id": parse_number("message", message.target)}
        if message.op is Op.PIN:
            await self._call("pinChatMessage", {**target, "disable_notification": True}, "pin a message")
        else:
            await self._call("unpinChatMessage", target, "unpin a message")
        return message.target


async def run_steps(steps: list[Step]) -> str:
    """Calls that are one effect, and the id that the first gave. Once one has happened, a later failure that would be
    tried again must not make it happen twice."""
    first = ""
    for step in steps:
        try:
            made = await step()
        except (Unavailable, ChannelEnded) as error:
            if first:
                raise Unavailable(
                    "Telegram", f"a part was sent, the rest was not: {error.why}", uncertain=True
                ) from None
            raise
        first = first or made
    return first


def read_id(sent: Any) -> str:
    return str(int(sent["message_id"]))


def parse_number(kind: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 20):
        raise NotFound(kind, text)
    return int(text)

"""Calls of the Bot API: one reading of its answers, chats that moved, and whose limit a limit is."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from gatepost.channels.contract import ChannelDeps, ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformHttp, PlatformRefusal, check_web_address
from gatepost.channels.telegram.wire import Payload
from gatepost.core.clock import SECOND
from gatepost.core.errors import Unavailable

BOTFATHER = "https://t.me/BotFather"
WAY_OUT = f"get a new one from {BOTFATHER} with /token, and set it with `gatepost channel set`"
MOST_MOVED = 1000
MOVED = "moved"  # the name of its cursor


class TelegramApi:
    """The token is a part of every address, so that no error may show one: each call has words of its own."""

    def __init__(self, api_url: str, token: str, deps: ChannelDeps) -> None:
        check_web_address(api_url)
        base = api_url.rstrip("/")
        self._files_url = f"{base}/file/bot{token}/"
        self._deps = deps
        self.http = PlatformHttp(
            "Telegram", f"{base}/bot{token}/", remedy=WAY_OUT, find_retry_after=lambda _, answer: find_wait(answer)
        )
        self._moved: dict[int, int] | None = None  # a supergroup: the group that it was
        self._term = 0
        self._limited: dict[int, int] = {}  # a chat: until when, on the monotonic clock

    async def close(self) -> None:
        await self.http.close()

    async def call(
        self,
        method: str,
        payload: Payload,
        action: str,
        *,
        reads: bool = False,
        timeout: float | None = None,
        files: Mapping[str, Any] | None = None,
    ) -> Any:
        body: dict[str, Any] = (
            {"json": dict(payload)} if files is None else {"data": _make_form(payload), "files": files}
        )
        try:
            answer = await self.http.call("POST", method, action=action, reads=reads, timeout=timeout, **body)
        except PlatformRefusal as error:
            if error.status == 404:  # of a token that is none: every other answer is a 400
                raise ChannelEnded(EndReason.TOKEN, "Telegram knows no bot with this token", WAY_OUT) from None
            raise
        if not isinstance(answer, Mapping) or "result" not in answer:
            raise Unavailable("Telegram", "its answer cannot be read", uncertain=not reads)
        return answer["result"]

    async def call_chat(
        self, chat: int, method: str, payload: Payload, action: str, files: Mapping[str, Any] | None = None
    ) -> Any:
        """In the chat, under the number that it has now."""
        where = self.find_current(await self.load_moved(), chat)
        try:
            return await self.call(method, {"chat_id": where, **payload}, action, files=files)
        except PlatformRefusal as error:
            new = find_new_chat(error)
            if new is None or new == where or files is not None:
                if new is not None:
                    await self.record_move(chat, new)
                    raise Unavailable("Telegram", "the group has moved") from None  # its files are read anew
                raise
            await self.record_move(chat, new)
            return await self.call(method, {"chat_id": new, **payload}, action)
        except Unavailable as error:
            if error.retry_after is not None:
                error.everywhere = self._is_everywhere(chat, error.retry_after)
            raise

    def _is_everywhere(self, chat: int, wait: float) -> bool:
        """Telegram does not say whose limit it is. Two chats at once are limited only together."""
        now = self._deps.clock.monotonic()
        self._limited = {each: until for each, until in self._limited.items() if until > now}
        others = any(each != chat for each in self._limited)
        self._limited[chat] = now + int(wait * SECOND)
        return others

    # Groups that became supergroups.

    async def load_moved(self) -> dict[int, int]:
        if self._moved is None or self._term != self._deps.cursor.term:
            term = self._deps.cursor.term
            kept = await self._deps.cursor.load(MOVED)
            self._moved = {int(new): int(old) for new, old in json.loads(kept or "{}").items()}
            self._term = term
        return self._moved

    async def record_move(self, old: int, new: int) -> None:
        """The room keeps the address by which it is known."""
        moved = await self.load_moved()
        if moved.get(new) == old or old == new:
            return
        moved[new] = old
        while len(moved) > MOST_MOVED:
            del moved[next(iter(moved))]
        await self._deps.cursor.save(json.dumps(moved), MOVED)

    @staticmethod
    def find_current(moved: Mapping[int, int], chat: int) -> int:
        return next((new for new, old in moved.items() if old == chat), chat)

    def find_file_url(self, path: str) -> str:
        return self._files_url + quote(path.lstrip("/"), safe="/")


def find_wait(answer: Any) -> float | None:
    wait = (answer.get("parameters") or {}).get("retry_after") if isinstance(answer, Mapping) else None
    return float(wait) if isinstance(wait, int | float) else None


def find_new_chat(error: PlatformRefusal) -> int | None:
    parameters = error.answer.get("parameters") if isinstance(error.answer, Mapping) else None
    new = (parameters or {}).get("migrate_to_chat_id")
    return new if isinstance(new, int) else None


def _make_form(payload: Payload) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in payload.items()
        if value is not None
    }

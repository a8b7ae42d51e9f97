"""Posts, replies and marks of the account at a Mastodon server.

The server knows a repeated post by its `Idempotency-Key` for an hour: as long as a delivery is tried, unless
`delivery.max_age_s` was raised.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from gatepost.channels.kit.http import PlatformHttp
from gatepost.channels.kit.uploads import open_upload
from gatepost.channels.mastodon import wire
from gatepost.channels.mastodon.wire import StatusVisibility
from gatepost.core.errors import Unavailable, Unsupported
from gatepost.messages.outbound import Op, Outbound, OutboundFile

MOST_FILES = 4
# The types that the server takes (its app/models/media_attachment.rb). Other files are named in the text.
IMAGES = frozenset(f"image/{each}" for each in ("jpeg", "png", "gif", "heic", "heif", "webp", "avif"))
FILMS = frozenset(f"video/{each}" for each in ("webm", "mp4", "quicktime", "ogg"))
SOUNDS = frozenset(
    f"audio/{each}" for each in ("wave", "wav", "x-wav", "ogg", "vorbis", "mpeg", "mp3", "webm", "flac", "aac", "mp4")
) | {"audio/m4a", "audio/x-m4a", "audio/3gpp"}
TAKEN = IMAGES | FILMS | SOUNDS
QUOTES_SINCE = 7  # the version of the API that takes `quoted_status_id`
PROCESSING, MOST_LOOKS, LOOK_S = 206, 20, 1.0


def pick_media(files: Sequence[OutboundFile]) -> list[OutboundFile]:
    """The files that stand together in a post: up to four pictures, or one sound or film."""
    taken = [file for file in files if file.mime in TAKEN]
    if taken and taken[0].mime not in IMAGES:
        return taken[:1]
    return [file for file in taken if file.mime in IMAGES][:MOST_FILES]


class MastodonPosting:
    def __init__(
        self,
        connect: Callable[[], Awaitable[PlatformHttp]],
        visibility: str,
        remember_root: Callable[[str, str], None],
    ) -> None:
        self._connect, self._visibility, self._remember_root = connect, visibility, remember_root
        self._api_version: int | None = None

    async def send(self, address: str, message: Outbound) -> str:
        if address != wire.FEED:
            wire.get_account_id(address)
        try:
            match message.op:
                case Op.SEND | Op.FILE | Op.CARD | Op.VOICE:
                    return await self._answer(address, message)
                case Op.POST:
                    return await self._post(
                        {"status": wire.render_answer(message.text, []), "visibility": self._visibility}, message
                    )
                case Op.QUOTE:
                    return await self._quote(message)
                case Op.EDIT:
                    return await self._edit(message)
                case Op.DELETE:
                    return await self._change("DELETE", message.target, "", "delete a post")
                case Op.REACT:
                    wire.check_like(address, message.reaction)
                    return await self._change("POST", message.target, "/favourite", "favourite a post")
                case Op.REPOST:
                    return await self._change("POST", message.target, "/reblog", "boost a post")
        except Unavailable as error:
            error.everywhere |= error.retry_after is not None  # the server counts by account, not by conversation
            raise
        raise Unsupported(message.op.value, "mastodon", "use send with the same text")

    async def _answer(self, address: str, message: Outbound) -> str:
        """An answer is seen by those who see what it answers, and names the person answered."""
        http, answered = await self._connect(), message.reply_to or message.thread
        status: dict[str, Any] = {"visibility": self._visibility}
        names: list[str] = []
        if answered:
            path = f"api/v1/statuses/{wire.check_status_id(answered)}"
            parent = await http.call("GET", path, action="read what it answers")
            status |= {"in_reply_to_id": answered, "visibility": StatusVisibility(parent["visibility"]).value}
            author = wire.read_account(parent.get("account"))
            names = [author.acct] if author is not None else []
        if address != wire.FEED:
            person = await http.call("GET", f"api/v1/accounts/{wire.get_account_id(address)}", action="find somebody")
            known = wire.read_account(person)
            names = [known.acct] if known is not None else names
            status["visibility"] = StatusVisibility.DIRECT.value
        made = await self._post({**status, "status": wire.render_answer(message.text, names)}, message)
        if answered:
            self._remember_root(made, message.thread or answered)
        return made

    async def _post(self, status: dict[str, Any], message: Outbound) -> str:
        http = await self._connect()
        media = pick_media(message.files)
        if media:
            status["media_ids"] = [await self._upload(file) for file in media]
        named = [file.name for file in message.files if file not in media]
        status["status"] = wire.name_files(status["status"], named)
        key = {"Idempotency-Key": hashlib.sha256(message.key.encode()).hexdigest()}
        answer = await http.call("POST", "api/v1/statuses", json=status, headers=key, action="post")
        return str(answer["id"])

    async def _quote(self, message: Outbound) -> str:
        """An older server knows no quotes: there the address of the post goes along."""
        http, target = await self._connect(), wire.check_status_id(message.target)
        text = wire.render_answer(message.text, [])
        status: dict[str, Any] = {"status": text, "visibility": self._visibility}
        if await self._get_api_version() >= QUOTES_SINCE:
            status["quoted_status_id"] = target
        else:
            quoted = await http.call("GET", f"api/v1/statuses/{target}", action="read what it quotes")
            status["status"] = f"{text}\n\n{quoted.get('url') or quoted.get('uri')}"
        return await self._post(status, message)

    async def _get_api_version(self) -> int:
        if self._api_version is None:
            http = await self._connect()
            instance = await http.call("GET", "api/v2/instance", action="read what the server can do")
            versions = instance.get("api_versions") if isinstance(instance, Mapping) else None
            version = versions.get("mastodon") if isinstance(versions, Mapping) else None
            self._api_version = version if isinstance(version, int) else 0
        return self._api_version

    async def _edit(self, message: Outbound) -> str:
        http, target = await self._connect(), wire.check_status_id(message.target)
        own = await http.call("GET", f"api/v1/statuses/{target}", action="read its post")
        named = [found.acct for each in own.get("mentions") or [] if (found := wire.read_account(each)) is not None]
        changed = {"status": wire.render_answer(message.text, named)}
        await http.call("PUT", f"api/v1/statuses/{target}", json=changed, action="edit a post")
        return target

    async def _change(self, method: str, target: str, path: str, action: str) -> str:
        http = await self._connect()
        answer = await http.call(method, f"api/v1/statuses/{wire.check_status_id(target)}{path}", action=action)
        return str(answer.get("id") or target)

    async def _upload(self, file: OutboundFile) -> str:
        """A file that no post names is seen by nobody: doing it twice does no harm. Large ones are processed first."""
        http = await self._connect()
        async with open_upload(file) as data:
            response, answer = await http.exchange(
                "POST",
                "api/v2/media",
                files={"file": (file.name, data, file.mime)},
                reads=True,
                action="upload a file",
            )
        media, looks = wire.check_status_id(str(answer["id"])), 0
        ready = response.status_code not in (202, PROCESSING)
        while not ready:
            if looks >= MOST_LOOKS:
                raise Unavailable("Mastodon", "it is still processing the file", retry_after=LOOK_S)
            looks += 1
            response, _ = await http.exchange("GET", f"api/v1/media/{media}", action="wait for a file")
            ready = response.status_code != PROCESSING
            if not ready:
                await asyncio.sleep(LOOK_S)
        return media

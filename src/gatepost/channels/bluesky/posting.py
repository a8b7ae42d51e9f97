"""Posts, replies and marks of the account at Bluesky.

A post is a record whose name we choose from our key: repeated, it is the same record, and it can be asked for by that
name. A private message has no such name; one whose answer got lost is uncertain.
"""

from typing import Any

from gatepost.channels.bluesky import wire
from gatepost.channels.bluesky.session import BlueskySession
from gatepost.channels.bluesky.wire import LIKE, POST, REPOST, RecordRef
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.kit.uploads import open_upload
from gatepost.core.clock import Clock, iso
from gatepost.core.errors import NotFound, Refused, Unavailable, Unsupported
from gatepost.messages.outbound import Op, Outbound, OutboundFile

MOST_IMAGES = 4
DRAWINGS = frozenset({"image/svg+xml"})  # the server looks into a file, and takes these for XML
LONGEST_POST, LONGEST_CHAT = 300, 1000
NOT_FOUND = "RecordNotFound"


class BlueskyPosting:
    def __init__(self, session: BlueskySession, clock: Clock) -> None:
        self._session, self._clock = session, clock

    async def send(self, address: str, message: Outbound) -> str:
        conversation = wire.parse_conversation(address)
        try:
            return await (self._chat(conversation, message) if conversation else self._publish(message))
        except Unavailable as error:
            error.everywhere |= error.retry_after is not None  # the server counts by account, not by conversation
            raise

    # Posts.

    async def _publish(self, message: Outbound) -> str:
        match message.op:
            case Op.SEND | Op.FILE | Op.CARD | Op.VOICE | Op.POST:
                return await self._post(message)
            case Op.QUOTE:
                quoted, _ = await self._get_ref(message.target)
                embed = {"$type": "app.bsky.embed.record", "record": {"uri": quoted.uri, "cid": quoted.cid}}
                return await self._post(message, embed)
            case Op.REPOST:
                return await self._create(REPOST, message.key, await self._render_subject(message.target))
            case Op.REACT:
                if hint := wire.explain_reaction(wire.FEED, message.reaction):
                    raise Unsupported(f"the reaction {message.reaction[:20]}", "bluesky", hint)
                await self._create(LIKE, message.key, await self._render_subject(message.target))
                return message.target
            case Op.DELETE:
                return await self._delete(message.target)
        raise Unsupported(message.op.value, "bluesky", "use delete, then post the corrected text")

    async def _post(self, message: Outbound, embed: dict[str, Any] | None = None) -> str:
        images = [file for file in message.files if file.mime.startswith("image/") and file.mime not in DRAWINGS]
        images = images[:MOST_IMAGES] if embed is None else []
        others = [file for file in message.files if file not in images]
        text = _name_files(message.text, others, LONGEST_POST)
        record: dict[str, Any] = {"text": text, "facets": wire.render_facets(text)}
        answered = message.reply_to or message.thread
        if answered and message.op is not Op.POST:
            target, view = await self._get_ref(answered)
            record["reply"] = wire.render_reply(target, wire.get_in(view, "record"))
        if embed is not None:
            record["embed"] = embed
        elif images:
            shown = [{"alt": file.name, "image": await self._upload(file)} for file in images]
            record["embed"] = {"$type": "app.bsky.embed.images", "images": shown}
        return await self._create(POST, message.key, record)

    async def _create(self, collection: str, key: str, record: dict[str, Any]) -> str:
        asked = {
            "repo": await self._get_did(),
            "collection": collection,
            "rkey": wire.make_key(key),
            "record": {"$type": collection, "createdAt": iso(self._clock.now()), **record},
        }
        name = "com.atproto.repo.createRecord"
        try:
            answer = await self._session.call("POST", name, json=asked, action="post")
        except PlatformRefusal:
            found = await self._find_record(collection, key)  # refused because it is there already
            if found is None:
                raise
            return found
        return str(answer["uri"])

    async def _get_did(self) -> str:
        await self._session.get_http()
        return self._session.did

    async def _upload(self, file: OutboundFile) -> Any:
        """A blob that no record names is seen by nobody: doing it twice does no harm. It is small (`largest_file`)."""
        async with open_upload(file) as data:
            answer = await self._session.call(
                "POST",
                "com.atproto.repo.uploadBlob",
                content=data.read(),
                headers={"Content-Type": file.mime},
                reads=True,
                action="upload a picture",
            )
        return answer["blob"]

    async def _delete(self, target: str) -> str:
        did, collection, key = wire.parse_uri(target)
        if did != await self._get_did():
            raise Refused("this bot", "delete what others posted", "Bluesky")
        asked = {"repo": did, "collection": collection, "rkey": key}
        await self._session.call("POST", "com.atproto.repo.deleteRecord", json=asked, action="delete a post")
        return target

    async def _render_subject(self, target: str) -> dict[str, Any]:
        ref, _ = await self._get_ref(target)
        return {"subject": {"uri": ref.uri, "cid": ref.cid}}

    async def _get_ref(self, uri: str) -> tuple[RecordRef, Any]:
        view, ref = await self.get_view(uri)
        if ref is None:
            raise NotFound("message", uri[:80], "it is gone, or cannot be seen by this account")
        return ref, view

    async def get_view(self, uri: str) -> tuple[Any, RecordRef | None]:
        """A post as it is shown, and its version."""
        wire.parse_uri(uri)
        answer = await self._session.call("GET", "app.bsky.feed.getPosts", params={"uris": [uri]}, action="read a post")
        posts = wire.get_in(answer, "posts")
        view = posts[0] if isinstance(posts, list) and posts else None
        return view, wire.read_ref(view)

    async def find_key(self, address: str, key: str) -> str | None:
        if wire.parse_conversation(address):
            raise Refused("this bot", "look for a message by its key", address, "private messages have none")
        for collection in (POST, REPOST):
            if (found := await self._find_record(collection, key)) is not None:
                return found
        return None

    async def _find_record(self, collection: str, key: str) -> str | None:
        asked = {"repo": await self._get_did(), "collection": collection, "rkey": wire.make_key(key)}
        try:
            answer = await self._session.call(
                "GET", "com.atproto.repo.getRecord", params=asked, action="look for a post"
            )
        except PlatformRefusal as refusal:
            if wire.get_in(refusal.answer, "error") == NOT_FOUND:
                return None
            raise
        return str(answer["uri"])

    # Private conversations.

    async def _chat(self, conversation: str, message: Outbound) -> str:
        match message.op:
            case Op.SEND | Op.FILE | Op.CARD | Op.VOICE | Op.POST:
                text = _name_files(message.text, list(message.files), LONGEST_CHAT)
                words: dict[str, Any] = {"text": text, "facets": wire.render_facets(text)}
                if wire.CONVERSATION.match(message.reply_to):
                    words["replyTo"] = {"messageId": message.reply_to}
                asked = {"convoId": conversation, "message": words}
                answer = await self._session.call(
                    "POST", "chat.bsky.convo.sendMessage", chat=True, json=asked, action="write privately"
                )
                return str(answer["id"])
            case Op.REACT if wire.CONVERSATION.match(message.target):
                reacted = {"convoId": conversation, "messageId": message.target, "value": message.reaction}
                await self._session.call("POST", "chat.bsky.convo.addReaction", chat=True, json=reacted, action="react")
                return message.target
        raise Unsupported(message.op.value, "bluesky", "use send: a private message here cannot be changed")


def _name_files(text: str, files: list[OutboundFile], longest: int) -> str:
    """Name the files that cannot be shown here, as on a channel without files, as far as there is room."""
    lines = [*([text] if text else []), *(f"[file: {file.name}]" for file in files)]
    while len(lines) > 1 and len("\n".join(lines)) > longest:
        lines.pop()
    return "\n".join(lines)

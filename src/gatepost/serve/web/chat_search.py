"""Search of what was said, in the rooms that a visitor of the page sees. The index is the ledger's own."""

from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gatepost.channels.local_channel import LocalChannel
from gatepost.core.errors import Unavailable
from gatepost.messages.inbound import Direction
from gatepost.messages.text import clean
from gatepost.serve.room_events import read_event
from gatepost.serve.web.chat_places import list_places, read_room
from gatepost.serve.web.signin.visitors import WebVisitor
from gatepost.store import search
from gatepost.store.messages import messages
from gatepost.store.port import Db, Store
from gatepost.store.search import Hit, SearchQuery, Subtree
from gatepost.store.sessions import groups

MOST = 30  # that are found at once
MOST_WORDS = 12
LONGEST = 200  # characters of what is looked for
MOST_CAUGHT_UP = 8  # transactions with which one search brings the index up to date
EVERYTHING = Subtree("", everything=True)  # what may be seen is decided by the rooms


class ChatSearch:
    def __init__(self, store: Store, hub: LocalChannel) -> None:
        self._store, self._hub = store, hub

    async def find(self, request: Request) -> Response:
        """`room`: in this one alone; without it in each that the visitor sees."""
        query, visitor = request.query_params, request.state.visitor
        words = make_query(clean(query.get("q", ""))[:LONGEST])
        only = read_room(self._hub, query["room"], visitor) if query.get("room") else visitor.room
        if not words:
            return JSONResponse({"hits": []})
        await self._update_index()
        return JSONResponse({"hits": await self._store.read(self._find, visitor, only, words)})

    async def _update_index(self) -> None:
        """Index the newest messages, so that they are found, too. A full disk prevents that, but not the search."""
        with suppress(Unavailable):
            for _ in range(MOST_CAUGHT_UP):
                if not await self._store.read(search.is_behind):
                    break
                await self._store.write(search.index, durable=False, lane="web search")

    def _find(self, db: Db, visitor: WebVisitor, only: str, words: str) -> list[dict[str, Any]]:
        places = list_places(db, self._hub, only)
        rooms = tuple((self._hub.instance, room) for room in places)[: search.MOST_MARKED]
        wanted = SearchQuery(query=words, part=EVERYTHING, rooms=rooms, limit=MOST)
        return [_render_hit(db, hit, visitor, places) for hit in search.find(db, wanted) if _is_shown(db, hit)]


def _is_shown(db: Db, hit: Hit) -> bool:
    """Return True if the room shows it: a reply that waits for its delivery is found when it has been said."""
    message = messages.get(db, hit.id)
    return message is not None and read_event(db, message)[0] is not None


def _render_hit(db: Db, hit: Hit, visitor: WebVisitor, places: dict[str, str]) -> dict[str, Any]:
    group = groups.get(db, hit.folder) if hit.folder and hit.direction == Direction.OUT else None
    return {
        "id": hit.id,
        "room": hit.address,
        "roomName": places[hit.address],
        "thread": hit.thread,
        "mine": hit.direction == Direction.IN and hit.sender in visitor.names,
        "name": (group.name if group else "") or hit.sender_name or hit.sender.rpartition(":")[2],
        "at": hit.at // 1000,
        "snippet": hit.snippet,
    }


def make_query(text: str) -> str:
    """Make a query for all of these words, each of which may be the beginning of one; a letter alone begins too many.

    The text of a person is not in the index's query language: operators in it have no meaning here.
    """
    words = ["".join(char for char in word if char != '"' and char.isprintable()) for word in text.split()]
    told = [word for word in words if any(char.isalnum() for char in word)]
    return " AND ".join(f'"{word}"*' if len(word) > 1 else f'"{word}"' for word in told[:MOST_WORDS])

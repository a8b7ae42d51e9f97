"""Meanings of memories: an endpoint for embeddings is asked for those of new entries in the background, and for that of
the words that somebody recalls by.

Missing ones are looked for in the store, so a gateway that was killed goes on where it was, and a changed model makes
all of them anew. Entries are asked for in small batches, each paid for by its group. Without an answer, words alone
find entries.
"""

import asyncio
from collections.abc import Sequence
from itertools import groupby

from gatepost.core import log
from gatepost.core.clock import HOUR, MINUTE, Clock
from gatepost.core.errors import GatepostError, Unavailable
from gatepost.core.home import Home
from gatepost.core.process.fencing import FenceCheck
from gatepost.core.process.wake_loop import WakeLoop
from gatepost.core.settings import Config
from gatepost.egress import embeddings
from gatepost.egress.call_payments import CallPayments
from gatepost.egress.contract import CallBudget, ModelKeys, Spender
from gatepost.egress.embeddings import LONGEST_QUERY, EmbeddingEndpoint, UnreadableTexts
from gatepost.egress.http import HttpRefusal
from gatepost.store.memory import memory_vectors
from gatepost.store.memory.memory_vectors import Meaning, UnreadEntry
from gatepost.store.port import Store
from gatepost.store.rights import switches

AT_ONCE = 16  # entries of one request, and of one write
LOOK_S, WHOLE_S = 5.0, 600.0  # between two looks for new entries, and for any: those that were restored, too
PAUSE_S = 0.05  # between two batches: others' writes go first
AGAIN_S = 60.0  # after trouble of the endpoint
QUERY_S, BATCH_S = 2.0, 60.0  # for an answer: somebody waits for the first one
LANE = "memory vectors"
PLAIN = "hello"  # a text that any endpoint takes

_log = log.get("memory")


class MemoryMeanings:
    def __init__(
        self,
        home: Home,
        store: Store,
        clock: Clock,
        config: Config,
        purse: CallBudget,
        keys: ModelKeys,
        may_act: FenceCheck,
    ) -> None:
        self._home, self._store, self._clock, self._config = home, store, clock, config
        self._keys, self._may_act = keys, may_act
        self._endpoint = embeddings.find_embedding_endpoint(config)
        self._till = CallPayments(purse)
        self._loop = WakeLoop(_log.warning, "meanings wait", pause_s=LOOK_S, retry_s=AGAIN_S, errors=(GatepostError,))
        self._after, self._whole_at = 0, 0.0  # the id up to which entries were looked at, and when all of them were
        self._resting = -AGAIN_S  # since when the endpoint is not asked for words
        self._poor: dict[str, int] = {}  # groups whose budget has no room, until when they are left out

    @property
    def least(self) -> float:
        """How near an entry must be."""
        return self._endpoint.least if self._endpoint is not None else 1.0

    async def find(self, folder: str, session_id: str, turn_id: str | None, words: str) -> Meaning | None:
        """Return what words mean; None if nobody can say that soon."""
        now = asyncio.get_running_loop().time()
        if self._endpoint is None or now < self._resting + AGAIN_S:
            return None
        spender, text = Spender(folder, session_id, turn_id), words[:LONGEST_QUERY]
        try:
            [found] = await self._request(self._endpoint, spender, [text], QUERY_S)
        except (UnreadableTexts, HttpRefusal):
            return None
        except GatepostError as error:
            self._resting = now
            _log.warning("words alone recall", why=str(error), seconds=AGAIN_S)
            return None
        return found

    async def run(self) -> None:
        """Until cancelled."""
        if self._endpoint is not None:
            await self._loop.run(self._embed_waiting)

    async def close(self) -> None:
        """Nothing is held back for a request that is over."""
        await self._till.close()

    async def _embed_waiting(self) -> float | None:
        endpoint, now = self._endpoint, asyncio.get_running_loop().time()
        assert endpoint is not None
        if now >= self._whole_at:
            self._after, self._whole_at = 0, now + WHOLE_S
        model, dimensions = endpoint.model, endpoint.dimensions
        unread, last = await self._store.read(
            memory_vectors.list_unread, model, dimensions, self._after, self._clock.now()
        )
        for folder, entries in groupby(
            sorted(unread, key=lambda each: (each.folder, each.id)), lambda each: each.folder
        ):
            await self._read_entries(endpoint, folder, list(entries))
        self._after = last or self._after
        return PAUSE_S if last else None

    async def _read_entries(self, endpoint: EmbeddingEndpoint, folder: str, entries: Sequence[UnreadEntry]) -> None:
        """Ask for the meanings of one group's entries. Those that its budget has no room for are looked for again
        later, and so is everything if the group rests or all is stopped."""
        if self._clock.now() < self._poor.get(folder, 0):
            return
        for at in range(0, len(entries), AT_ONCE):
            if await self._store.read(switches.find_stop, folder) is not None:
                return
            some = entries[at : at + AT_ONCE]
            try:
                found = await self._read_batch(endpoint, folder, some)
            except HttpRefusal as no:
                self._poor[folder] = self._clock.now() + HOUR
                _log.warning("meanings wait for a budget", folder=folder, why=no.reason)
                return
            except GatepostError as error:  # what one group says must not hold up the others
                self._poor[folder] = self._clock.now() + MINUTE
                _log.warning("meanings of a group wait", folder=folder, why=str(error))
                return
            await self._store.write(memory_vectors.put, found, lane=LANE)
            await asyncio.sleep(PAUSE_S)

    async def _read_batch(
        self, endpoint: EmbeddingEndpoint, folder: str, entries: Sequence[UnreadEntry]
    ) -> list[tuple[int, Meaning]]:
        """A text that the endpoint refuses, while it takes another one, has no meaning and is not asked for again."""
        try:
            found = await self._request(endpoint, Spender(folder, "", None), [each.text for each in entries], BATCH_S)
        except UnreadableTexts:
            if len(entries) == 1:
                await self._check_reads(endpoint, folder)
                return [(entries[0].id, Meaning(endpoint.model))]
            return [one for each in entries for one in await self._read_batch(endpoint, folder, [each])]
        return list(zip((each.id for each in entries), found, strict=True))

    async def _check_reads(self, endpoint: EmbeddingEndpoint, folder: str) -> None:
        """Raise Unavailable if the endpoint refuses every text: then it is about the model, or how it is asked."""
        try:
            await self._request(endpoint, Spender(folder, "", None), [PLAIN], BATCH_S)
        except UnreadableTexts:
            why = f"it refuses every text; look at {embeddings.MODEL.name} and {embeddings.DIMENSIONS.name}"
            raise Unavailable("the endpoint for embeddings", why) from None

    async def _request(
        self, endpoint: EmbeddingEndpoint, spender: Spender, texts: Sequence[str], wait_s: float
    ) -> list[Meaning]:
        price = await asyncio.to_thread(embeddings.find_embedding_price, self._home, self._config)
        async with self._till.paid(spender, embeddings.bound_cost(endpoint.model, price, texts)) as bill:
            key = await self._find_key(endpoint, spender)
            return await embeddings.request_embeddings(endpoint, key, texts, bill, wait_s=wait_s, may_act=self._may_act)

    async def _find_key(self, endpoint: EmbeddingEndpoint, spender: Spender) -> str:
        for name in embeddings.key_names(endpoint, self._config):
            if key := await self._keys.get(name, spender, f"embeddings at {endpoint.base.host}", endpoint.base.origins):
                return key
        return ""

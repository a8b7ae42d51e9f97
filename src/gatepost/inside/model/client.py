"""Requests to a model's endpoint. One whose answer breaks off is made again, and trouble that passes is waited out."""

import asyncio
from collections.abc import Callable

import msgspec

from gatepost.inside.http_client import ClientEndpoint, IncompleteResponse, post_request
from gatepost.inside.model.api import CompletionReply, CompletionRequest, ModelApi, ReplyStreamReader
from gatepost.inside.provider_errors import ProviderError, parse_provider_error
from gatepost.mailbox.runner_frames import TurnErrorClass

PAUSE = 0.5  # seconds before the second try of a request, doubled each time
LONGEST_PAUSE = 20.0  # unless the endpoint asks for more
TOLD_AFTER = 20.0  # seconds of trouble after which people are told that it is still tried

StreamWatch = Callable[[ReplyStreamReader], None]


class ModelClient:
    """`silence`: seconds for which the endpoint may say nothing; `patience`: for which its trouble is waited out."""

    def __init__(self, endpoint: ClientEndpoint, wire: ModelApi, silence: float, patience: float) -> None:
        self._endpoint, self._wire, self._silence, self._patience = endpoint, wire, silence, patience

    async def send(
        self, request: CompletionRequest, still_trying: Callable[[], None], watch: StreamWatch | None = None
    ) -> CompletionReply:
        """Make a request until it is answered. `still_trying` is called once, if that takes long; `watch` with each
        piece of an answer. Raises ProviderError."""
        body, clock = self._wire.render(request), asyncio.get_running_loop().time
        began, number, told = clock(), 0, False
        while True:
            number += 1
            try:
                return await self._send_once(body, watch)
            except IncompleteResponse as cut:
                trouble = ProviderError(str(cut), TurnErrorClass.NETWORK)
            except ProviderError as error:
                trouble = error
            own = min(PAUSE * 2 ** min(number - 1, 10), LONGEST_PAUSE)
            pause = own if trouble.retry_after is None else trouble.retry_after
            waited = clock() - began + pause
            if not trouble.kind.is_passing or waited > self._patience:
                raise trouble
            if waited >= TOLD_AFTER and not told:
                told = True
                still_trying()
            await asyncio.sleep(pause)

    async def _send_once(self, body: bytes, watch: StreamWatch | None) -> CompletionReply:
        wire, silence, begun = self._wire, self._silence, False
        async with post_request(self._endpoint, wire.path, wire.headers, body, silence) as response:
            if response.status != 200:
                raise parse_provider_error(response.status, await response.read(), response.retry_after)
            try:
                if not response.is_stream:
                    return wire.read(await response.read())
                stream = wire.stream()
                async for data in response.events():
                    stream.feed(data)
                    begun = True
                    if (reply := stream.reply()) is not None:
                        return reply
                    if watch is not None:
                        watch(stream)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                why = f"the model's endpoint said what is not understood: {error}"
                if begun:  # something on the way has spoilt it
                    raise IncompleteResponse(why) from None
                raise ProviderError(why) from None
        raise IncompleteResponse("the model's answer broke off")

"""One order for what an agent says and what it does, although the two come over different sockets.

Results come over `runner.sock`, tool calls over `router.sock`. Before a call with an effect is let through, the runner
is asked to hand over what the agent said before it. Its frames are taken in order, so by its answer those results are
in the outbox, and whatever the call sends comes behind them. Every wait is bounded: a runner that does not answer
delays its own agent's calls and nobody else.
"""

import asyncio
from collections.abc import Callable

from gatepost.core import log
from gatepost.mailbox import runner_frames

LONGEST_S = 2.0  # for the runner's answer; it waits half as long for its provider's announcement
MOST_UNSEEN = 3  # calls in a row that no provider announced: the connection is a script's, and waits no longer …
# … or that the runner did not answer for
MOST_CONNECTIONS = 64  # that are remembered

_log = log.get("sessions")


class ResultOrder:
    """`say` puts a frame on the runner's socket. `at_work`: whether a turn runs that could have said something."""

    def __init__(self, say: Callable[[runner_frames.Frame], None], at_work: Callable[[], bool]) -> None:
        self._say, self._at_work = say, at_work
        self._last = 0
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._unanswered = 0  # in a row: a runner that does not read is not written to any more
        self._unseen: dict[str, int] = {}  # by connection: calls in a row that were not announced
        self._scripts = 0  # connections in a row whose first call was not announced

    async def flush_results(self, tool: str, call_id: str) -> None:
        """Return when everything that the agent said before this call is in the outbox, or the bound has passed."""
        if not self._at_work() or self._unanswered >= MOST_UNSEEN:
            return
        connection = call_id.rpartition(".")[0]
        fresh = connection not in self._unseen
        unseen = self._scripts if fresh else self._unseen[connection]  # a script may connect anew for every call
        self._last += 1
        number, answer = self._last, asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._say(runner_frames.FlushFrame(id=number, tool=tool, wait=unseen < MOST_UNSEEN))
        try:
            async with asyncio.timeout(LONGEST_S):
                seen = await answer
        except TimeoutError:
            self._unanswered += 1
            _log.warning("a runner did not hand over in time what was said before a call", tool=tool)
            return
        finally:
            del self._waiting[number]
        if len(self._unseen) >= MOST_CONNECTIONS:
            self._unseen.clear()
        self._unseen[connection] = 0 if seen else unseen + 1
        if seen or fresh:
            self._scripts = 0 if seen else self._scripts + 1

    def receive_flush_reply(self, frame: runner_frames.FlushReplyFrame) -> None:
        self._unanswered = 0
        answer = self._waiting.get(frame.id)
        if answer is not None and not answer.done():
            answer.set_result(frame.seen)

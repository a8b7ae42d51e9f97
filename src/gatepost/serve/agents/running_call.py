"""A call under way over HTTP: its progress, its end, and the client that can be asked meanwhile."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from itertools import count

from gatepost.core import log
from gatepost.core.errors import GatepostError
from gatepost.gate.dispatch import Dispatch
from gatepost.gate.eager_task import run_eagerly
from gatepost.gate.tool_answers import ToolAnswer
from gatepost.serve.agents.eliciting_client import ELICITING, CallingClient, RetryClient, StreamClient
from gatepost.tools.call import Caller

AT_ONCE_S = 0.05  # a call that takes longer is answered by a stream
MOST_TOLD = 256  # words of progress that wait to be sent

_log = log.get("mcp")


class RunningCall:
    """A call under way, and what it has told of its progress. `client`: it can be asked meanwhile."""

    def __init__(
        self,
        dispatch: Dispatch,
        caller: Caller,
        name: str,
        raw: bytes,
        call_id: str,
        client: StreamClient | RetryClient | None = None,
    ) -> None:
        self.client = client
        self.progress: deque[tuple[float, float | None, str]] = deque(maxlen=MOST_TOLD)
        self.news = asyncio.Event()
        self.answer: ToolAnswer | None = None
        self.cancelled = False
        self.size = len(raw)
        self.ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        work = self._run(dispatch, caller, name, raw, call_id)
        rest = run_eagerly(work) if dispatch.is_quick(caller, name) else work
        if rest is not None:
            context = self._make_context(dispatch, caller, call_id)
            self._task = asyncio.get_running_loop().create_task(rest, context=context)

    def _make_context(self, dispatch: Dispatch, caller: Caller, call_id: str) -> Context | None:
        if self.client is None:
            return None
        if isinstance(self.client, StreamClient):
            self.client.changed = self.news.set
        answers = count(1)

        async def sees(name: str) -> bool:
            return any(each.name == name for each in await dispatch.visible_to(caller))

        async def call(name: str, raw: bytes) -> ToolAnswer:
            return await dispatch.call(caller, name, raw, f"{call_id}.{next(answers)}")

        context = copy_context()
        context.run(ELICITING.set, CallingClient(self.client, sees, call))
        return context

    async def _run(self, dispatch: Dispatch, caller: Caller, name: str, raw: bytes, call_id: str) -> None:
        try:
            self.answer = await dispatch.call(caller, name, raw, call_id, self._progress)
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        except GatepostError as error:
            self.answer = ToolAnswer(str(error), failed=True)
        except Exception:  # noqa: BLE001  whoever waits for it must hear of its end
            _log.exception("a call broke", tool=name, folder=caller.folder)
            self.answer = ToolAnswer(f"{name}: internal error; the operator's log has it", failed=True)
        finally:
            self.ended.set()
            self.news.set()

    def when_ended(self, callback: Callable[["RunningCall"], None]) -> None:
        if self._task is None:
            callback(self)
        else:
            self._task.add_done_callback(lambda _: callback(self))

    def _progress(self, done: float, total: float | None, text: str) -> None:
        self.progress.append((done, total, text))
        self.news.set()

    def cancel(self) -> None:
        """End it without an answer, unless it has one."""
        if self._task is not None:
            self._task.cancel()
        if self.answer is None:  # a task that has not begun yet would not say so itself
            self.cancelled = True
            self.ended.set()
            self.news.set()

    def give_up(self, answer: ToolAnswer) -> None:
        """Cancel the call and give this answer in its place, unless it has one already."""
        if self.answer is None:
            self.cancel()
            self.answer = answer
            self.news.set()

    async def settle(self, shows_progress: bool) -> bool:
        """Wait a moment. True: it has ended, and nothing of its progress is left to show, if it is shown."""
        is_late = False

        def end_moment() -> None:
            nonlocal is_late
            is_late = True
            self.news.set()

        timer: asyncio.TimerHandle | None = None
        try:
            while self.answer is None and not self.cancelled and not (shows_progress and self.progress):
                if is_late:
                    return False
                # By its own word, not by the clock: uvloop's timers may fire a hair before their time by its clock.
                timer = timer or asyncio.get_running_loop().call_later(AT_ONCE_S, end_moment)
                self.news.clear()
                await self.news.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return self.cancelled or not (shows_progress and self.progress)

"""Running ahead: work that rarely waits is begun where it is asked for and becomes a task only if it has to wait.

A task costs more than a quick tool does. Work that runs ahead has no current task, so it cannot use `asyncio.timeout`
or task groups. From its first wait on it belongs to an ordinary task. It has a context of its own from the beginning:
its caller does not see variables set there, and they can be reset after a wait.
"""

from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any


def run_eagerly(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None] | None:
    """Run until it ends (None) or waits; then the rest of it, to be made a task."""
    context = copy_context()
    try:
        awaited = context.run(work.send, None)
    except StopIteration:
        return None
    return _finish(_RemainingWork(work, awaited, context))


async def _finish(rest: "_RemainingWork") -> None:
    await rest


class _RemainingWork:
    def __init__(self, work: Coroutine[Any, Any, None], awaited: Any, context: Context) -> None:
        self._work, self._awaited, self._context = work, awaited, context

    def __await__(self) -> Generator[Any, Any, None]:
        """Hand the awaitable of the work to the task, and the answer of the task to the work."""
        awaited = self._awaited
        while True:
            try:
                said = yield awaited
            except BaseException as error:  # noqa: BLE001  it is the work's own, thrown in where it waits
                try:
                    awaited = self._context.run(self._work.throw, error)
                except StopIteration:
                    return
            else:
                try:
                    awaited = self._context.run(self._work.send, said)
                except StopIteration:
                    return

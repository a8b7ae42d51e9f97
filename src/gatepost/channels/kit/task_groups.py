"""Errors out of task groups."""

from collections.abc import Awaitable, Callable


async def unwrap_group(run: Callable[[], Awaitable[None]]) -> None:
    """Runs what uses a TaskGroup, and raises the first error itself in the place of a group of them."""
    try:
        await run()
    except BaseExceptionGroup as group:
        first: BaseException = group
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        raise first from None

"""Key stores of matrix-nio in several threads of one process: in tests alone, a gateway has one."""

import threading
from typing import Any

import peewee  # type: ignore[import-untyped]

_STORES = threading.RLock()


class _OneStoreAtATime(peewee._BoundModelsContext):  # type: ignore[misc]
    """matrix-nio points its tables, which all stores of a process share, at one store while it is used. The people
    here and the bot of a test run in different threads, so they take turns."""

    def __enter__(self) -> Any:
        _STORES.acquire()
        return super().__enter__()

    def __exit__(self, *error: object) -> Any:
        try:
            return super().__exit__(*error)
        finally:
            _STORES.release()


def guard_stores() -> None:
    peewee._BoundModelsContext = _OneStoreAtATime

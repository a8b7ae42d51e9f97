"""Kill a process at an exact step: before or after the n-th call of a function of the package that concerns `match`.

    faults.into_daemon(home, FaultPoint("gatepost.store.sessions.turns:begin", "after"))  # kill -9 of the daemon, once
    faults.into_runner(home, FaultPoint("gatepost.mailbox.outbound:OutboundDb.mark", match="begun", act="hold"))

A fault is a plug-in file that wraps the function, so the package itself has no fault points. It fires once, whatever is
started anew: the file `mark` says that it has. `hold` in a runner waits there until the daemon is gone, so that a test
can kill the daemon at a step of the runner. Standard library only: the text of this module is also part of the plug-in
that runs inside a sandbox.
"""

import asyncio
import functools
import importlib
import inspect
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class FaultPoint:
    """`target` is `module:name` or `module:Class.name`; `match` must be part of the call's arguments as text."""

    target: str
    when: str = "before"  # before | after
    match: str = ""
    nth: int = 1
    act: str = "kill"  # kill | hold
    mark: str = ""  # the file that says that it has happened

    def __str__(self) -> str:
        return f"{self.act} {self.when} {self.target.rpartition(':')[2]} {self.match} {self.nth}"


def install(fault: FaultPoint) -> None:
    """Wrap the target in this process."""
    module, _, path = fault.target.partition(":")
    *holders, name = path.split(".")
    holder: Any = importlib.import_module(module)
    for each in holders:
        holder = getattr(holder, each)
    setattr(holder, name, _wrapped(getattr(holder, name), fault))


def _wrapped(function: Callable[..., Any], fault: FaultPoint) -> Callable[..., Any]:
    seen = [0]

    def is_meant(args: Any, named: Any) -> bool:
        if fault.match not in repr((args, named)):
            return False
        seen[0] += 1
        return seen[0] == fault.nth

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def later(*args: Any, **named: Any) -> Any:
            meant = is_meant(args, named)
            if meant and fault.when == "before":
                _trigger(fault)
            answer = await function(*args, **named)
            if meant and fault.when == "after":
                _trigger(fault)
            return answer

        return later

    @functools.wraps(function)
    def at_once(*args: Any, **named: Any) -> Any:
        meant = is_meant(args, named)
        if meant and fault.when == "before":
            _trigger(fault)
        answer = function(*args, **named)
        if meant and fault.when == "after":
            _trigger(fault)
        return answer

    return at_once


def _trigger(fault: FaultPoint) -> None:
    parent = os.getppid()  # before the mark: whoever waits for it may kill the daemon at once
    try:
        os.close(os.open(fault.mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        return
    while fault.act == "hold" and os.getppid() == parent:
        time.sleep(0.002)
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(137)  # the first process of a pid namespace does not get its own SIGKILL


# For tests.


def into_daemon(home: Path, fault: FaultPoint) -> Path:
    """Into the next start of a daemon on this home; the file that exists once it has happened."""
    return _write_plugin(
        home / "plugins" / "tools" / "fault.py", home, fault, "from gatepost_testing.storms.faults import *\n"
    )


def into_runner(home: Path, fault: FaultPoint) -> Path:
    """Into every runner of the provider `faulty`, which is the scripted one. Needs a sandbox that shares our files."""
    text = Path(__file__).read_text(encoding="utf-8").partition("\n# What a test calls.")[0]
    more = (
        "\nfrom gatepost.inside.providers.contract import provider\nfrom gatepost.inside.providers.scripted import"
        ' Scripted\n\n\n@provider("faulty")\nclass Faulty(Scripted):\n    pass\n\n\n'
    )
    return _write_plugin(home / "plugins" / "providers" / "faulty.py", home, fault, text + more)


def _write_plugin(path: Path, home: Path, fault: FaultPoint, text: str) -> Path:
    mark = home.parent / f"{home.name}.{path.stem}.happened"
    path.parent.mkdir(parents=True, exist_ok=True)
    given = {**fault.__dict__, "mark": str(mark)}
    path.write_text(f"{text}\ninstall(FaultPoint(**{given!r}))\n", encoding="utf-8")
    return mark


def wait_for_fault(mark: Path, timeout: float = 60.0) -> bool:
    """Wait until the fault has happened; False if it did not within the bound."""
    until = time.monotonic() + timeout
    while not mark.exists():
        if time.monotonic() > until:
            sys.stderr.write(f"the fault never happened: {mark.name}\n")
            return False
        time.sleep(0.005)
    return True


@contextmanager
def slow_down(target: str, by: float) -> Iterator[None]:
    """In this process: every call of an async method begins so many seconds later, as on a busy machine."""
    module, _, path = target.partition(":")
    holder_name, _, name = path.partition(".")
    holder = getattr(importlib.import_module(module), holder_name)
    kept = getattr(holder, name)

    @functools.wraps(kept)
    async def later(*args: Any, **named: Any) -> Any:
        await asyncio.sleep(by)
        return await kept(*args, **named)

    setattr(holder, name, later)
    try:
        yield
    finally:
        setattr(holder, name, kept)

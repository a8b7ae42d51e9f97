"""How soon the first words of an answer are on the page: from the runner's provider, by both processes, to a browser's
stream, rendered. Beside two trips of a line between processes, which it cannot do without."""

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

from gatepost.core.home import Home
from gatepost_testing.clients.web_manners import make_manners
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.provider import ScriptBuilder
from measure import Figure, at_most

ROOM = "web:home"
TIMES = 20


def figures(echo_us: float, times: int = TIMES) -> list[Figure]:
    return [at_most("first_draft_ms", measure_first_drafts(times), "ms", 2 * echo_us / 1000, 50)]


def measure_first_drafts(times: int) -> float:
    """The median, in milliseconds. A draft says itself when it was written; both processes have one clock."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "h"
        script = ScriptBuilder().turn().draft("{now}").wait(0.02).say("done")
        script.write(Home(home).group("home")).chmod(0o644)
        settings = {"sandbox_kind": "process", "sandbox_least_free_mb": "0", "sessions_provider": "scripted"}
        with DaemonProcess(home, **settings) as daemon:
            base, _, token = daemon.address.partition("/#token=")
            with httpx2.Client(base_url=base, timeout=30, **make_manners(base)) as browser:
                browser.post("/login", json={"token": token}).raise_for_status()
                with browser.stream("GET", "/api/events") as answer:
                    events = _read_events(answer)
                    taken = [_measure_one(browser, events, number) for number in range(times + 1)]
    return statistics.median(taken[1:])  # the first one starts the sandbox and the renderer


def _read_events(answer: httpx2.Response) -> Iterator[tuple[str, dict[str, object]]]:
    kind = ""
    for line in answer.iter_lines():
        name, _, value = line.partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)


def _measure_one(browser: httpx2.Client, events: Iterator[tuple[str, dict[str, object]]], number: int) -> float:
    sent = {"text": f"go {number}", "id": f"bench-{number:08d}", "room": ROOM}
    browser.post("/api/messages", data=sent, files=[("none", ("", b""))]).raise_for_status()
    taken = 0.0
    for kind, data in events:
        if kind == "draft" and data["text"] and not taken:
            taken = time.time() * 1000 - int(str(data["text"])) / 1000
        if kind == "message" and data["text"] == "done":
            break
    return taken

"""An agent's timeline on a screen, entry by entry as they come, and the requests that wait for an answer.

What is ours is coloured and what an agent says never is, so that it cannot pass off its words as the gateway's.
"""

from typing import Any

from gatepost.cli.show import Colored, Piece
from gatepost.serve.agents.timeline import line
from gatepost.store.timeline import Entry

_COLORS = {"user_message": "bold", "tool_call": "dim", "permission": "warn", "error": "fail"}


class Rows:
    """Remembers which calls and requests it has shown: a call is told when it begins, and again only if it fails."""

    def __init__(self, *, typed: bool = False) -> None:
        """`typed`: requests are answered by their number where they are shown."""
        self._typed = typed
        self._calls: dict[str, dict[str, Any]] = {}
        self.numbers: dict[str, int] = {}  # of requests, by which they are answered; never given twice

    def of_entry(self, entry: dict[str, Any], waiting: dict[str, Any]) -> Piece | None:
        """None: it tells nothing new."""
        kind, data = str(entry["kind"]), dict(entry["data"])
        if kind == "tool_call" and not self._is_news(data):
            return None
        if kind == "tool_call":
            data = {**self._calls.get(str(data.get("callId")), {}), **data}
        if kind == "permission" and data.get("status") == "pending":
            asked = waiting.get(str(data.get("requestId")))  # None: it is history
            return self.of_request(asked) if asked is not None else None
        told = line(Entry(int(entry["seq"]), 0, str(entry["turn"]), kind, data))
        number = self.numbers.get(str(data.get("requestId")))
        if number is not None:
            told = told.replace("[Permission]", f"[Permission {number}]", 1)
        return Colored(told, _COLORS[kind]) if told and kind in _COLORS else told or None

    def _is_news(self, data: dict[str, Any]) -> bool:
        call = str(data.get("callId", ""))
        first = call not in self._calls
        self._calls.setdefault(call, data)
        return first or data.get("status") in ("failed", "canceled")

    def of_request(self, asked: dict[str, Any]) -> Piece | None:
        """With all of its input, and a number to answer it by. Once."""
        if asked["id"] in self.numbers:
            return None
        number = self.numbers[asked["id"]] = len(self.numbers) + 1
        rows = [f"[Permission {number}] It asks to use {asked['name']}:"]
        for name, value in asked["input"].items():
            first, *more = str(value).splitlines() or [""]
            rows += [f"  | {name}: {first}", *(f"  |   {each}" for each in more)]
        if asked.get("nextModeId"):
            rows.append(f"  Allowed, it goes on in mode {asked['nextModeId']}.")
        way = f"/allow {number} or /deny {number} [reason]" if self._typed else f"gatepost permit allow {asked['id']}"
        return Colored("\n".join([*rows, f"  {way}"]), "warn")


def with_input(entry: dict[str, Any], waiting: dict[str, Any]) -> dict[str, Any]:
    """For programs: a request's entry says what it wants, as long as it waits."""
    asked = waiting.get(str(entry["data"].get("requestId"))) if entry["kind"] == "permission" else None
    if asked is None or entry["data"].get("status") != "pending":
        return entry
    return {**entry, "data": {**entry["data"], "input": asked["input"]}}


def as_entry(asked: dict[str, Any]) -> dict[str, Any]:
    """A request whose own entry lies further back than what is shown."""
    data = {"requestId": asked["id"], "name": asked["name"], "status": "pending", "input": asked["input"]}
    return {"seq": None, "at": asked["askedAt"], "turn": "", "kind": "permission", "data": data}

"""The status of a gateway over its socket: the record that the daemon made, and one of another version."""

from pathlib import Path
from typing import Any

import pytest

from gatepost.channels.contract import ChannelState
from gatepost.core.clock import SECOND
from gatepost.core.errors import Unavailable
from gatepost.flow.channel_health import ChannelReport
from gatepost.serve.control.answers import to_json
from gatepost.serve.control.client import ControlClient
from gatepost.serve.control.daemon_status import DaemonStatus, ask_daemon_status

STARTED = 1_800_000_000 * SECOND


class AnsweringClient(ControlClient):
    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(Path("gatepost.sock"))
        self._result = result

    def get(self, path: str, timeout: float = 0) -> dict[str, Any]:
        assert path == "/v1/status"
        return {"ok": True, "result": self._result}


def test_what_the_daemon_said_is_read_as_it_was_made() -> None:
    report = ChannelReport(instance="north", kind="beacon", state=ChannelState.DEAF, since_at=STARTED, next_at=STARTED)
    made = DaemonStatus(pid=9, started_at=STARTED, channels=["north"], channel_health=[report], slow_steps=2)
    sent = to_json(made)
    assert sent["started_at"] == "2027-01-15T08:00:00.000Z" and sent["channel_health"][0]["state"] == "deaf"
    assert ask_daemon_status(AnsweringClient(sent)) == made


def test_one_of_another_version_may_say_more_or_less_and_nothing_else() -> None:
    assert ask_daemon_status(AnsweringClient({"pid": 9, "moods": ["fine"]})) == DaemonStatus(pid=9)
    with pytest.raises(Unavailable, match="answers status as another version does"):
        ask_daemon_status(AnsweringClient({"pid": "nine"}))

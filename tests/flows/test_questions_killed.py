"""The gateway is killed while a question waits, or while its answer is taken: the question is still there, it is asked
once, and the agent gets the answer once."""

from pathlib import Path

import pytest
from tests.flows.test_kills import ROOM, a_place, killed, no_more_in_flight, unaccounted

from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.platform import Platform
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.storms import faults
from gatepost_testing.storms.faults import FaultPoint

DRINK = {"question": "Which drink?", "options": [{"label": "Tea"}, {"label": "Coffee"}]}
SCRIPT = ScriptBuilder().turn("go").call("ask_user_question", questions=[DRINK]).say("They said {result}")
ANSWERING = "gatepost.flow.requests.chat_replies:answer_question"
TELLING = "gatepost.flow.requests.agent_questions:_record_notified"
FAULTS = [FaultPoint(target, when) for target in (ANSWERING, TELLING) for when in ("before", "after")]


def wait_for_question(platform: Platform, daemon: DaemonProcess) -> str:
    """The id of the request, once its card is in the room."""
    assert platform.wait_for(lambda record: any("Which drink?" in each.text for each in record))
    (asked,) = daemon.json("permit", "ls")
    return str(asked["request"]["id"])


def check_end(platform: Platform, daemon: DaemonProcess) -> None:
    assert platform.wait_for(lambda record: any(each.text.startswith("They said") for each in record)), daemon.stderr()
    no_more_in_flight(daemon)
    (said,) = [text for text in platform.texts() if text.startswith("They said")]
    assert "Coffee" in said and '"answered"' in said
    assert sum("1. Tea" in text for text in platform.texts()) == 1  # nobody was asked twice
    assert sum("Answered by" in text for text in platform.texts()) == 1
    assert daemon.json("permit", "ls") == []
    assert unaccounted(daemon) == 0


@pytest.mark.slow
def test_a_question_outlives_a_kill_and_its_answer_reaches_the_agent_once(tmp_path: Path) -> None:
    with a_place(tmp_path, SCRIPT) as (platform, daemon):
        daemon.start()
        platform.say(ROOM, "go")
        request = wait_for_question(platform, daemon)
        daemon.kill()
        daemon.start()
        (asked,) = daemon.json("permit", "ls")
        assert asked["request"]["id"] == request

        platform.say(ROOM, f"/answer {request} coffee")
        check_end(platform, daemon)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault).replace(" ", "-"))
def test_an_answer_reaches_the_agent_once_wherever_the_daemon_is_killed(tmp_path: Path, fault: FaultPoint) -> None:
    with a_place(tmp_path, SCRIPT) as (platform, daemon):
        happened = faults.into_daemon(daemon.home, fault)
        daemon.start()
        platform.say(ROOM, "go")
        request = wait_for_question(platform, daemon)
        platform.say(ROOM, f"/answer {request} coffee")
        killed(daemon, happened, fault)
        check_end(platform, daemon)

"""The script of a task, alone and in the runner: it wakes the agent, or does not, or fails."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gatepost.inside.task_script import LARGEST_OUTPUT, read_outcome, run_script
from gatepost.mailbox import runner_frames
from gatepost_testing.waiting import PATIENCE_S, block_until

if TYPE_CHECKING:
    from tests.inside.conftest import Host
else:
    Host = object

PARROT = """
from gatepost.inside.providers.contract import TurnResult, provider

@provider("parrot")
class Parrot:
    takes_pushes = False

    def __init__(self, place):
        pass

    async def query(self, batch, conversation):
        yield TurnResult(batch.prompt)

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""
SILENT = """echo looking; echo '{"wakeAgent": false}'"""
NEWS = """echo '{"wakeAgent": true, "data": {"mails": 3}}'"""


async def test_the_last_line_decides(tmp_path: Path) -> None:
    silent, news = await run_script(SILENT, tmp_path), await run_script(NEWS, tmp_path)
    assert (silent.wake, silent.error) == (False, "")
    assert (news.wake, news.data) == (True, {"mails": 3})


async def test_it_runs_in_the_folder_of_the_agent(tmp_path: Path) -> None:
    found = await run_script("""printf '{"wakeAgent": true, "data": "%s"}' "$PWD" """, tmp_path)
    assert Path(str(found.data)).resolve() == tmp_path.resolve()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo oh no >&2; exit 3", "it ended with 3: oh no"),
        ("true", "it printed nothing"),
        ("echo fine", "its last line is not JSON"),
        ("echo '{}'", "its last line is not JSON"),
        ("""echo '{"wakeAgent": "yes"}'""", "its last line is not JSON"),
        (f"head -c {LARGEST_OUTPUT + 1} /dev/zero", f"more than {LARGEST_OUTPUT} bytes"),
    ],
)
async def test_what_is_no_outcome_is_a_failure(script: str, said: str, tmp_path: Path) -> None:
    assert said in (await run_script(script, tmp_path)).error


async def test_one_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):  # its child holds the pipes open for longer than that
        found = await run_script("sleep 1000 & sleep 1000", tmp_path, seconds=0.2)
    assert found.error == "it took more than 0.2 seconds"


async def test_a_folder_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    assert "could not be started" in (await run_script("true", tmp_path / "gone")).error


def test_deep_json_is_no_outcome() -> None:
    assert read_outcome("[" * 100_000).error


async def test_nanoclaw_35_a_script_that_wakes_nobody_ends_the_turn_in_silence(host: Host) -> None:
    host.add("", kind="task", prompt="read my mails", script=SILENT)
    await host.start()
    await host.until(lambda: host.submitted)
    assert (host.said, host.submitted[0].status) == ([], "success")
    assert len(host.of(runner_frames.RowsBegunFrame)) == 1
    assert not host.of(runner_frames.ConversationStartedFrame)
    assert await host.close() == (0, "")


async def test_what_a_script_found_is_in_the_prompt(host: Host, tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "parrot.py").write_text(PARROT)
    host.add("", kind="task", prompt="read my mails", script=NEWS)
    await host.start("parrot", GATEPOST_PLUGINS=str(plugins))
    await host.until(lambda: host.submitted)
    [said] = host.said
    assert "<script_output>{&quot;mails&quot;:3}</script_output>\nread my mails</task>" in said


async def test_a_script_that_fails_fails_the_turn_for_good(host: Host) -> None:
    host.add("", kind="task", prompt="read my mails", script="exit 4")
    await host.start()
    await host.until(lambda: host.submitted)
    [ended] = host.submitted
    assert (ended.status, ended.error, ended.error_class) == (
        "error",
        "the task's script failed: it ended with 4",
        "fatal",
    )
    assert host.said == []


async def test_a_script_is_ended_with_its_turn(host: Host) -> None:
    host.add("", kind="task", prompt="read my mails", script="touch begun; sleep 25; echo late")
    await host.start()
    begun = host.root / "ws" / "agent" / "begun"
    async with asyncio.timeout(PATIENCE_S):
        while not begun.exists():  # noqa: ASYNC110  a file rings no bell
            await asyncio.sleep(0.01)
    host.say(runner_frames.InterruptFrame())
    await host.until(lambda: host.submitted)
    assert host.submitted[0].status == "error"


def _is_running(pid: str) -> bool:
    """One that is dead stays listed until somebody has asked for its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_one_that_is_cancelled_while_it_starts_is_gone_with_its_children(tmp_path: Path) -> None:
    running = asyncio.create_task(run_script("sleep 600 & echo $! > pid; wait; echo late", tmp_path))
    await asyncio.sleep(0)  # it is started; that its pipes are there is not known yet
    await asyncio.sleep(0)
    block_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip(), "the script")
    running.cancel()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await running
    block_until(lambda: not _is_running((tmp_path / "pid").read_text().strip()), "the end of its child")


async def test_a_chat_message_with_a_script_runs_nothing(host: Host) -> None:
    host.add("hello", script="touch harm")
    await host.start()
    await host.until(lambda: host.submitted)
    assert not (host.root / "ws" / "agent" / "harm").exists()

"""The runner as a real process, against a small host that speaks the wire."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from gatepost.mailbox import runner_frames
from gatepost.mailbox.inbound import InboundWriter
from gatepost.mailbox.outbound import OutboundDb, OutboundRow
from gatepost_testing.waiting import PATIENCE_S

A_MOMENT_S = 0.3  # for what is not to happen

if TYPE_CHECKING:
    from tests.inside.conftest import Host
else:
    Host = object


def test_a_sandbox_starts_without_what_only_agents_with_a_model_behind_an_api_need() -> None:
    """Each start of a sandbox pays for every import."""
    code = "import sys, gatepost.inside.runner, gatepost.inside.providers.demo; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    loaded = set(done.stdout.split())
    assert "gatepost.inside.provider_errors" in loaded
    assert loaded & {"gatepost.inside.http_client", "gatepost.inside.model.api", "email.utils", "tomllib"} == set()


async def test_a_message_is_claimed_begun_answered_and_submitted_in_that_order(host: Host) -> None:
    host.add("hello")
    await host.start()
    await host.until(host.answered)

    kinds = [type(frame) for frame in host.frames if not isinstance(frame, runner_frames.PingFrame)]
    assert kinds[:6] == [
        runner_frames.HelloFrame,
        runner_frames.ClaimFrame,
        runner_frames.RowsBegunFrame,
        runner_frames.ConversationStartedFrame,
        runner_frames.ResultFrame,
        runner_frames.SubmitTurnFrame,
    ]
    assert host.said == ["echo: hello"]
    [result] = host.of(runner_frames.ResultFrame)
    assert (result.part, result.attempt, result.in_reply_to) == (1, 1, 1)
    assert host.submitted[0].status == "success"
    assert await host.close() == (0, "")


async def test_a_bell_wakes_a_waiting_runner(host: Host) -> None:
    host.add("one")
    await host.start()
    await host.until(host.answered)
    host.add("two")
    await host.until(lambda: len(host.submitted) == 2)

    assert host.said == ["echo: one", "echo: two"]
    assert host.conversation and host.submitted[1].conversation == host.conversation


async def test_a_lost_bell_costs_time_and_no_message(host: Host) -> None:
    host.add("one")
    await host.start()
    await host.until(host.answered)
    host.add("two", ring=False)
    await host.until(lambda: len(host.submitted) == 2)

    assert host.said == ["echo: one", "echo: two"]


@pytest.mark.slow
async def test_nanoclaw_16_and_d2_a_burst_over_the_cap_is_answered_in_order(host: Host) -> None:
    host.batch, host.gives_follow_ups = 20, False
    for number in range(200):
        host.add(f"m{number}", ring=False)
    await host.start()
    await host.until(host.answered)

    assert host.said == [f"echo: m{number}" for number in range(200)]
    assert len(host.submitted) == 10


async def test_a_follow_up_is_pushed_into_the_running_turn_and_begun_before_it(host: Host) -> None:
    host.add("ask first")
    await host.start(script={"turns": [{"when": "ask", "do": [{"ask": {"question": "go?"}}, {"say": "got {answer}"}]}]})
    await host.until(lambda: host.of(runner_frames.EventFrame))
    host.add("more")
    await host.until(lambda: len(host.of(runner_frames.RowsBegunFrame)) == 2)
    host.say(
        runner_frames.PermissionAnswerFrame(request=host.of(runner_frames.EventFrame)[0].data["id"], verdict="yes")
    )
    await host.until(host.answered)

    assert host.said == ["got yes", "echo: more"]
    assert len(host.submitted) == 1
    assert [result.part for result in host.of(runner_frames.ResultFrame)] == [1, 2]


async def test_a_follow_up_that_is_begun_as_the_query_ends_is_still_given_to_the_provider(host: Host) -> None:
    held: list[runner_frames.RowsBegunFrame] = []

    async def hold(frame: runner_frames.FromRunner) -> runner_frames.Frame | None:
        if isinstance(frame, runner_frames.RowsBegunFrame) and frame.rows == [102] and not held:
            held.append(frame)
            return runner_frames.PermissionAnswerFrame(
                request=host.of(runner_frames.EventFrame)[0].data["id"], verdict="yes"
            )  # and not Done yet
        return None

    host.answer = hold
    host.add("ask first")
    await host.start(script={"turns": [{"when": "ask", "do": [{"ask": {"question": "go?"}}, {"say": "got it"}]}]})
    await host.until(lambda: host.of(runner_frames.EventFrame))
    host.add("late")
    await host.until(lambda: host.results)
    host.state[102] = "given"
    host.say(runner_frames.AckFrame(id=held[0].id))
    await host.until(host.answered)

    assert host.said == ["got it", "echo: late"]
    assert len(host.submitted) == 1


async def test_nanoclaw_27_and_d8_a_follow_up_given_before_the_runner_dies_is_answered_after_restart(
    host: Host,
) -> None:
    host.add("ask first")
    await host.start(script={"turns": [{"when": "ask", "do": [{"ask": {"question": "go?"}}, {"say": "got it"}]}]})
    await host.until(lambda: host.of(runner_frames.EventFrame))
    host.add("more")
    await host.until(lambda: len(host.of(runner_frames.RowsBegunFrame)) == 2)
    assert host.process is not None
    host.process.kill()
    await host.ended()
    await host.start(script={})
    await host.until(host.answered)

    assert host.said == ["echo: ask first", "echo: more"]


@pytest.mark.slow
async def test_a_follow_up_claimed_and_not_begun_is_queued_again_when_the_runner_dies(host: Host) -> None:
    async def die_at_begun(frame: runner_frames.FromRunner) -> runner_frames.Frame | None:
        if isinstance(frame, runner_frames.RowsBegunFrame) and frame.rows == [102] and host.process is not None:
            host.process.kill()
            host.answer = None
            return runner_frames.BellFrame()  # anything but the answer
        return None

    host.answer = die_at_begun
    host.add("ask first")
    await host.start(script={"turns": [{"when": "ask", "do": [{"ask": {"question": "go?"}}, {"say": "got it"}]}]})
    await host.until(lambda: host.of(runner_frames.EventFrame))
    host.add("more")
    await host.ended()
    assert host.state[102] == "queued"
    await host.start(script={})
    await host.until(host.answered)

    assert sorted(host.said) == ["echo: ask first", "echo: more"]


async def test_nanoclaw_17_killed_before_the_provider_has_the_batch_it_is_answered_once_later(host: Host) -> None:
    host.add("hello")
    await host.start(script={"crash_on_start": 1})
    code, _ = await host.ended()
    assert code == -signal.SIGKILL
    assert not host.of(runner_frames.RowsBegunFrame)
    await host.start()
    await host.until(host.answered)

    assert host.said == ["echo: hello"]


@pytest.mark.slow
async def test_nanoclaw_18_killed_after_a_reply_it_is_continued_and_nothing_is_said_twice(host: Host) -> None:
    for text in ("one", "two", "three"):
        host.add(text, ring=False)
    await host.start(script={"crash_after": 2})
    await host.ended()
    await host.start()
    await host.until(host.answered)

    assert host.said == ["echo: one", "echo: two", "echo: three"]
    assert [result.attempt for result in host.results.values()][-1] == 2


async def test_results_that_were_not_acknowledged_are_resent_by_the_next_runner(host: Host) -> None:
    box = OutboundDb(host.root / "ws" / "out" / "outbound.db")
    box.add(OutboundRow(turn="t-0", epoch=1, attempt=1, part=1, text="still here", in_reply_to=4))
    box.close()
    host.turn, host.epoch = "t-0", 1
    await host.start()
    await host.until(lambda: host.results)
    host.turn = ""
    host.add("hello")
    await host.until(host.answered)
    await host.close()

    assert host.said == ["still here", "echo: hello"]
    assert OutboundDb(host.root / "ws" / "out" / "outbound.db").list_unacked() == []


async def test_a_resent_result_that_the_host_does_not_want_is_forgotten(host: Host) -> None:
    box = OutboundDb(host.root / "ws" / "out" / "outbound.db")
    box.add(OutboundRow(turn="t-0", epoch=1, attempt=1, part=1, text="too late"))
    box.close()
    host.epoch = 9
    host.add("hello")
    await host.start()
    await host.until(host.answered)
    await host.close()

    assert host.said == ["echo: hello"]
    assert OutboundDb(host.root / "ws" / "out" / "outbound.db").list_unacked() == []


async def test_a_turn_that_is_not_believed_is_dropped_and_the_next_one_served(host: Host) -> None:
    async def refuse(frame: runner_frames.FromRunner) -> runner_frames.Frame | None:
        if isinstance(frame, runner_frames.ResultFrame) and frame.turn == "t-1":
            host.state[101], host.turn = "done", ""
            return runner_frames.AckFrame(id=frame.id, ok=False, error="an old epoch")
        return None

    host.answer = refuse
    host.add("hello")
    await host.start(script={"turns": [{"when": "hello", "do": [{"say": "a"}, {"wait": 30}, {"say": "b"}]}]})
    await host.until(lambda: host.of(runner_frames.ResultFrame))
    host.add("next")
    await host.until(host.answered)

    assert host.said == ["echo: next"]
    assert [submit.turn for submit in host.submitted] == ["t-2"]


async def test_a_begun_that_is_refused_keeps_the_batch_from_the_provider(host: Host) -> None:
    async def refuse(frame: runner_frames.FromRunner) -> runner_frames.Frame | None:
        if isinstance(frame, runner_frames.RowsBegunFrame) and frame.turn == "t-1":
            host.state[101], host.turn = "done", ""
            return runner_frames.AckFrame(id=frame.id, ok=False)
        return None

    host.answer = refuse
    host.add("hello")
    await host.start()
    await host.until(lambda: host.of(runner_frames.RowsBegunFrame))
    host.add("next")
    await host.until(host.answered)

    assert host.said == ["echo: next"]


async def test_nanoclaw_37_a_command_during_an_open_query_is_the_first_input_of_the_next(host: Host) -> None:
    host.add("ask first")
    await host.start(script={"turns": [{"when": "ask", "do": [{"ask": {"question": "go?"}}, {"say": "first"}]}]})
    await host.until(lambda: host.of(runner_frames.EventFrame))
    host.add("/compact", command="/compact", ring=False)
    host.add("after", ring=False)
    host.say(runner_frames.BellFrame())
    host.say(
        runner_frames.PermissionAnswerFrame(request=host.of(runner_frames.EventFrame)[0].data["id"], verdict="yes")
    )
    await host.until(host.answered)

    assert host.said == ["first", "echo: /compact", "echo: after"]
    assert [sorted(begun.rows) for begun in host.of(runner_frames.RowsBegunFrame)] == [[101], [102], [103]]


async def test_nanoclaw_37_a_command_splits_the_batch_around_it(host: Host) -> None:
    for text, command in (("one", ""), ("two", ""), ("/cost", "/cost"), ("three", "")):
        host.add(text, ring=False, command=command)
    await host.start()
    await host.until(host.answered)

    assert host.said == ["echo: one", "echo: two", "echo: /cost", "echo: three"]
    assert [begun.rows for begun in host.of(runner_frames.RowsBegunFrame)] == [[101, 102], [103], [104]]
    assert len(host.submitted) == 1


@pytest.mark.slow
async def test_nanoclaw_38_each_provider_keeps_its_own_conversation(host: Host) -> None:
    host.add("one")
    await host.start()
    await host.until(host.answered)
    await host.close()
    scripted = host.conversation
    host.conversation = ""  # the host stores one per provider; the other one has none here
    host.add("help", ring=False)
    await host.start("demo")
    await host.until(host.answered)
    await host.close()
    host.conversation = scripted
    host.add("two", ring=False)
    await host.start()
    await host.until(host.answered)

    assert host.conversation == scripted
    lines = (host.root / "ws" / "state" / "scripted" / f"{scripted}.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert (host.root / "ws" / "state" / "demo").is_dir()


async def test_the_demo_makes_no_excuse_when_the_gateway_dies_in_the_middle_of_its_call(host: Host) -> None:
    """The next gateway asks again, and the note is made."""
    called = asyncio.Event()

    async def die(reads: asyncio.StreamReader, writes: asyncio.StreamWriter) -> None:
        await reads.readline()
        writes.close()
        called.set()

    tools = await asyncio.start_unix_server(die, str(host.root / "run" / "router.sock"))
    host.add("note buy milk")
    await host.start("demo")
    await called.wait()
    # The sockets of a process that dies end one by one.
    await asyncio.wait({asyncio.ensure_future(host.until(host.answered))}, timeout=A_MOMENT_S)
    host.hang_up()
    assert await host.ended() == (0, "")
    assert host.said == []
    tools.close()


async def test_nanoclaw_30_a_block_goes_to_its_name_bare_text_to_the_room_and_one_correction_follows(
    host: Host,
) -> None:
    text = 'Bare. <message to="ops">for ops</message><message to="nowhere">lost</message>'
    script = {
        "turns": [
            {"when": "go", "do": [{"say": text}]},
            {"kind": "system", "when": "nowhere", "do": [{"say": '<message to="nope">again</message>'}]},
        ]
    }
    host.add("go")
    await host.start(script=script)
    await host.until(host.answered)

    assert [(result.to, result.text) for result in host.results.values()] == [("", "Bare."), ("ops", "for ops")]
    assert [result.to for result in host.of(runner_frames.ResultFrame)] == ["", "ops", "nowhere", "nope"]
    assert len(host.submitted) == 1


async def test_nanoclaw_31_a_final_text_that_repeats_what_was_said_is_not_sent_again(host: Host) -> None:
    host.add("go")
    await host.start(script={"turns": [{"when": "go", "do": [{"say": "the answer"}, {"final": "the answer"}]}]})
    await host.until(host.answered)

    assert host.said == ["the answer"]


async def test_statuses_and_tool_events_reach_the_host(host: Host) -> None:
    steps = [{"status": "looking"}, {"say": "<status>nearly</status>done"}, {"usage": {"tokens": 3}}]
    host.add("go")
    await host.start(script={"turns": [{"do": steps}]})
    await host.until(host.answered)

    assert [status.text for status in host.of(runner_frames.StatusFrame)] == ["looking", "nearly"]
    assert host.said == ["done"]
    assert host.submitted[0].usage == {"tokens": 3}


async def test_the_word_for_silence_is_not_sent_and_the_host_is_told_why_nothing_was_said(host: Host) -> None:
    host.add("go")
    await host.start(script={"turns": [{"do": [{"say": "<think>hm"}, {"say": "<silent/>"}]}]})
    await host.until(host.answered)

    assert host.said == []
    assert (host.submitted[0].status, host.submitted[0].withheld) == ("success", "it answered <silent/>")


async def test_a_translation_that_means_silence_is_sent(host: Host) -> None:
    host.add("what is Stille in English?")
    await host.start(script={"turns": [{"do": [{"say": "Silence."}]}]})
    await host.until(host.answered)
    assert host.said == ["Silence."]


async def test_a_large_result_goes_in_parts_that_fit_a_frame(host: Host) -> None:
    host.add("x" * 700_000)
    await host.start()
    await host.until(host.answered)

    assert len(host.said) > 1
    assert "".join(host.said) == "echo: " + "x" * 700_000


async def test_an_error_of_the_provider_is_submitted_with_its_class(host: Host) -> None:
    host.add("go")
    error = {"kind": "quota", "message": "come back later", "retry_after": 7.5}
    await host.start(script={"default": [{"error": error}]})
    await host.until(lambda: host.submitted)

    [submit] = host.submitted
    assert (submit.status, submit.error_class, submit.error, submit.retry_after) == (
        "error",
        "quota",
        "come back later",
        7.5,
    )


async def test_an_interrupt_ends_the_turn(host: Host) -> None:
    host.add("go")
    await host.start(script={"default": [{"status": "waiting"}, {"wait": 60}, {"say": "too late"}]})
    await host.until(lambda: host.of(runner_frames.StatusFrame))
    host.say(runner_frames.InterruptFrame(reason="stop"))
    await host.until(lambda: host.submitted)

    assert host.submitted[0].status == "error"
    assert host.said == []


async def test_a_hanging_provider_does_not_keep_a_runner_that_is_told_to_close(host: Host) -> None:
    host.add("go")
    await host.start(script={"default": [{"status": "waiting"}, {"hang": True}]})
    await host.until(lambda: host.of(runner_frames.StatusFrame))
    host.say(runner_frames.InterruptFrame())

    assert await host.close() == (0, "")


@pytest.mark.slow
async def test_a_ping_names_the_turn(host: Host) -> None:
    host.add("go")
    await host.start(script={"default": [{"status": "waiting"}, {"hang": True}]})
    await host.until(lambda: any(ping.turn == "t-1" for ping in host.of(runner_frames.PingFrame)))


async def test_observed_messages_are_shown_once_with_the_next_batch(host: Host, tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "parrot.py").write_text(PARROT)
    host.add("overheard", trigger=0, ring=False)
    host.add("first", ring=False)
    await host.start("parrot", GATEPOST_PLUGINS=str(plugins))
    await host.until(host.answered)
    host.add("second")
    await host.until(lambda: len(host.submitted) == 2)

    assert "<observed>" in host.said[0] and "overheard" in host.said[0]
    assert "overheard" not in host.said[1]


PARROT = """
from gatepost.inside.providers.contract import TurnResult, ConversationStarted, provider

@provider("parrot")
class Parrot:
    def __init__(self, place):
        pass

    async def query(self, batch, resume):
        yield ConversationStarted("p")
        yield TurnResult(batch.prompt)

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""


async def test_follow_ups_are_not_claimed_for_a_provider_that_takes_none(host: Host, tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "parrot.py").write_text(PARROT)

    async def another(frame: runner_frames.FromRunner) -> runner_frames.Frame | None:
        if isinstance(frame, runner_frames.ResultFrame) and len(host.rows) == 1:
            host.add("second")
        return None

    host.answer = another
    host.add("first")
    await host.start("parrot", GATEPOST_PLUGINS=str(plugins))
    await host.until(lambda: len(host.submitted) == 2)

    assert all(not claim.turn for claim in host.of(runner_frames.ClaimFrame))


async def test_a_deleted_inbound_file_is_asked_for_and_the_message_answered(host: Host) -> None:
    async def project_again(frame: runner_frames.FromRunner) -> runner_frames.Frame | None:
        if isinstance(frame, runner_frames.ClaimFrame) and not frame.rows and host._queued():
            host.project()
        return None

    host.answer = project_again
    host.add("hello", ring=False)
    host.inbox.unlink()
    await host.start()
    await host.until(host.answered)

    assert host.said == ["echo: hello"]


async def test_a_broken_inbound_file_is_told_to_the_host_once_and_read_when_it_is_rebuilt(host: Host) -> None:
    host.add("hello", ring=False)
    host.inbox.write_bytes(b"rubbish" * 2000)
    await host.start()
    await host.until(lambda: host.of(runner_frames.ErrorFrame))
    InboundWriter(host.inbox).rebuild(list(host.rows.values()), None, [])
    await host.until(host.answered)

    [trouble] = host.of(runner_frames.ErrorFrame)
    assert (trouble.what, trouble.fatal) == ("inbound", False)


@pytest.mark.slow
async def test_a_locked_inbound_file_is_looked_at_again(host: Host) -> None:
    host.add("hello", ring=False)
    holder = apsw.Connection(str(host.inbox))
    holder.execute("BEGIN EXCLUSIVE")
    await host.start()
    await host.until(lambda: host.of(runner_frames.ClaimFrame))
    holder.close()
    await host.until(host.answered)

    assert host.said == ["echo: hello"]


async def test_a_broken_outbound_file_is_moved_aside_and_told(host: Host) -> None:
    (host.root / "ws" / "out" / "outbound.db").write_bytes(b"rubbish" * 2000)
    host.add("hello")
    await host.start()
    await host.until(host.answered)

    [trouble] = host.of(runner_frames.ErrorFrame)
    assert (trouble.what, trouble.fatal) == ("outbound", False)
    assert (host.root / "ws" / "out" / "outbound.db.broken").exists()


@pytest.mark.parametrize(("provider", "reason"), [("nobody", "no provider named 'nobody'"), ("broken", "broken.py")])
async def test_a_provider_that_cannot_be_had_is_fatal_and_named(
    host: Host, tmp_path: Path, provider: str, reason: str
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    if provider == "broken":
        (plugins / "broken.py").write_text("import no_such_module")
    await host.start(provider, GATEPOST_PLUGINS=str(plugins))
    code, words = await host.ended()

    assert code == 1
    [trouble] = host.of(runner_frames.ErrorFrame)
    assert trouble.fatal and reason in trouble.why
    assert reason in words


async def test_a_wrong_script_is_fatal_and_named(host: Host) -> None:
    host.add("hello")
    await host.start(script={"turns": [{"do": [{"sya": "typo"}]}]})
    code, _ = await host.ended()

    assert code == 1
    assert "sya" in host.of(runner_frames.ErrorFrame)[0].why


async def test_the_runner_ends_when_the_host_hangs_up(host: Host) -> None:
    host.add("hello")
    await host.start()
    await host.until(host.answered)
    assert host._writer is not None
    host._writer.close()

    assert await host.ended() == (0, "")


async def test_without_a_host_the_runner_says_so_and_ends(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gatepost.inside.runner",
        env={**os.environ, "GATEPOST_RUN": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    _, words = await process.communicate()

    assert process.returncode == 1
    assert b"cannot reach the gateway" in words and b"Traceback" not in words


async def test_what_the_host_never_sends_is_fatal(host: Host) -> None:
    await host.start()
    await host.until(lambda: host.of(runner_frames.ClaimFrame))
    assert host._writer is not None
    host._writer.write(b"rubbish\n")
    code, _ = await host.ended()

    assert code == 1
    assert host.of(runner_frames.ErrorFrame)[-1].fatal


SLOW_TOOLS = """
import asyncio
from gatepost.inside.providers.contract import TurnResult, StatusLine, Text, ToolResult, ToolUse, provider

@provider("slow")
class Slow:
    def __init__(self, place):
        pass

    async def query(self, batch, resume):
        yield ToolUse("a", "Bash", {"command": "make"}, 600.0)
        yield ToolUse("b", "Read", {"path": "x" * 300_000})
        yield ToolResult("b", "text" * 100_000)
        yield Text(f"resumed {resume!r}")
        await asyncio.Event().wait()

    async def close(self):
        pass
"""


@pytest.mark.slow
async def test_nanoclaw_19_a_ping_names_the_tool_that_runs_and_its_declared_patience(
    host: Host, tmp_path: Path
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "slow.py").write_text(SLOW_TOOLS)
    host.add("go")
    await host.start("slow", GATEPOST_PLUGINS=str(plugins))
    await host.until(lambda: any(ping.tool for ping in host.of(runner_frames.PingFrame)))

    assert next((ping.tool, ping.tool_timeout) for ping in host.of(runner_frames.PingFrame) if ping.tool) == (
        "Bash",
        600.0,
    )
    kinds = [event.kind for event in host.of(runner_frames.EventFrame)]
    assert kinds == ["tool_use", "tool_use", "tool_result"]
    assert host.of(runner_frames.EventFrame)[1].data["input"] == {"cut": "300011 bytes"}


async def test_nanoclaw_15_a_conversation_that_the_host_cleared_is_not_resumed(host: Host) -> None:
    host.add("one")
    await host.start()
    await host.until(host.answered)
    before, host.conversation = host.conversation, ""
    host.add("two")
    await host.until(lambda: len(host.submitted) == 2)

    assert host.conversation not in ("", before)


async def test_stranger_22_a_bell_before_the_welcome_breaks_no_start(host: Host) -> None:
    async def early(frame: runner_frames.Frame) -> None:
        if isinstance(frame, runner_frames.HelloFrame):
            host.say(runner_frames.BellFrame())
            host.say(runner_frames.WrapUpFrame(seconds=60))

    host.answer = early
    host.add("hello")
    await host.start()
    await host.until(host.answered)

    assert host.said == ["echo: hello"]
    assert await host.close() == (0, "")


async def test_stranger_22_a_close_before_the_welcome_ends_the_runner(host: Host) -> None:
    async def early(frame: runner_frames.Frame) -> None:
        if isinstance(frame, runner_frames.HelloFrame):
            host.say(runner_frames.CloseFrame())

    host.answer = early
    await host.start()

    assert await host.ended() == (0, "")


async def test_stranger_20_a_turn_that_fails_late_names_what_the_provider_was_done_with(host: Host) -> None:
    first = host.add("first", ring=False)
    host.add("/second", ring=False, command="/second")
    error = {"kind": "quota", "message": "no quota"}
    await host.start(script={"turns": [{"when": "second", "do": [{"error": error}]}]})
    await host.until(lambda: host.submitted)

    [submit] = host.submitted
    assert (submit.status, submit.finished) == ("error", [first.id])


GARRULOUS = """
from gatepost.inside.providers.contract import ConversationStarted, Question, Text, TurnFailed
from gatepost.inside.providers.contract import ToolResult, ToolUse, UsageReport, provider


@provider("garrulous")
class Garrulous:
    takes_pushes = False

    def __init__(self, place):
        pass

    async def query(self, batch, resume):
        yield ConversationStarted("c" * 5000)
        yield ToolUse("k" * 5000, "t" * 5000, {"x": "y" * 500_000}, 1e12)
        yield ToolResult("k" * 5000, "\\x01" * 900_000, False)
        yield Question("q" * 5000, "\\x01" * 900_000, tuple("o" * 3000 for _ in range(500)))
        yield UsageReport({"tokens": 3, "deep": {"a": [1]}, "large": 10**400, "text": "x" * 5000})
        yield Text('<message to="' + "n" * 1000 + '">lost</message><status>' + "s" * 9000 + "</status>")
        yield Text("word " * 200_000)
        yield TurnFailed("e" * 900_000, "quota", 1e12)

    async def interrupt(self):
        pass

    async def close(self):
        pass
"""


async def test_stranger_new_whatever_a_provider_says_is_cut_or_split_to_what_a_frame_can_hold(
    host: Host, tmp_path: Path
) -> None:
    """The host of these tests reads frames as strictly as the gateway."""
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "garrulous.py").write_text(GARRULOUS)
    host.add("go")
    await host.start("garrulous", GATEPOST_PLUGINS=str(plugins))
    await host.until(lambda: host.submitted)

    assert (
        "".join(result.text for result in host.of(runner_frames.ResultFrame) if not result.to).split()
        == ["word"] * 200_000
    )
    assert [len(result.to) for result in host.of(runner_frames.ResultFrame) if result.to] == [
        runner_frames.LONGEST_NAME
    ]
    assert [len(status.text) for status in host.of(runner_frames.StatusFrame)] == [runner_frames.LONGEST_STATUS]
    assert host.submitted[0].usage == {"tokens": 3}
    assert (host.submitted[0].error_class, host.submitted[0].retry_after) == ("quota", runner_frames.LONGEST_WAIT_S)
    assert [event.kind for event in host.of(runner_frames.EventFrame)] == [
        "tool_use",
        "tool_result",
        "question",
        "usage",
    ]
    assert ["5000 characters" in trouble.why for trouble in host.of(runner_frames.ErrorFrame)] == [True]


async def test_a_forked_conversation_goes_on_in_a_copy_of_its_own(host: Host) -> None:
    host.add("one")
    await host.start()
    await host.until(host.answered)
    parent, host.forks = host.conversation, True
    before = (host.root / "ws" / "state" / "scripted" / f"{parent}.jsonl").read_bytes()
    host.add("two")
    await host.until(lambda: len(host.submitted) == 2)
    child = host.conversation
    host.add("three")
    await host.until(lambda: len(host.submitted) == 3)

    assert child != parent and host.conversation == child
    assert (host.root / "ws" / "state" / "scripted" / f"{parent}.jsonl").read_bytes() == before
    assert (host.root / "ws" / "state" / "scripted" / f"{child}.jsonl").read_bytes().startswith(before)
    assert host.said == ["echo: one", "echo: two", "echo: three"]


async def test_a_conversation_that_the_provider_cannot_fork_goes_on_as_it_is(host: Host) -> None:
    host.conversation, host.forks = "c-lost", True
    host.add("one")
    await host.start()
    await host.until(host.answered)

    assert host.conversation == "c-lost"
    assert host.said == ["echo: one"]

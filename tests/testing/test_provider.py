"""Scripts written in Python are scripts that the provider reads."""

from pathlib import Path

from gatepost.inside.script_format import read_script
from gatepost_testing.provider import ScriptBuilder


def test_every_step_is_one_that_the_provider_knows(tmp_path: Path) -> None:
    script = (
        ScriptBuilder(crash_on_start=2, crash_after=3)
        .turn(when="hello", kind="chat", once=True)
        .status("…")
        .wait(0.1)
        .say("hi")
        .call("send", text="psst")
        .ask("sure?", "yes", "no")
        .write_file("note.txt", "noted")
        .final("done")
        .turn(when="boom")
        .crash("always")
        .turn(when="hang")
        .hang()
        .turn(when="err")
        .error("quota", kind="quota", retry_after=3)
        .otherwise()
        .say("what?")
    )

    read = read_script(None, script.write(tmp_path / "home"))

    assert (read.crash_on_start, read.crash_after) == (2, 3)
    assert [turn.when for turn in read.turns] == ["hello", "boom", "hang", "err"]
    first = read.turns[0]
    assert first.once and first.kind == "chat"
    assert [step.call for step in first.do if step.call] == ["send"]
    assert first.do[3].arguments == {"text": "psst"}
    assert read.turns[1].do[0].crashes() == -1
    error = read.turns[3].do[0].error
    assert error is not None and (error.kind, error.retry_after) == ("quota", 3)
    assert [step.say for step in read.default] == ["what?"]


def test_a_script_without_turns_says_what_it_is_told_to_everything() -> None:
    assert '"default"' in ScriptBuilder().say("hi").json()


def test_an_empty_script_leaves_the_echo_in_place(tmp_path: Path) -> None:
    assert read_script(None, ScriptBuilder().write(tmp_path)).default[0].say == "echo: {text}"

"""One conversation on each platform, from its own people to a sandboxed agent and back: a mention, an answer in a
thread, an edit, a reaction, a file each way, a question, an approval in a direct chat, and a stop."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatepost.messages.outbound import Feature
from gatepost_testing.platforms.base import EmulatedPlatform, GivenFile, NotOffered
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import block_until

from .channel_desk import ChannelDesk

PLATFORMS = {  # the emulator, or what drives a real server
    "telegram": "gatepost_testing.platforms.telegram:TelegramPlatform",
    "discord": "gatepost_testing.platforms.discord:DiscordPlatform",
    "slack": "gatepost_testing.platforms.slack:SlackPlatform",
    "whatsapp": "gatepost_testing.platforms.whatsapp:WhatsAppPlatform",
    "email": "gatepost_testing.servers.mail_server:MailServer",
    "matrix": "gatepost_testing.servers.matrix_server:MatrixServer",
}
SLOW = frozenset(PLATFORMS) - {"telegram"}
DRINK = {"question": "Which drink?", "header": "Drink", "options": [{"label": "Tea"}, {"label": "Coffee"}]}
FILE = GivenFile("plan.txt", b"the plan of the day", "text/plain")


def script() -> ScriptBuilder:
    made = ScriptBuilder()
    made.turn("good morning").say("morning, {sender}")
    made.turn("step by step").status("one").wait(0.3).status("two").wait(0.3).say("three")
    made.turn("like this").call("like", targetId="{seq}", reaction="👍").say("liked")
    made.turn("take this").say("got the file")
    made.turn("give me").write_file("report.txt", "all is well").call(
        "send_file", filepath="report.txt", caption="here"
    )
    made.turn("ask me").call("ask_user_question", questions=[DRINK]).say("They said: {result}")
    made.turn("be careful").call("send", text="the held words").say("asked")
    made.turn("work long").say("working").wait(600).say("never said")
    return made.otherwise().say("echo: {text}")


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in PLATFORMS])
def platform(request: pytest.FixtureRequest) -> Iterator[EmulatedPlatform]:
    module, _, name = PLATFORMS[request.param].partition(":")
    make: Callable[[], EmulatedPlatform] = getattr(importlib.import_module(module), name)
    with make() as made:
        yield made


@pytest.mark.slow
def test_a_whole_conversation_reaches_the_agent_and_comes_back(platform: EmulatedPlatform, tmp_path: Path) -> None:
    room = "team" if platform.has_groups else "direct:ann"
    with ChannelDesk(tmp_path, platform, script()) as desk:
        features = desk.kind.features

        platform.send("good morning", room=room, mention=True)
        first = desk.wait_for_text("morning, ", room)

        thread = platform.send("a thread of its own", room=room, thread=first.id) if Feature.THREADS in features else ""
        if thread:
            answer = desk.wait_for_text("echo: a thread of its own", room)
            assert answer.thread, "the answer is not in the thread"

        said = platform.send("tel me", room=room)
        desk.wait_for_text("echo: tel me", room)
        try:
            platform.edit(room, said, "tell me", sender="ann")
        except NotOffered:
            pass
        else:
            block_until(lambda: "tell me" in desk.run("ledger", "list", "--json"), "the edit in the ledger")

        platform.send("step by step", room=room)
        desk.wait_for_text("three", room)
        if Feature.EDIT in features:
            assert any(each.edits for each in platform.record), "the status line was not edited in place"
        if {Feature.EDIT, Feature.DELETE} <= features and not desk.kind.deletions_show:
            assert platform.wait_for(lambda: not {"one", "two"} & set(platform.texts(room))), "the status line stayed"

        liked = platform.send("like this", room=room)
        if Feature.REACT in features:
            desk.wait_for_text("liked", room)
            assert platform.wait_for(lambda: any(who == "bot" for _, who in platform.find(liked).reactions))

        platform.send("take this", room=room, files=[FILE])
        desk.wait_for_text("got the file", room)
        kept = [path for path in desk.daemon.home.rglob("plan.txt") if path.read_bytes() == FILE.data]
        assert kept, "the file did not reach the gateway whole"

        platform.send("give me", room=room)
        given = desk.wait_for(lambda each: bool(each.files) or "report.txt" in each.text, room)
        assert Feature.FILES not in features or given.files[0].data == b"all is well"

        platform.send("ask me", room=room)
        card = desk.wait_for_text("Which drink?", room)
        desk.answer(room, card, "Coffee")
        assert "Coffee" in desk.wait_for_text("They said: ", room).text

        desk.run("grant", "add", "home", "hold send")
        platform.send("good morning", room="direct:ann")
        desk.wait_for_text("morning, ", "direct:ann")
        platform.send("be careful", room=room)
        asked = desk.wait_for_text("wants to send", "direct:ann")
        desk.answer("direct:ann", asked, "Allow once")
        desk.wait_for_text("the held words", room)

        platform.send("work long", room=room)
        working = desk.wait_for_text("working", room)
        platform.send("/stop", room=room, thread=working.thread)
        desk.wait_until_settled()
        shown = platform.texts()
        assert not any("never said" in each for each in shown)
        assert sum(each.strip() == "the held words" for each in shown) == 1

"""What comes with a message, on a whole gateway: what is said in a recording is read, and nothing is lost or made twice
when a turn is continued."""

from pathlib import Path
from typing import Any

import pytest
from tests.agents import every

from gatepost.flow.notices import INTERRUPTED
from gatepost.flow.sessions.session_ending import Ending
from gatepost.messages.inbound import Attachment, AttachmentKind
from gatepost.store.money import costs
from gatepost_testing.agent_profiles import PATIENCE, AgentProfile, run_agent_gateway
from gatepost_testing.agent_suite.checks.files import MARK, PICTURE
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import TRANSCRIPTIONS, ModelEndpoint, RecordedRequest

HERE = [{"say": "here"}]
HEARS = "gpt-4o-mini-transcribe"
SAID = 'I said "<b>go</b>" & left'


VOICE = Attachment(name="d.ogg", mime="audio/ogg", kind=AttachmentKind.AUDIO, data=b"OggS" + bytes(2000))
WAV = Attachment(
    name="e.wav", mime="audio/wav", kind=AttachmentKind.AUDIO, data=b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(100)
)
CONTINUED: dict[str, Any] = {
    "tools": True,
    "heard": SAID,
    "turns": [
        {"when": "broke off", "do": [{"say": "and the rest"}]},
        {"when": "go", "do": [{"call": "send", "with": {"text": "told"}}, {"hold": True, "say": "never heard"}]},
    ],
}


@pytest.fixture
def channel() -> FakeChannel:
    return FakeChannel()


def transcripts(endpoint: ModelEndpoint) -> list[RecordedRequest]:
    return [request for request in endpoint.requests if request.path.endswith(TRANSCRIPTIONS)]


@pytest.mark.slow
@pytest.mark.parametrize("agent", every(later=("claude",)))  # words reach each provider as text
async def test_a_recording_comes_with_its_words_and_its_file(
    tmp_path: Path, channel: FakeChannel, agent: AgentProfile
) -> None:
    async with (
        ModelEndpoint({"tools": True, "heard": SAID, "default": HERE}) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint, transcribe=HEARS) as gateway,
    ):
        await channel.say("listen", attachments=(VOICE,))
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)

        assert HEARS in [each.key for each in await gateway.store.read(costs.list_sums, "model")]
    (asked,) = transcripts(endpoint)
    assert VOICE.data in asked.raw
    last = endpoint.calls[-1]
    words = "I said &quot;&lt;b&gt;go&lt;/b&gt;&quot; &amp; left"
    assert last.count_text(f'<transcript of="d.ogg" by="machine">{words}</transcript>') == 1
    assert last.count_text("d.ogg, saved as") == 1


@pytest.mark.parametrize("agent", every())
@pytest.mark.slow
async def test_a_turn_that_is_continued_has_the_picture_once_and_makes_no_second_transcript(
    tmp_path: Path, channel: FakeChannel, agent: AgentProfile
) -> None:
    async with (
        ModelEndpoint(CONTINUED) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint, transcribe=HEARS) as gateway,
    ):
        await channel.say("go to it", attachments=(PICTURE, VOICE))
        await channel.wait_for(1, timeout=PATIENCE)
        await endpoint.wait_for(2, timeout=PATIENCE)
        (live,) = gateway.sessions.awake
        live.kill(Ending("the test pulls the plug"))
        await channel.wait_for(2, timeout=PATIENCE)
        await wait_until_settled(gateway)

        said = [each for each in channel.texts() if each != INTERRUPTED]  # told where it took long
        assert said == ["told", "and the rest"]
    last = endpoint.calls[-1]
    assert last.raw.count(MARK) == 1 and last.count_text("go to it") == 1 and last.count_text("<transcript") == 1
    assert len(transcripts(endpoint)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("agent", every("anthropic"))
@pytest.mark.parametrize("model", ["nobody-has-priced-this", "gpt-5-mini"])
async def test_without_a_transcript_there_is_the_file_and_a_note(
    tmp_path: Path, channel: FakeChannel, agent: AgentProfile, model: str
) -> None:
    async with (
        ModelEndpoint({"tools": True, "default": HERE}) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint, transcribe=model) as gateway,
    ):
        await channel.say("listen", attachments=(VOICE,))
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)
    (call,) = endpoint.calls
    assert transcripts(endpoint) == []
    assert call.count_text("d.ogg, saved as") == 1 and call.count_text("d.ogg: no transcript could be made of it") == 1


@pytest.mark.parametrize("agent", every("anthropic"))
async def test_the_endpoint_of_all_groups_makes_transcripts_by_default_whatever_the_model_is(
    tmp_path: Path, channel: FakeChannel, agent: AgentProfile
) -> None:
    async with ModelEndpoint({"tools": True, "default": HERE}) as endpoint, ModelEndpoint({"heard": "go"}) as words:
        given = {"media__transcribe_base_url": words.openai, "media__transcribe_price": "0"}
        async with run_agent_gateway(agent, tmp_path / "h", channel, endpoint, settings=given) as gateway:
            await channel.say("listen", attachments=(VOICE,))
            await channel.wait_for(1, timeout=PATIENCE)
            await wait_until_settled(gateway)

            booked = {each.key: each.micro for each in await gateway.store.read(costs.list_sums, "model")}
    assert booked["whisper-1"] == 0 and len(transcripts(words)) == 1 and transcripts(endpoint) == []
    assert endpoint.calls[-1].count_text('<transcript of="d.ogg" by="machine">go</transcript>') == 1


@pytest.mark.slow
@pytest.mark.parametrize("agent", every("anthropic"))
@pytest.mark.parametrize(
    ("command", "option", "said"),
    [
        ("head -c 4 {file}", {}, '<transcript of="d.ogg" by="machine">OggS</transcript>'),
        ("no-such-program", {}, "d.ogg: no transcript could be made of it"),
        ("head -c 4 {file}", {"transcribe": "off"}, ""),
    ],
)
async def test_a_program_makes_transcripts_inside_the_sandbox_unless_the_group_has_it_off(
    tmp_path: Path, channel: FakeChannel, agent: AgentProfile, command: str, option: dict[str, str], said: str
) -> None:
    given = {"media__transcribe_command": command}
    async with (
        ModelEndpoint({"tools": True, "default": HERE}) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint, settings=given, **option) as gateway,
    ):
        await channel.say("listen", attachments=(VOICE,))
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)
    (call,) = endpoint.calls
    assert call.count_text("d.ogg, saved as") == 1 and transcripts(endpoint) == []
    assert call.count_text(said) == 1 if said else call.count_text("transcript") == 0


LOOKING_SPEAKER = """\
#!/bin/sh
printf 'RIFF....WAVEfmt '
cat
ls -A /workspace/agent /run/gatepost
cat /workspace/agent/AGENTS.md 2>&1
tail -n +3 /proc/net/dev | cut -d: -f1
env | grep -i proxy || true
"""


@pytest.mark.parametrize("agent", every("anthropic"))
async def test_words_are_spoken_by_a_program_that_sees_no_network_and_nothing_of_the_group(
    tmp_path: Path, channel: FakeChannel, agent: AgentProfile
) -> None:
    (tmp_path / "speak").write_text(LOOKING_SPEAKER)
    (tmp_path / "speak").chmod(0o755)
    given = {"tts__command": "speak", "programs": [f"speak={tmp_path / 'speak'}"]}
    said = {"call": "send_voice", "with": {"text": "good morning"}}
    async with (
        ModelEndpoint({"tools": True, "turns": [{"when": "aloud", "do": [said, {"say": "done"}]}]}) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint, settings=given) as gateway,
    ):
        await channel.say("say it aloud")
        await channel.wait_for(2, timeout=PATIENCE)
        await wait_until_settled(gateway)

        assert (gateway.home.group("home") / "AGENTS.md").exists()
        assert {each.key for each in await gateway.store.read(costs.list_sums, "model")} == {agent.model}
        assert not list(gateway.home.sessions.glob("job-*"))
        (sound,) = (gateway.home.media / "voice").iterdir()
        assert sound.stat().st_size == channel.sent[0].message.files[0].size
    message = channel.sent[0].message
    assert (message.text, message.files[0].mime) == ("good morning", "audio/wav")
    wav, *seen = sound.read_text().splitlines()
    assert wav == "RIFF....WAVEfmt good morning"
    assert [line.strip() for line in seen if line] == [
        "/run/gatepost:",
        "/workspace/agent:",
        "cat: /workspace/agent/AGENTS.md: No such file or directory",
        "lo",
    ]


@pytest.mark.parametrize("agent", every("openai"))
async def test_a_model_that_hears_gets_the_sound_itself_and_words_of_what_it_cannot_take(
    tmp_path: Path, channel: FakeChannel, agent: AgentProfile
) -> None:
    async with (
        ModelEndpoint({"tools": True, "heard": SAID, "default": HERE}) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint, transcribe=HEARS, audio="native") as gateway,
    ):
        await channel.say("listen", attachments=(WAV, VOICE))
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)
    (call,) = endpoint.calls
    sounds = [part for message in call.body["messages"] for part in message["content"] if isinstance(part, dict)]
    assert [part["input_audio"]["format"] for part in sounds if part["type"] == "input_audio"] == ["wav"]
    assert call.count_text("<transcript") == 1 and len(transcripts(endpoint)) == 1


@pytest.mark.parametrize("agent", every("anthropic", "openai", "claude", "codex", "opencode"))
@pytest.mark.slow
async def test_a_file_that_the_endpoint_refuses_does_not_spoil_the_conversation(
    tmp_path: Path, channel: FakeChannel, agent: AgentProfile
) -> None:
    refusal = {"fault": 400, "times": -1, "error": "messages.0.content.0: nobody can open that"}
    script = {"tools": True, "default": HERE, "turns": [{"when": "look at it", "do": [refusal]}]}
    async with (
        ModelEndpoint(script) as endpoint,
        run_agent_gateway(agent, tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("before that")
        await channel.wait_for(1, timeout=PATIENCE)
        await wait_until_settled(gateway)
        await channel.say("look at it", attachments=(PICTURE,))
        await channel.wait_for(2, timeout=PATIENCE)
        await wait_until_settled(gateway)
        seen = [call.raw.count(MARK) for call in endpoint.calls if call.tools]
        endpoint.play({"tools": True, "default": HERE})
        await channel.say("never mind")
        await channel.wait_for(3, timeout=PATIENCE)
        await wait_until_settled(gateway)

        first, sorry, last = channel.texts()
        assert sorry.startswith("Sorry") and (first, last) == ("here", "here")
    assert max(seen) == 1 and endpoint.calls[-1].raw.count(MARK) == 0
    assert endpoint.calls[-1].count_text("before that") == 1

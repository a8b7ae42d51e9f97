"""A model behind an API has hands: in a real sandbox it runs a command, edits what came of it, and sends the file."""

from pathlib import Path
from typing import Any

from gatepost_testing.agent_profiles import AGENTS, PATIENCE, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

WORK: dict[str, Any] = {
    "tools": True,
    "turns": [
        {
            "when": "report",
            "do": [
                {"call": "run", "with": {"command": "printf 'sold: 41\\n' > report.txt; id -u; cat /etc/shadow"}},
                {"call": "edit_file", "with": {"path": "report.txt", "old": "41", "new": "42"}},
                {"call": "send_file", "with": {"filepath": "report.txt"}},
                {"say": "sent"},
            ],
        }
    ],
}


async def test_a_model_makes_a_file_by_a_command_edits_and_sends_it(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(WORK) as endpoint,
        run_agent_gateway(AGENTS["anthropic"], tmp_path / "h", channel, endpoint) as gateway,
    ):
        await channel.say("the report, please")
        sent = await channel.wait_for(lambda found: any(each.message.text == "sent" for each in found), PATIENCE)
        await wait_until_settled(gateway)

    assert [(each.name, each.size) for message in sent for each in message.message.files] == [("report.txt", 9)]
    assert (tmp_path / "h/groups/home/report.txt").read_text() == "sold: 42\n"
    assert b"No such file" in endpoint.calls[-1].raw  # of the host's passwords it sees nothing


async def test_a_group_can_do_without_commands(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(WORK) as endpoint,
        run_agent_gateway(AGENTS["anthropic"], tmp_path / "h", channel, endpoint, shell="off"),
    ):
        await channel.say("the report, please")
        await channel.wait_for(1, PATIENCE)
        assert b'"name":"write_file"' in endpoint.calls[0].raw
        assert b'"name":"run"' not in endpoint.calls[0].raw

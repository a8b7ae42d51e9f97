"""A model behind an API has hands: in a real sandbox it runs a command, edits what came of it, and sends the file."""

from base64 import b64encode
from pathlib import Path
from typing import Any

from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import waiting_requests
from gatepost.store.rooms import direct_rooms
from gatepost_testing.agent_profiles import AGENTS, PATIENCE, run_agent_gateway
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import wait_until_settled
from gatepost_testing.models import ModelEndpoint

PICTURE = b64encode(b"\x89PNG\r\n\x1a\n" + bytes(50)).decode()
WORK: dict[str, Any] = {
    "tools": True,
    "turns": [
        {
            "when": "report",
            "do": [
                {"call": "run", "with": {"command": "printf 'sold: 41\\n' > report.txt; id -u; cat /etc/shadow"}},
                {"call": "edit_file", "with": {"path": "report.txt", "old": "41", "new": "42"}},
                {"call": "run", "with": {"command": f"echo {PICTURE} | base64 -d > chart.png"}},
                {"call": "read_file", "with": {"path": "chart.png"}},
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
    assert f'"media_type":"image/png","data":"{PICTURE}"'.encode() in endpoint.calls[-1].raw  # through the proxy, too


FETCH: dict[str, Any] = {
    "tools": True,
    "turns": [
        {
            "when": "manual",
            "do": [{"call": "run", "with": {"command": "curl -sSi https://files.example.com/"}}, {"say": "I asked"}],
        }
    ],
}


def settle_owner(db: Db) -> None:
    users.add(db, "fake:user/boss", "Ada", 1)
    users.add_role(db, "fake:user/boss", UserRole.OWNER, "", "test", 1)
    direct_rooms.add(db, "fake:user/boss", "fake", "fake:direct/boss", 1)


async def test_a_command_finds_the_way_out_and_a_host_that_it_may_not_reach_is_asked_about(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(FETCH) as endpoint,
        run_agent_gateway(AGENTS["openai"], tmp_path / "h", channel, endpoint) as gateway,
    ):
        await gateway.store.write(settle_owner)
        await channel.say("the manual, please")
        await channel.wait_for(lambda found: any("asks to reach a host" in each.message.text for each in found))
        await channel.wait_for(lambda found: any(each.message.text == "I asked" for each in found), PATIENCE)
        (asked,) = await gateway.store.read(waiting_requests.list_pending)
        assert "Asked by someone: “the manual, please”" in channel.texts("fake:direct/boss")[0]  # who caused it

    assert (asked.name, asked.folder, bool(asked.turn_id)) == ("files.example.com:443", "home", True)
    assert f"a person was asked ({asked.id})".encode() in endpoint.calls[-1].raw
    assert b"run is its shell" in endpoint.calls[0].raw


async def test_a_group_can_do_without_commands(tmp_path: Path) -> None:
    channel = FakeChannel()
    async with (
        ModelEndpoint(WORK) as endpoint,
        run_agent_gateway(AGENTS["anthropic"], tmp_path / "h", channel, endpoint, shell="off"),
    ):
        await channel.say("the report, please")
        await channel.wait_for(1, PATIENCE)
        assert b'"name":"write_file"' in endpoint.calls[0].raw
        assert b'"name":"run"' not in endpoint.calls[0].raw and b"run is its shell" not in endpoint.calls[0].raw

"""An agent asks for a host: one card in a chat, and the answer is a rule that its way out knows at once."""

from pathlib import Path

from gatepost.store.people import users
from gatepost.store.people.users import UserRole
from gatepost.store.port import Db
from gatepost.store.rights import egress, waiting_requests
from gatepost.store.rights.egress import EgressOutcome
from gatepost.store.sessions import groups, turns
from gatepost_testing.channel import FakeChannel
from gatepost_testing.gateway import open_room, reply_to_card, running_gateway, wait_until_settled
from gatepost_testing.provider import ScriptBuilder

ROOM, BOSS, DIRECT = "fake:room/1", "fake:user/boss", "fake:direct/boss"


def settle_people(db: Db, now: int) -> None:
    users.add(db, BOSS, "Ada", now)
    users.add_role(db, BOSS, UserRole.OWNER, "", "test", now)
    groups.update(db, "home", {"options": {"egress": "ask"}})


async def test_what_is_decided_about_a_host_is_told_to_the_agent_once(tmp_path: Path, channel: FakeChannel) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await gateway.store.write(settle_people, gateway.clock.now())
        await open_room(gateway, "fake", ROOM)
        script = ScriptBuilder().turn("fetch").call("network_request", host="files.example.com", why="for the manual")
        script = script.say("I asked").turn(kind="system").say("I was told").turn("hello").say("hi")
        script.write(gateway.home.group("home")).chmod(0o644)
        await channel.say("hello", address=DIRECT, sender=BOSS, direct=True)
        await channel.wait_for(lambda sent: any(each.address == DIRECT for each in sent))

        await channel.say("fetch", address=ROOM)
        await channel.wait_for(lambda sent: any("asks to reach a host" in each.message.text for each in sent))
        await wait_until_settled(gateway)
        (asked,) = await gateway.store.read(waiting_requests.list_pending)
        card = next(text for text in channel.texts(DIRECT) if asked.id in text)
        assert "- host: files.example.com" in card and "- why: for the manual" in card and "2. Always allow" in card

        await reply_to_card(gateway, channel, "2", sender=BOSS)
        await channel.wait_for(lambda sent: any("I was told" in each.message.text for each in sent))
        await wait_until_settled(gateway)
        assert [text for text in channel.texts(ROOM) if "I was told" in text] == ["I was told"]
        (rule,) = await gateway.store.read(egress.list_rules)
        assert (rule.folder, rule.host, rule.port, rule.created_by) == ("home", "files.example.com", 443, BOSS)


async def test_the_notice_of_a_failed_turn_names_the_host_that_it_was_refused(
    tmp_path: Path, channel: FakeChannel
) -> None:
    async with running_gateway(tmp_path / "h", {"fake": (channel.kind, channel)}) as gateway:
        await open_room(gateway, "fake", ROOM)
        script = ScriptBuilder().turn("fetch").say("I look").wait_for("go").error("the page could not be read")
        script.write(gateway.home.group("home")).chmod(0o644)

        def refuse(db: Db) -> None:
            """As the way out does, while the turn runs."""
            (turn,) = turns.list_open(db)
            for target in ("files.example.com:443", "-", "anthropic/claude-x"):
                now = gateway.clock.now()
                egress.record_attempt(db, "home", turn.session_id, target, EgressOutcome.DENIED, "no rule", now)

        await channel.say("fetch", address=ROOM)
        await channel.wait_for(1)
        await gateway.store.write(refuse)
        (gateway.home.group("home") / "go").touch()
        await channel.wait_for(2)
        said = channel.texts(ROOM)[-1]
        assert said.startswith("Sorry, I could not answer your message: the page could not be read.")
        assert said.endswith(
            "Meanwhile I was refused `files.example.com:443`. Whoever runs this gateway can allow that."
        )

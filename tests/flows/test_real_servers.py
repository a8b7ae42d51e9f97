"""Servers that people run themselves, real ones on loopback, each with a whole gateway and a scripted agent: a
conversation with a file, an edit and a reaction, an outage, an authority of one's own, and a wrong password."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.channels.contract import CHANNELS, ChannelState, EndReason
from gatepost.flow.channel_supervisor import make_folder
from gatepost.messages.outbound import Feature
from gatepost_testing.certificates import ThrowawayAuthority
from gatepost_testing.gateway import (
    open_room,
    running_gateway,
    start_channel,
    wait_for_channel,
    wait_until_settled,
)
from gatepost_testing.platforms.base import EmulatedPlatform, GivenFile, ShownMessage
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import until

pytestmark = pytest.mark.slow

# Its driver, and what tells whether the server is installed.
SERVERS = {
    "ejabberd": ("gatepost_testing.servers.ejabberd", "EjabberdPlatform", "find_libraries"),
    "InspIRCd": ("gatepost_testing.servers.inspircd", "InspircdPlatform", "find_inspircd"),
    "Postfix": ("gatepost_testing.servers.postfix", "PostfixPlatform", "find_postfix"),
    "Synapse": ("gatepost_testing.servers.synapse_platform", "SynapsePlatform", "is_installed"),
}
OUTAGE_S = 30.0
SAID_MEANWHILE = [f"meanwhile {number}" for number in range(1, 4)]
FILE = GivenFile("plan.txt", b"the plan of the day\n" * 5000, "text/plain")
REPORT = "all is well"


def script() -> ScriptBuilder:
    made = ScriptBuilder()
    made.turn("which one").call("reply", text="this one", replyToId="{seq}")
    made.turn(r"mend (\S+)").call("edit", targetId="{1}", content="it is mended").say("edit: {result}")
    made.turn("like this").call("like", targetId="{seq}", reaction="👍").say("like: {result}")
    made.turn("take this").say("got the file")
    made.turn("give me").write_file("report.txt", REPORT).call("send_file", filepath="report.txt", caption="here")
    made.turn("stay").say("I stay").wait_for("away").say("meanwhile 1").wait_for("later").say("meanwhile 2").say(
        "meanwhile 3"
    )
    return made.otherwise().say("echo: {text}")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> ThrowawayAuthority:
    folder = tmp_path_factory.mktemp("authority")
    folder.chmod(0o755)
    return ThrowawayAuthority(folder)


@pytest.fixture(params=list(SERVERS))
def platform(request: pytest.FixtureRequest, authority: ThrowawayAuthority) -> Iterator[EmulatedPlatform]:
    module, name, finder = SERVERS[request.param]
    loaded = import_module(module)
    if not getattr(loaded, finder)():
        pytest.skip(f"{request.param} is not installed: scripts/system_packages.py --all, as root")
    make: Callable[[ThrowawayAuthority], EmulatedPlatform] = getattr(loaded, name)
    with make(authority) as made:
        yield made


class Desk:
    """A gateway whose only channel is that of the platform. Everybody may write in `room`."""

    def __init__(self, gateway: Gateway, platform: EmulatedPlatform) -> None:
        self.gateway, self.platform, self.instance = gateway, platform, platform.kind
        self.room = "team" if platform.has_groups else "direct:ann"
        self.features = CHANNELS[platform.kind].features
        self.folder = gateway.home.groups / "home"

    async def start(self, secrets: Mapping[str, str] | None = None, **more: Any) -> None:
        """`secrets`, `more`: those that are not as they should be."""
        if self.platform.folder is not None and secrets is None:  # what was kept when the account was made: its keys
            kept = make_folder(self.gateway.home, self.instance)
            await asyncio.to_thread(shutil.copytree, self.platform.folder, kept, dirs_exist_ok=True)
        settings = {**self.platform.get_settings(), **more}
        given = {**self.platform.get_secrets(), **(secrets or {})}
        await open_room(self.gateway, self.instance, self.platform.get_address(self.room))
        await start_channel(self.gateway, self.instance, settings, given)

    async def say(self, text: str, **more: Any) -> str:
        return await asyncio.to_thread(lambda: self.platform.send(text, room=self.room, **more))

    async def wait_for(self, wanted: Callable[[ShownMessage], bool]) -> ShownMessage:
        """The newest message of the bot of which this holds, once there is one."""
        found: list[ShownMessage] = []

        def holds() -> bool:
            found[:] = [each for each in self.platform.list_shown(self.room) if wanted(each)]
            return bool(found)

        await self.platform.until(holds)
        return found[-1]

    async def wait_for_text(self, text: str) -> ShownMessage:
        return await self.wait_for(lambda each: text in each.text)

    def count(self, text: str) -> int:
        return sum(text == each.strip() for each in self.platform.texts(self.room))


@asynccontextmanager
async def open_desk(tmp_path: Path, platform: EmulatedPlatform) -> AsyncIterator[Desk]:
    async with running_gateway(tmp_path / "home", delivery__retry_cap_s=1.0) as gateway:
        desk = Desk(gateway, platform)
        script().write(desk.folder)
        yield desk


async def test_a_conversation_with_a_file_an_edit_and_a_reaction_under_an_authority_of_ones_own(
    tmp_path: Path, platform: EmulatedPlatform
) -> None:
    async with open_desk(tmp_path, platform) as desk:
        await desk.start()
        await wait_for_channel(desk.gateway, desk.instance, ChannelState.UP)

        await desk.say("good morning", mention=True)
        first = await desk.wait_for_text("good morning")
        asked = await desk.say("which one")
        answer = await desk.wait_for_text("this one")
        if Feature.REPLY in desk.features:
            assert answer.reply_to == asked
        if Feature.THREADS in desk.features:
            thread = first.thread or first.id
            await desk.say("a thread of its own", thread=thread)
            assert (await desk.wait_for_text("echo: a thread of its own")).thread == thread

        await desk.say("take this", files=[FILE] if Feature.FILES in desk.features else [])
        await desk.wait_for_text("got the file")
        if Feature.FILES in desk.features:
            kept = list(desk.gateway.home.path.rglob("plan.txt"))
            assert [each.read_bytes() for each in kept][:1] == [FILE.data], "the file did not come whole"
        await desk.say("give me")
        given = await desk.wait_for(lambda each: bool(each.files) or "report.txt" in each.text)
        assert Feature.FILES not in desk.features or given.files[0].data == REPORT.encode()

        await desk.say(f"mend {first.id}")
        mended = await desk.wait_for_text("edit: ")
        if Feature.EDIT in desk.features:
            await desk.wait_for(lambda each: each.id == first.id and each.text == "it is mended")
        else:
            assert f"unsupported: edit on {platform.kind}" in mended.text

        liked = await desk.say("like this")
        said = await desk.wait_for_text("like: ")
        if Feature.REACT in desk.features:
            await platform.until(lambda: platform.find(liked).reactions == [("👍", "bot")])
        else:
            assert f"unsupported: like on {platform.kind}" in said.text
        account = await wait_until_settled(desk.gateway)
        assert account.unaccounted == 0


async def test_an_outage_of_30_s_loses_nothing_and_says_nothing_twice(
    tmp_path: Path, platform: EmulatedPlatform
) -> None:
    async with open_desk(tmp_path, platform) as desk:
        await desk.start()
        await wait_for_channel(desk.gateway, desk.instance, ChannelState.UP)
        await desk.say("stay")
        await desk.wait_for_text("I stay")
        await until(lambda: desk.count("I stay") == 1, "the message before the outage")

        await asyncio.to_thread(platform.crash)
        begun = time.monotonic()
        (desk.folder / "away").touch()
        report = await wait_for_channel(desk.gateway, desk.instance, ChannelState.RETRYING)
        assert report.error
        (desk.folder / "later").touch()
        await asyncio.sleep(begun + OUTAGE_S - time.monotonic())
        await asyncio.to_thread(platform.come_back)

        await desk.wait_for_text(SAID_MEANWHILE[-1])
        await wait_for_channel(desk.gateway, desk.instance, ChannelState.UP)
        await desk.say("are you back")
        await desk.wait_for_text("echo: are you back")
        await wait_until_settled(desk.gateway)
        said = [each.strip() for each in platform.texts(desk.room)]
        assert said == ["I stay", *SAID_MEANWHILE, "echo: are you back"]


async def test_a_certificate_of_an_unknown_authority_ends_the_channel_with_what_to_do(
    tmp_path: Path, platform: EmulatedPlatform
) -> None:
    async with open_desk(tmp_path, platform) as desk:
        await desk.start(ca_file="")
        report = await wait_for_channel(desk.gateway, desk.instance, ChannelState.ENDED)
        assert report.reason is EndReason.SETTING
        assert (
            "the certificate of localhost is not valid" in report.error and "unable to get local issuer" in report.error
        )
        assert "ca_file" in report.remedy


async def test_a_wrong_password_ends_the_channel_with_what_to_do_and_is_not_tried_again(
    tmp_path: Path, platform: EmulatedPlatform
) -> None:
    async with open_desk(tmp_path, platform) as desk:
        await desk.start(dict.fromkeys(platform.get_secrets(), "another word"))
        report = await wait_for_channel(desk.gateway, desk.instance, ChannelState.ENDED)
        assert (report.reason, report.restarts, report.next_at) == (EndReason.TOKEN, 0, None)
        assert "another word" not in report.error
        assert "gatepost channel set" in report.remedy

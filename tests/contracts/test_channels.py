"""What every channel keeps to. Runs over every registered kind that needs no account, and over the double."""

import asyncio
import itertools
from functools import partial
from pathlib import Path

import pytest

from gatepost.channels.contract import CHANNELS, Channel, ChannelDeps, ChannelKind, SupportsLookup, SupportsTyping
from gatepost.channels.local_channel import LocalChannel
from gatepost.core import registry
from gatepost.core.clock import SystemClock
from gatepost.core.errors import GatepostError, Unsupported
from gatepost.core.settings import Config
from gatepost.flow.delivery.channel_sender import SOURCED
from gatepost.flow.delivery.content_fallback import degrade
from gatepost.messages import address
from gatepost.messages.card import Card, CardButton, render_text
from gatepost.messages.inbound import Inbound, Receipt
from gatepost.messages.outbound import NEEDS, TARGETED, Feature, Op, Outbound, OutboundFile, PromptButton
from gatepost_testing.channel import EVERYTHING, FakeChannel
from gatepost_testing.waiting import PATIENCE_S

registry.load_package("gatepost.channels")
WITH_CARDS = EVERYTHING | {Feature.CARDS}
KINDS = {
    **{kind.name: kind for _, kind in CHANNELS.items() if kind.always},
    "fake": ChannelKind(name="fake", make=FakeChannel, features=FakeChannel().features),
    "fake-with-cards": ChannelKind(name="fake", make=partial(FakeChannel, features=WITH_CARDS), features=WITH_CARDS),
}


@pytest.fixture(params=sorted(KINDS))
def kind(request: pytest.FixtureRequest) -> ChannelKind:
    return KINDS[request.param]


@pytest.fixture
async def channel(kind: ChannelKind) -> Channel:
    return kind.make(ChannelDeps(instance=kind.name, config=Config(), clock=SystemClock()))


def room(kind: ChannelKind) -> str:
    return f"{kind.name}:contract"


def message(key: str, kind: ChannelKind, **more: str) -> Outbound:
    result = degrade(Outbound(key=key, text="**hello**", **more), kind.features, kind.name)
    assert result is not None
    return result


def test_its_name_is_a_platform(kind: ChannelKind) -> None:
    assert address.parse(room(kind)).platform == kind.name
    assert kind.max_text >= 0


def read_table(head: str) -> dict[str, set[str]]:
    """Return what `docs/channels.md` tells of each channel: the rows with a tick, of the table that begins with this
    word."""
    page = (Path(__file__).parents[2] / "docs" / "channels.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    (start,) = [number for number, row in enumerate(rows) if row[0] == head]
    columns = {place: name for place, name in enumerate(rows[start]) if name in CHANNELS}
    ticked = itertools.takewhile(lambda row: row[0].startswith("`"), rows[start + 2 :])
    told: dict[str, set[str]] = {name: set() for name in columns.values()}
    for row in ticked:
        for place, name in columns.items():
            if row[place] == "✔":
                told[name].add(row[0].strip("`").lower())
    return told


def test_the_page_tells_what_each_channel_can_do() -> None:
    """Channels that other tests have registered are not in the page."""
    ours = {name: kind for name, kind in CHANNELS.items() if CHANNELS.origin(name).startswith("gatepost.channels")}
    features, verbs = read_table("feature"), read_table("received")
    assert {name: features[name] for name in ours} == {name: set(kind.features) for name, kind in ours.items()}
    others = {name: kind for name, kind in ours.items() if not kind.always}
    assert {name: verbs[name] for name in others} == {name: set(kind.verbs) for name, kind in others.items()}


@pytest.mark.parametrize("name", sorted(name for name, kind in CHANNELS.items() if not kind.always))
def test_a_channel_of_a_platform_says_what_people_and_the_gateway_need(name: str) -> None:
    kind = CHANNELS[name]
    assert kind.title and kind.tested_against
    assert all(each in kind.settings for each in kind.guide.ask)
    assert all(each.name.startswith(f"channels.{name}.") for each in kind.settings)
    if kind.max_text:
        assert kind.max_text >= 64  # below that no code block can be split


async def test_what_it_declares_it_has_and_what_it_has_it_declares(kind: ChannelKind, channel: Channel) -> None:
    assert isinstance(channel, SupportsTyping) == (Feature.TYPING in kind.features)
    assert isinstance(channel, SupportsLookup) == (Feature.LOOKUP in kind.features)


async def test_a_message_gets_an_id_of_its_own(kind: ChannelKind, channel: Channel) -> None:
    first = await channel.send(room(kind), message("k1", kind))
    second = await channel.send(room(kind), message("k2", kind))

    assert first and second and first != second


async def test_one_key_sent_twice_is_one_effect_where_it_says_so(kind: ChannelKind, channel: Channel) -> None:
    if Feature.KEYED not in kind.features:
        pytest.skip(f"{kind.name} does not deduplicate")

    first = await channel.send(room(kind), message("k", kind))

    assert await channel.send(room(kind), message("k", kind)) == first


async def test_what_was_sent_is_found_by_its_key(kind: ChannelKind, channel: Channel) -> None:
    if not isinstance(channel, SupportsLookup):
        pytest.skip(f"{kind.name} cannot be asked")

    platform_id = await channel.send(room(kind), message("k", kind))

    assert await channel.look_up(room(kind), "k") == platform_id


async def test_every_verb_that_it_declares_works(kind: ChannelKind, channel: Channel) -> None:
    target = await channel.send(room(kind), message("k", kind))
    for op in sorted(op for op, feature in NEEDS.items() if feature in kind.features):
        asked = Outbound(
            key=f"k/{op}",
            op=op,
            text="new",
            target=target if op in TARGETED else "",
            source=room(kind) if op in SOURCED else "",
            reaction="👍" if op is Op.REACT else "",
            prompts=(PromptButton("more", "tell me more"),) if op is Op.PROMPTS else (),
        )
        assert await channel.send(room(kind), asked), op


async def test_spoken_words_are_taken_as_the_channel_can_show_them(
    kind: ChannelKind, channel: Channel, tmp_path: Path
) -> None:
    if isinstance(channel, LocalChannel):
        channel.set_file_folder(tmp_path / "shelf")
    (tmp_path / "0").write_bytes(b"OggS")
    file = OutboundFile(name="voice.ogg", mime="audio/ogg", path=str(tmp_path / "0"), size=4)
    said = Outbound(key="k", op=Op.VOICE, text="hello", files=(file,))

    if kind.features & {Feature.VOICE, Feature.FILES}:
        shown = degrade(said, kind.features, kind.name)
        assert shown is not None and shown.files
        assert await channel.send(room(kind), shown)
    else:
        with pytest.raises(Unsupported, match="use send"):
            degrade(said, kind.features, kind.name)


async def test_a_channel_that_declares_cards_gets_one_and_another_gets_numbered_text(
    kind: ChannelKind, channel: Channel
) -> None:
    asked = Card(title="Home asks", buttons=(CardButton("t:0", "Allow once"), CardButton("t:1", "Deny")))
    shown = degrade(Outbound(key="k", op=Op.CARD, text=render_text(asked), card=asked), kind.features, kind.name)
    assert shown is not None
    if Feature.CARDS in kind.features:
        assert (shown.op, shown.card) == (Op.CARD, asked)
    else:
        assert (shown.op, shown.card) == (Op.SEND, None)
    assert "1. Allow once" in shown.text and "2. Deny" in shown.text

    target = await channel.send(room(kind), shown)
    assert target
    if Feature.EDIT in kind.features:
        done = Card(title="Home asks", done="Allowed by Ada.")
        said = Outbound(key="k2", op=Op.EDIT, text=render_text(done), card=done, target=target)
        decided = degrade(said, kind.features, kind.name)
        assert decided is not None and "Allowed by Ada." in decided.text
        assert decided.card == (done if Feature.CARDS in kind.features else None)
        assert await channel.send(room(kind), decided)


async def test_typing_in_a_room_that_nobody_watches_is_harmless(kind: ChannelKind, channel: Channel) -> None:
    if isinstance(channel, SupportsTyping):
        await channel.typing(room(kind), "", True)
        await channel.typing(room(kind), "", False)


async def test_it_listens_until_it_is_cancelled_and_then_ends(kind: ChannelKind, channel: Channel) -> None:
    async def receive(inbound: Inbound) -> Receipt:
        raise GatepostError("nobody writes here")

    task = asyncio.create_task(channel.listen(receive))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()

    task.cancel()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()

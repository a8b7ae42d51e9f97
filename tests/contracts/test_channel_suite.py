"""The suite: the documented toy passes it, and each of its checks fails for a channel that breaks what it checks."""

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gatepost.channels.contract import CHANNELS, BotIdentity, ChannelDeps, ChannelKind, Receive
from gatepost.core import registry
from gatepost.core.errors import NotFound, Unavailable
from gatepost.core.records import replace
from gatepost.core.settings import SETTINGS
from gatepost.messages.inbound import Inbound, Receipt, Verb
from gatepost.messages.outbound import Feature, Op, Outbound
from gatepost_testing.channel_suite import (
    GradeState,
    list_checks,
    list_failures,
    render_notes,
    render_table,
    run_suite,
)
from gatepost_testing.emulation import make_platform
from gatepost_testing.platforms.base import NotOffered, PlatformFault
from gatepost_testing.platforms.toy import ToyPlatform

EXAMPLE = Path(__file__).parents[2] / "docs" / "extend" / "examples" / "toy.py"
LONGEST_EXAMPLE = 150
NOT_OF_TOY = {
    "voice", "pins", "all pins removed", "posts", "passing on", "panes", "history", "subscribing", "pings nobody",
}  # fmt: skip
QUICK_S = 1.0  # a broken channel is waited for so long, and the check then fails


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[ModuleType]:
    """The documented file, exactly as it is printed, in a plug-in folder."""
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "toy.py").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")
    (module,) = registry.load_folder(plugins, "channels")
    names = [setting.name for setting in CHANNELS["toy"].settings]
    yield module
    CHANNELS.drop("toy")
    for name in names:
        SETTINGS.drop(name)


def register(**changes: Any) -> None:
    """Replace what is registered."""
    kind: ChannelKind = CHANNELS["toy"]
    CHANNELS.drop("toy")
    CHANNELS.add("toy", replace(kind, **changes), origin="a test")


async def find_failures(*only: str) -> dict[str, str]:
    grades = await run_suite(ToyPlatform, only=only, patience=QUICK_S)
    return {each.check: each.why for each in grades if each.state is GradeState.FAIL}


def test_the_documented_toy_is_short() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= LONGEST_EXAMPLE


async def test_the_documented_toy_passes_the_suite(toy: ModuleType) -> None:
    grades = await run_suite(ToyPlatform)
    assert list_failures(grades) == []
    assert {each.check for each in grades if each.state is GradeState.NOT_OFFERED} == NOT_OF_TOY
    assert [each.check for each in grades if each.state is GradeState.NOT_TRIED] == []
    assert len(grades) == len(list_checks()) > 50


def test_every_check_has_a_sentence_and_a_name_of_its_own() -> None:
    checks = list_checks()
    assert all((inspect.getdoc(check) or "").endswith(".") for _, _, check in checks)
    assert len({name for _, name, _ in checks}) == len(checks)


async def test_a_check_that_is_not_there_is_named(toy: ModuleType) -> None:
    with pytest.raises(NotFound, match="telepathy"):
        await run_suite(ToyPlatform, only=["telepathy"])


@pytest.mark.parametrize(
    ("feature", "check"),
    [
        (Feature.EDIT, "edits out"),
        pytest.param(Feature.DELETE, "deletes out", marks=pytest.mark.slow),
        pytest.param(Feature.REACT, "reactions out", marks=pytest.mark.slow),
        pytest.param(Feature.REPLY, "replies out", marks=pytest.mark.slow),
        pytest.param(Feature.THREADS, "threads out", marks=pytest.mark.slow),
        (Feature.TYPING, "typing"),
        pytest.param(Feature.DIRECT, "direct rooms", marks=pytest.mark.slow),
    ],
)
async def test_a_feature_that_works_and_is_not_declared_fails(toy: ModuleType, feature: Feature, check: str) -> None:
    register(features=CHANNELS["toy"].features - {feature})
    assert list(await find_failures(check)) == [check]


@pytest.mark.parametrize(
    ("feature", "check"),
    [
        (Feature.PIN, "pins"),
        pytest.param(Feature.UNPIN_ALL, "all pins removed", marks=pytest.mark.slow),
        pytest.param(Feature.VOICE, "voice", marks=pytest.mark.slow),
        pytest.param(Feature.HISTORY, "history", marks=pytest.mark.slow),
        pytest.param(Feature.SUBSCRIBE, "subscribing", marks=pytest.mark.slow),
        (Feature.LOOKUP, "one key twice"),
        (Feature.MARKDOWN, "marked text"),
        pytest.param(Feature.FORWARD, "passing on", marks=pytest.mark.slow),
        pytest.param(Feature.POST, "posts", marks=pytest.mark.slow),
    ],
)
async def test_a_feature_that_is_declared_and_does_not_work_fails(
    toy: ModuleType, feature: Feature, check: str
) -> None:
    if feature in (Feature.POST, Feature.FORWARD):

        class Silent(toy.Toy):  # type: ignore[name-defined, misc]
            async def send(self, address: str, message: Outbound) -> str:
                if message.op in (Op.POST, Op.FORWARD):
                    return "nothing"
                return str(await super().send(address, message))

        register(make=Silent)
    register(features=CHANNELS["toy"].features | {feature})
    assert list(await find_failures(check)) == [check]


@pytest.mark.parametrize(
    ("verb", "check"),
    [
        (Verb.EDIT, "edits in"),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in ((Verb.JOIN, "joins"), (Verb.LIKE, "reactions in"))),
    ],
)
async def test_an_event_that_is_received_and_not_declared_fails(toy: ModuleType, verb: Verb, check: str) -> None:
    register(verbs=CHANNELS["toy"].verbs - {verb})
    assert "not declared" in (await find_failures(check))[check]


class Changed:
    """A receive of the test's own between the channel and the suite."""

    def __init__(self, receive: Receive) -> None:
        self._receive, self.seen = receive, 0

    async def lose_on_failure(self, inbound: Inbound) -> Receipt:
        try:
            return await self._receive(inbound)
        except Unavailable:
            return Receipt(message_id=0, new=True, state="queued")

    async def own_as_others(self, inbound: Inbound) -> Receipt:
        return await self._receive(replace(inbound, own=False))

    async def new_names(self, inbound: Inbound) -> Receipt:
        self.seen += 1
        return await self._receive(replace(inbound, platform_id=f"{inbound.platform_id}-{self.seen}"))

    async def without_words(self, inbound: Inbound) -> Receipt:
        return await self._receive(
            replace(inbound, verb=Verb.MESSAGE, thread="", reply_to=None, event="message", attachments=(), click="")
        )

    async def some_late(self, inbound: Inbound) -> Receipt:
        """Some messages are overtaken by the next of their room."""
        self.seen += 1
        if self.seen % 3 == 0:
            asyncio.get_running_loop().call_later(0.05, lambda: asyncio.ensure_future(self._receive(inbound)))
            return Receipt(message_id=0, new=True, state="queued")
        return await self._receive(inbound)


@pytest.mark.parametrize(
    ("change", "checks"),
    [
        ("lose_on_failure", ("kept until durable", "cursor")),
        ("own_as_others", ("own words",)),
        ("new_names", ("a message", "duplicate events", "lost acknowledgement", "edits in", "deletes in")),
        ("without_words", ("deletes in", "joins", "mentions", "replies in", "threads in", "files in", "cards")),
        ("some_late", ("order in a room",)),
    ],
)
async def test_a_channel_that_receives_badly_fails(toy: ModuleType, change: str, checks: tuple[str, ...]) -> None:
    class Careless(toy.Toy):  # type: ignore[name-defined, misc]
        async def listen(self, receive: Receive) -> None:
            await super().listen(getattr(Changed(receive), change))

    register(make=Careless)
    assert set(await find_failures(*checks)) == set(checks)


async def test_a_channel_that_sends_badly_fails(toy: ModuleType) -> None:
    class Hasty(toy.Toy):  # type: ignore[name-defined, misc]
        """Every send has a key of its own, nothing waits, and every error is an invitation to try again."""

        sent = 0

        async def send(self, address: str, message: Outbound) -> str:
            self.sent += 1
            try:
                return str(await super().send(address, replace(message, key=f"{message.key}/{self.sent}", card=None)))
            except Exception as error:
                if isinstance(error, Unavailable) and error.uncertain:
                    return str(await super().send(address, message))
                raise Unavailable("Toy", "again", retry_after=0) from error

    register(make=Hasty)
    checks = ("rate limit", "lost answer", "one key twice", "forbidden", "token revoked while sending", "cards")
    assert set(await find_failures(*checks)) == set(checks)


@pytest.mark.slow
@pytest.mark.parametrize(
    "checks",
    [
        ("held connection", "revoked token", "identity", "wrong token", "no network", "closing"),
        pytest.param(("second poller",), marks=pytest.mark.slow),  # has the threefold patience
    ],
)
async def test_a_channel_that_lives_badly_fails(toy: ModuleType, checks: tuple[str, ...]) -> None:
    class Stubborn(toy.Toy):  # type: ignore[name-defined, misc]
        """It beats by a clock, never ends, saves nothing, closes nothing and knows no token."""

        def __init__(self, deps: ChannelDeps) -> None:
            super().__init__(deps)
            self._beating: asyncio.Task[None] | None = None

        async def listen(self, receive: Receive) -> None:
            self._beating = asyncio.create_task(self._beat())
            while True:
                try:
                    await super().listen(receive)
                except Exception:  # noqa: BLE001
                    await asyncio.sleep(0.05)

        async def _beat(self) -> None:
            while True:
                self._deps.beat()
                await asyncio.sleep(0.05)

        async def check(self) -> BotIdentity:
            return BotIdentity(name="")

        async def close(self) -> None:
            pass

    register(make=Stubborn)
    assert set(await find_failures(*checks)) == set(checks)


async def test_a_channel_that_does_not_keep_to_limits_fails(toy: ModuleType) -> None:
    register(max_text=2000, largest_file=2_000_000, deaf_after_s=0.0)
    checks = ("long texts", "large files out", "beats", "held connection")
    assert set(await find_failures(*checks)) == set(checks)


LOUD = {  # by kind: what keeps its words from waking people
    "mattermost": "gatepost.channels.mattermost.posting.render_within",
    "zulip": "gatepost.channels.zulip.posting.render_within",
    "github": "gatepost.channels.github.adapter.render",
    "mastodon": "gatepost.channels.mastodon.wire.render",
    "slack": "gatepost.channels.slack.render.render",
    "telegram": "gatepost.channels.telegram.render.render",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [pytest.param(each, marks=[pytest.mark.slow] * (each != "mattermost")) for each in LOUD]
)
async def test_a_channel_that_lets_a_ping_through_fails(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.load_package("gatepost.channels")
    monkeypatch.setattr(LOUD[kind], lambda text, *_: text)
    (grade,) = await run_suite(lambda: make_platform(kind), only=["pings nobody"])
    assert grade.state is GradeState.FAIL and "wakes" in grade.why


@pytest.mark.slow
async def test_a_channel_that_asks_discord_to_wake_people_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.load_package("gatepost.channels")
    monkeypatch.setattr("gatepost.channels.discord.render.render", lambda text, dialect: text)
    monkeypatch.setattr("gatepost.channels.discord.render.NOBODY", {"parse": ["everyone"]})
    (grade,) = await run_suite(lambda: make_platform("discord"), only=["pings nobody"])
    assert grade.why == "a text wakes @everyone, @here"


async def test_a_send_that_can_only_be_labelled_is_no_plain_pass(toy: ModuleType) -> None:
    class Unsure(toy.Toy):  # type: ignore[name-defined, misc]
        """It does not know what a broken answer means."""

        async def send(self, address: str, message: Outbound) -> str:
            try:
                return str(await super().send(address, message))
            except Unavailable as error:
                raise Unavailable("Toy", "no answer", uncertain=True) from error

    register(make=Unsure, features=CHANNELS["toy"].features - {Feature.KEYED})
    grades = await run_suite(ToyPlatform, only=["busy platform", "lost answer"])
    assert [each.state for each in grades] == [GradeState.UNCERTAIN] * 2
    assert "labelled uncertain" in render_notes({"toy": grades})[0]


@pytest.mark.slow
async def test_a_hook_that_goes_on_beating_in_silence_is_not_tried() -> None:
    registry.load_package("gatepost.channels")
    (grade,) = await run_suite(lambda: make_platform("whatsapp"), only=["held connection"])
    assert grade.state is GradeState.NOT_TRIED and "hook" in grade.why


@pytest.mark.slow
async def test_a_channel_that_lets_a_mention_through_to_bluesky_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.load_package("gatepost.channels")
    mention = {"$type": "app.bsky.richtext.facet#mention", "did": "did:plc:bob"}
    facet = {"index": {"byteStart": 0, "byteEnd": 4}, "features": [mention]}
    monkeypatch.setattr("gatepost.channels.bluesky.wire.render_facets", lambda text: [facet])
    (grade,) = await run_suite(lambda: make_platform("bluesky"), only=["pings nobody"])
    assert grade.why == "a text wakes did:plc:bob"


async def test_what_a_pass_leaves_out_is_told(toy: ModuleType) -> None:
    class Quiet(ToyPlatform):
        only_mentions = True

    grades = await run_suite(Quiet, only=["mentions"])
    assert [each.state for each in grades] == [GradeState.PASS]
    assert render_notes({"toy": grades}) == [f"✔ mentions (toy): {grades[0].why}"]


async def test_what_a_platform_cannot_bring_about_is_not_tried(toy: ModuleType) -> None:
    class Bare(ToyPlatform):
        """As a real server, which can neither be made to fail nor shows everything."""

        def fault(self, *faults: PlatformFault) -> None:
            raise NotOffered

        def edit(self, room: str, message: str, text: str, *, sender: str = "ann") -> str:
            raise NotOffered

        def get_typing(self) -> list[str]:
            raise NotOffered

    checks = ("rate limit", "dropped connections", "second poller", "edits in", "typing")
    grades = await run_suite(Bare, only=checks)
    assert {each.state for each in grades} == {GradeState.NOT_TRIED}
    assert len(render_notes({"toy": grades})) == len(checks)


async def test_a_fault_that_a_platform_does_not_know_is_not_tried(toy: ModuleType) -> None:
    class Deaf(ToyPlatform):
        def claim_fault(self, *kinds: PlatformFault) -> PlatformFault | None:
            return None

    grades = await run_suite(Deaf, only=["rate limit", "duplicate events", "busy platform"])
    assert {each.state for each in grades} == {GradeState.NOT_TRIED}


async def test_the_table_has_a_row_for_each_check_and_a_mark_for_each_channel(toy: ModuleType) -> None:
    grades = await run_suite(ToyPlatform, only=["text", "posts"])
    assert render_table({"toy": grades}).splitlines() == [
        "| check | toy |",
        "|---|---|",
        "| text | ✔ |",
        "| posts | – |",
    ]

"""Each fault of a platform, with a kill -9 of the gateway in the middle of it. Judged by the platform's own record:
nothing lost, nothing said twice, or labelled `uncertain`."""

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatepost_testing.platforms.base import EmulatedPlatform, NotOffered, PlatformFault
from gatepost_testing.provider import ScriptBuilder
from gatepost_testing.waiting import PATIENCE_S, block_until

from .channel_desk import ChannelDesk

EMULATORS = {
    "telegram": "TelegramPlatform",
    "discord": "DiscordPlatform",
    "slack": "SlackPlatform",
    "whatsapp": "WhatsAppPlatform",
    "signal": "SignalPlatform",
    "mastodon": "MastodonPlatform",
    "bluesky": "BlueskyPlatform",
    "github": "GitHubPlatform",
    "mattermost": "MattermostPlatform",
    "zulip": "ZulipPlatform",
}
ROUNDS = (
    PlatformFault.NO_ANSWER,
    PlatformFault.BUSY,
    PlatformFault.RATE_LIMIT,
    PlatformFault.DROPPED,
    PlatformFault.DUPLICATE,
    PlatformFault.REORDER,
    PlatformFault.FORGOTTEN,
    PlatformFault.HELD_POLL,
)
OF_A_ROUND = 4


def load_platform(name: str) -> Callable[[], EmulatedPlatform]:
    made: Callable[[], EmulatedPlatform] = getattr(
        importlib.import_module(f"gatepost_testing.platforms.{name}"), EMULATORS[name]
    )
    return made


@pytest.fixture(params=list(EMULATORS))
def platform(request: pytest.FixtureRequest) -> Iterator[EmulatedPlatform]:
    with load_platform(request.param)() as made:
        yield made


def count_answers(platform: EmulatedPlatform) -> Counter[str]:
    """How often each message was answered, by what people have ever seen."""
    with platform.changed:
        shown = [each.text for each in platform.record if each.sender == "bot"]
    return Counter(found[1] for text in shown if (found := re.search(r"echo: (\w+)", text)))


@pytest.mark.slow
def test_every_fault_with_a_kill_in_the_middle(
    platform: EmulatedPlatform, tmp_path: Path, figures: Callable[[str], None]
) -> None:
    room = "team" if platform.has_groups else "direct:ann"
    sent: list[str] = []
    made = 0
    with ChannelDesk(tmp_path, platform, ScriptBuilder().otherwise().say("echo: {text}")) as desk:
        for fault in ROUNDS:
            before = sum(count_answers(platform).values())
            try:
                platform.fault(fault)
            except NotOffered:
                continue  # it cannot happen on this platform
            made += 1
            for number in range(OF_A_ROUND):
                sent.append(f"{fault.replace('_', '')}{number}")
                platform.send(sent[-1], room=room)
            platform.wait_for(lambda before=before: sum(count_answers(platform).values()) > before, 2.0)
            desk.daemon.kill()
            platform.heal()
            desk.daemon.start()

        def is_over() -> bool:
            settled = int(desk.daemon.json("ledger", "check")["in_flight"]) == 0
            unsure = len(desk.daemon.json("ledger", "list", "--state", "uncertain", "--limit", "1000"))
            return settled and len(count_answers(platform)) + unsure >= len(sent)

        try:
            block_until(is_over, "every message to be answered or given up", 5 * PATIENCE_S)
        except AssertionError:
            missing = [each for each in sent if not count_answers(platform)[each]]
            raise AssertionError(f"never answered: {missing}; {desk.run('ledger', 'list')[-3000:]}") from None
        uncertain = " ".join(
            str(row.get("text", ""))
            for row in desk.daemon.json("ledger", "list", "--state", "uncertain", "--limit", "1000")
        )
        answers = count_answers(platform)
    lost = [each for each in sent if not answers[each] and each not in uncertain]
    doubled = {each: times for each, times in answers.items() if times > 1}
    unsure = [each for each in sent if each in uncertain]
    counts = f"{len(lost)} lost, {len(doubled)} doubled, {len(unsure)} uncertain"
    figures(f"{platform.kind}: {len(sent)} messages, {made} faults with a kill: {counts}")
    assert (lost, doubled) == ([], {})

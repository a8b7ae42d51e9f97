"""Sends that go wrong, through the real delivery: nothing lost, nothing twice, or labelled uncertain.

The channel listens meanwhile, as it does in a gateway: some platforms report there what became of a message.
"""

import asyncio
import time

from gatepost.channels.contract import ChannelEnded, EndReason, SupportsLookup
from gatepost.core.errors import GatepostError
from gatepost.messages.outbound import Feature
from gatepost.store.messages.outbox import EffectState
from gatepost_testing.channel_suite.trial import ChannelTrial
from gatepost_testing.grading import CheckImpossible, FeatureMissing, OutcomeUnknown
from gatepost_testing.platforms.base import PlatformFault

WORDS = "said exactly once"
UNKNOWN = "there is neither a key nor a way to look it up, so the message is labelled uncertain"
WAIT_S = 1.0  # that the platform asks for; some count whole seconds


async def check_rate_limit(trial: ChannelTrial) -> None:
    """A send that is told to wait is made again once the time is over, and appears once."""
    await trial.start()
    trial.platform.retry_after = WAIT_S
    trial.fault(PlatformFault.RATE_LIMIT)
    delivering = asyncio.create_task(trial.deliver(WORDS))
    await trial.until(lambda: trial.is_used or delivering.done(), "the refusal")
    began = time.monotonic()
    effect = await delivering
    trial.require_used()
    assert effect.state is EffectState.SENT, f"it is {effect.state}: {effect.reason}"
    assert trial.count_shown(WORDS) == 1, f"it is there {trial.count_shown(WORDS)} times"
    assert time.monotonic() - began >= 0.9 * WAIT_S, "the platform's wish to wait was not honoured"


async def check_busy_platform(trial: ChannelTrial) -> None:
    """A send that a busy platform refuses is made again, or is labelled uncertain where nobody can know."""
    await trial.start()
    trial.fault(PlatformFault.BUSY)
    effect = await trial.deliver(WORDS)
    trial.require_used()
    count = trial.count_shown(WORDS)
    known = trial.kind.features & {Feature.KEYED, Feature.LOOKUP}
    if effect.state is EffectState.UNCERTAIN and not known:
        assert count == 0, f"it is uncertain, and there {count} times"
        raise OutcomeUnknown(UNKNOWN)
    assert effect.state is EffectState.SENT, f"it is {effect.state}: {effect.reason}"
    assert count == 1, f"it is there {count} times"


async def check_lost_answer(trial: ChannelTrial) -> None:
    """A send whose answer is lost appears once: found again, made one by its key, or labelled uncertain."""
    await trial.start()
    trial.fault(PlatformFault.NO_ANSWER)
    effect = await trial.deliver(WORDS)
    trial.require_used()
    assert trial.count_shown(WORDS) == 1, f"it is there {trial.count_shown(WORDS)} times"
    if effect.state is EffectState.UNCERTAIN and not trial.kind.features & {Feature.KEYED, Feature.LOOKUP}:
        raise OutcomeUnknown(UNKNOWN)
    assert effect.state is EffectState.SENT, f"it is {effect.state}: {effect.reason}"


async def check_one_key_twice(trial: ChannelTrial) -> None:
    """A key that is sent twice is one message, or is found again."""
    message = trial.make_message(text=WORDS)
    if not trial.kind.features & {Feature.KEYED, Feature.LOOKUP}:
        assert not isinstance(trial.channel, SupportsLookup), "there is a method look_up, and it is not declared"
        raise FeatureMissing("what may have arrived is labelled uncertain")
    await trial.start()
    if trial.has(Feature.LOOKUP):
        assert await find_sent(trial, message.key) is None, "it is found before it is sent"
    first = await trial.channel.send(trial.address, message)
    if trial.has(Feature.LOOKUP):
        ends = time.monotonic() + trial.patience
        found = await find_sent(trial, message.key)
        while found is None and time.monotonic() < ends:
            await asyncio.sleep(0.02)  # some platforms report a while later
            found = await find_sent(trial, message.key)
        assert found == first, f"what was sent as {first} is found as {found}"
    if trial.has(Feature.KEYED):
        second = await trial.channel.send(trial.address, message)
        assert second == first and trial.count_shown(WORDS) == 1, "KEYED is declared, and it is there twice"


async def find_sent(trial: ChannelTrial, key: str) -> str | None:
    """The id, or None if it is not there or cannot be known yet."""
    assert isinstance(trial.channel, SupportsLookup), "LOOKUP is declared, and there is no method look_up"
    try:
        return await trial.channel.look_up(trial.address, key)
    except GatepostError:
        return None


async def check_forbidden(trial: ChannelTrial) -> None:
    """A send that the platform forbids fails at once, with words that say why."""
    await trial.start()
    trial.fault(PlatformFault.FORBIDDEN)
    effect = await trial.deliver(WORDS)
    trial.require_used()
    assert effect.state is EffectState.FAILED, f"it is {effect.state}: {effect.reason}"
    assert len(effect.reason) > 10 and "\n" not in effect.reason, f"the reason is {effect.reason!r}"
    assert trial.count_shown(WORDS) == 0


async def check_token_revoked_while_sending(trial: ChannelTrial) -> None:
    """A send with a token that is no longer valid says so, by name and with a way out."""
    if not trial.platform.get_secrets():
        raise FeatureMissing("there is no token")
    trial.fault(PlatformFault.UNAUTHORIZED)
    try:
        await trial.channel.send(trial.address, trial.make_message(text=WORDS))
    except ChannelEnded as ended:
        assert ended.reason is EndReason.TOKEN, f"the reason is {ended.reason}"
        assert ended.remedy and "\n" not in str(ended)
        return
    if trial.count_shown(WORDS):
        raise CheckImpossible("this platform lets a revoked token send")
    raise AssertionError("the send neither arrived nor failed")


async def check_order_of_sends(trial: ChannelTrial) -> None:
    """Several messages to one room appear in their order, also if one of them has to wait."""
    await trial.start()
    async with trial.delivery() as outbox:
        trial.fault(PlatformFault.RATE_LIMIT)
        for number in range(3):
            await outbox.send(f"suite/{number}", trial.address, f"part {number}")
        effects = [await outbox.wait_for(f"suite/{number}") for number in range(3)]
    trial.platform.heal()
    assert [effect.state for effect in effects] == [EffectState.SENT] * 3, (
        f"they are {[effect.state for effect in effects]}"
    )
    texts = [text for text in trial.platform.texts(trial.room) if "part" in text]
    assert [text.split()[-1] for text in texts] == ["0", "1", "2"], f"they appear as {texts}"

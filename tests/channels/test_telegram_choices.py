"""What one person checks, another signs."""

import asyncio

from gatepost.messages.card import Card, CardButton
from gatepost.messages.outbound import Op, Outbound
from gatepost_testing.platforms.telegram import TelegramPlatform
from gatepost_testing.platforms.wiring import listening, make_channel

SOON_S = 10.0


async def test_the_boxes_that_a_stranger_checked_are_not_the_answer_of_who_presses_done() -> None:
    """The message keeps what is checked, for everybody in the group. Whoever may not answer a card can still turn each
    box of it, a moment before the owner presses Done."""
    with TelegramPlatform() as platform:
        assert isinstance(platform, TelegramPlatform)
        channel, _ = make_channel(platform)
        buttons = (CardButton(id="t:0", label="Read"), CardButton(id="t:1", label="Delete"))
        card = Card(title="What may it do?", text="", buttons=buttons, many=True)
        ident = await channel.send(platform.get_address("team"), Outbound(key="k", op=Op.CARD, text="", card=card))
        async with asyncio.timeout(SOON_S), listening(channel) as received:
            platform.click("team", ident, "☐ Read", sender="ann")
            await platform.until(lambda: "☑ Read" in platform.find(ident).buttons)
            platform.click("team", ident, "☐ Delete", sender="eve")
            await platform.until(lambda: platform.answered and len(platform.answered) > 1)
            platform.click("team", ident, "Done", sender="ann")
            (event,) = await received.wait_for(lambda events: any(each.click for each in events))
    assert event.sender == platform.get_sender("ann")
    assert "t:1" not in event.click and "," not in event.click

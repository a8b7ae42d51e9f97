"""Listening: keeps a channel's `listen` running. One of the three loops that must not die."""

import asyncio
from functools import partial

from gatepost.channels.contract import Channel
from gatepost.core import log
from gatepost.flow.intake.intake import Intake

LONGEST_WAIT_S = 60.0

_log = log.get("listening")


async def run_channel(instance: str, channel: Channel, intake: Intake) -> None:
    """Until cancelled. A channel that breaks is started again, later each time; one that returns is done."""
    receive = partial(intake.receive, instance)
    wait = 1.0
    while True:
        started = asyncio.get_running_loop().time()
        try:
            await channel.listen(receive)
            return
        except Exception as error:  # noqa: BLE001  whatever a platform's library raises, the others go on
            _log.error("a channel broke and is started again", channel=instance, error=repr(error))
        if asyncio.get_running_loop().time() - started > LONGEST_WAIT_S:
            wait = 1.0
        await asyncio.sleep(wait)
        wait = min(wait * 2, LONGEST_WAIT_S)

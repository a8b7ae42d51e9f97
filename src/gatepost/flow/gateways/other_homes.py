"""The homes of other gateways on the same store, where files of a person may lie: attachments, logs, and what providers
remember. Each gateway erases its own, because only it can see them."""

import asyncio

from gatepost.core.errors import Unavailable
from gatepost.flow.gateways.commands import Answer, GatewayCommands
from gatepost.store.gateways import gateways
from gatepost.store.gateways.commands import CommandKind
from gatepost.store.gateways.gateway_checks import is_living
from gatepost.store.port import Store

WITHIN_S = 60.0  # for which one is waited for; sandboxes may have to end first


class OtherHomes:
    def __init__(self, store: Store, commands: GatewayCommands) -> None:
        self._store, self._commands = store, commands

    async def list_names(self, now: int) -> list[str]:
        """Raises Unavailable if one of them cannot be asked."""
        others = [row for row in await self._store.read(gateways.list_all) if row.name != self._commands.gateway]
        for each in others:
            if not is_living(each, now):
                way = f"start it, or `gatepost gateway forget {each.name}` if it is gone for good"
                raise Unavailable(f"gateway {each.name}", f"it may have files of theirs; {way}")
        return [each.name for each in others]

    async def erase(self, identity: str, now: int) -> dict[str, Answer]:
        """Return what each gateway has erased, by its name. The next try asks those again that did not answer in
        time."""
        names = await self.list_names(now)
        given = {"id": identity}
        asked = (self._commands.ask_gateway(CommandKind.FORGET, each, given, WITHIN_S) for each in names)
        return dict(zip(names, await asyncio.gather(*asked), strict=True))

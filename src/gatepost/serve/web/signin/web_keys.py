"""The keys of what a browser brings back to any gateway, after a restart too: those of the key ring."""

import asyncio
import os

from gatepost.core import log
from gatepost.core.errors import SetupError
from gatepost.core.keyring import KEY_BYTES, Keyring, KeySet
from gatepost.store.port import Store
from gatepost.store.rights import secrets

OWN = "own"  # the id of the process's own key

_log = log.get("login")


class WebKeys:
    def __init__(self, keyring: Keyring, store: Store) -> None:
        self._keyring, self._store = keyring, store
        self._own = os.urandom(KEY_BYTES)  # for a home whose key ring is lost: people can sign in, and find that out

    async def read(self) -> KeySet:
        """The file is read anew each time, as for secrets. If it is lost or damaged, the process's own key alone."""
        try:
            ring = await asyncio.to_thread(self._keyring.read)
            ring = ring if ring is not None else await self._store.write(secrets.get_ring, self._keyring)
        except SetupError as error:
            _log.warning("the key ring cannot be used; sign-ins work with this process alone", error=str(error))
            return KeySet(OWN, {OWN: self._own})
        return KeySet(ring.current, {**ring.keys, OWN: self._own})

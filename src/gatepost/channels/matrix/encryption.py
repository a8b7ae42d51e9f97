"""Keys of encrypted rooms: who gets ours, and whose messages are believed.

An encrypted room is never written to in the clear: where it is not known yet whether a room is encrypted, the send
waits. Keys are given to the devices of people who are in the room now; the setting `devices` says to which.
"""

from typing import Any

from nio import Event, MegolmEvent
from nio.crypto import OlmDevice
from nio.exceptions import EncryptionError, GroupEncryptionError, LocalProtocolError, OlmTrustError

from gatepost.channels.matrix import DevicePolicy
from gatepost.channels.matrix.session import PLATFORM, MatrixSession
from gatepost.core import log
from gatepost.core.errors import Unavailable

LOG = log.get("matrix")


class RoomKeys:
    def __init__(self, session: MatrixSession, instance: str, policy: DevicePolicy, trusted: tuple[str, ...]) -> None:
        self._session, self._instance, self._policy = session, instance, policy
        self._trusted = frozenset(trusted)

    async def refresh(self) -> None:
        """Do the key exchange after a sync: publish keys, ask for those of others, answer requests."""
        client, run = self._session.client, self._session.run
        if client.should_upload_keys:
            await self._session.check_device_keys()
            await run(client.keys_upload())
        await self._query()
        if client.should_claim_keys:
            await run(client.keys_claim(client.get_users_for_key_claiming()))
        for message in list(client.outgoing_to_device_messages):
            await run(client.to_device(message))

    async def encrypt(self, room_id: str, kind: str, content: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The event as the homeserver may see it, once everybody in the room can read it."""
        client = self._session.client
        try:
            await self._share(room_id)
            sealed: tuple[str, dict[str, Any]] = client.encrypt(room_id, kind, content)
        except (EncryptionError, GroupEncryptionError, LocalProtocolError, OlmTrustError) as error:
            raise Unavailable(PLATFORM, f"the message cannot be encrypted yet ({error})", retry_after=1.0) from None
        return sealed

    async def _share(self, room_id: str) -> None:
        client, run = self._session.client, self._session.run
        room, olm = client.rooms[room_id], client.olm
        if olm is None:
            raise LocalProtocolError("there is no key store")
        if not room.members_synced:
            await run(client.joined_members(room_id))
            olm.update_tracked_users(room)
        await self._query()
        if not olm.should_share_group_session(room_id):
            return
        for user in room.users:
            self._judge(user)
        if missing := client.get_missing_sessions(room_id):
            await run(client.keys_claim(missing))
        await run(client.share_group_session(room_id, ignore_unverified_devices=True))
        if left_out := self._list_left_out(room_id):
            client.invalidate_outbound_session(room_id)  # else they would never be able to read what follows
            raise Unavailable(PLATFORM, f"the keys of the room did not reach {len(left_out)} devices", retry_after=1.0)

    def _list_left_out(self, room_id: str) -> list[tuple[str, str]]:
        """Devices that could be given the key, and were not."""
        client = self._session.client
        olm = client.olm
        assert olm is not None
        given = olm.outbound_group_sessions[room_id]
        reached = given.users_shared_with | given.users_ignored
        return [
            (user, device.id)
            for user in client.rooms[room_id].users
            for device in olm.device_store.active_user_devices(user)
            if (user, device.id) not in reached and olm.session_store.get(device.curve25519)
        ]

    async def _query(self) -> None:
        client = self._session.client
        if not client.should_query_keys:
            return
        response = await self._session.run(client.keys_query())
        for user in response.changed:
            self._judge(user)

    def _judge(self, user: str) -> None:
        """Devices of somebody new are trusted. Those that come later are not, unless they are listed."""
        if self._policy is not DevicePolicy.FIRST:
            return
        client = self._session.client
        devices = list(client.device_store.active_user_devices(user))
        known = [each for each in devices if each.verified or each.blacklisted]
        for device in devices:
            if device.deleted or device.verified:
                continue
            if not known or f"{user}/{device.id}" in self._trusted:
                client.verify_device(device)
            elif not device.blacklisted:
                client.blacklist_device(device)
                LOG.warning(
                    "a new device is not trusted", instance=self._instance, user=user, device=device.id,
                    remedy="list it in `trusted_devices`",
                )  # fmt: skip

    async def is_proved(self, event: Event, room_encrypted: bool) -> bool:
        """Return True if a device of the sender wrote it. The homeserver could put any name above a message; in a room
        that is not encrypted there is nobody else to ask."""
        if not room_encrypted or event.sender == self._session.own_id:
            return True
        if not event.decrypted:
            return False
        device = self._find_device(event)
        if device is None:
            self._session.client.users_for_key_query.add(event.sender)
            await self._query()
            device = self._find_device(event)
        self._judge(event.sender)
        return device is not None and (self._policy is DevicePolicy.ALL or bool(device.verified))

    def _find_device(self, event: Event) -> OlmDevice | None:
        devices = self._session.client.device_store.active_user_devices(event.sender)
        return next((each for each in devices if each.curve25519 == event.sender_key), None)

    async def request(self, event: MegolmEvent) -> None:
        """Ask our other devices for the key of a message; once for each key."""
        client = self._session.client
        if event.session_id in client.outgoing_key_requests:
            return
        await self._session.run(client.request_room_key(event))

    def decrypt(self, event: MegolmEvent) -> Event | None:
        try:
            opened = self._session.client.decrypt_event(event)
        except EncryptionError:
            return None
        return opened if isinstance(opened, Event) else None

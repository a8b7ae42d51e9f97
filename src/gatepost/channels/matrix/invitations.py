"""Invitations and private rooms.

An invitation costs its sender nothing, and its room may be of any size. So it is accepted only from people whom the
setting `invites` names. Messages there are judged like everywhere: a room is strict until somebody opens it.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from nio import InviteMemberEvent, SyncResponse, UnknownAccountDataEvent

from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.matrix import InvitePolicy
from gatepost.channels.matrix.encryption import LOG
from gatepost.channels.matrix.session import MatrixSession
from gatepost.channels.matrix.wire import ROOM_ID, USER_ID, is_id
from gatepost.core.errors import NotFound, Refused, Unavailable

MOST_PENDING = 50
ENCRYPTED = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}


def may_invite(inviter: str, policy: InvitePolicy, listed: tuple[str, ...]) -> bool:
    if policy is InvitePolicy.ANYBODY:
        return True
    if policy is InvitePolicy.NOBODY or not is_id(inviter, USER_ID):
        return False
    return inviter in listed or f"*:{inviter.partition(':')[2]}" in listed


class RoomInvitations:
    def __init__(self, session: MatrixSession, instance: str, policy: InvitePolicy, listed: tuple[str, ...]) -> None:
        self._session, self._instance, self._policy, self._listed = session, instance, policy, listed
        self._direct: dict[str, str] = {}  # room → the other person
        self._pending: dict[str, tuple[str, bool]] = {}  # room → who invites, and whether it is a private one

    async def load(self) -> None:
        try:
            self._read_direct(await self._session.get(self._get_path()))
        except PlatformRefusal as error:
            if error.status != 404:
                raise

    def is_direct(self, room_id: str) -> bool:
        """Marked as private, and really with one person alone: whoever made the room can let others in."""
        room = self._session.client.rooms.get(room_id)
        return room_id in self._direct and room is not None and room.member_count <= 2

    def read(self, response: SyncResponse) -> None:
        for event in response.account_data_events:
            if isinstance(event, UnknownAccountDataEvent) and event.type == "m.direct":
                self._read_direct(event.content)
        for room_id, info in response.rooms.invite.items():
            for event in info.invite_state:
                if isinstance(event, InviteMemberEvent) and event.state_key == self._session.own_id:
                    self._read_invitation(room_id, event)

    def _read_invitation(self, room_id: str, event: InviteMemberEvent) -> None:
        if event.membership != "invite" or not is_id(room_id, ROOM_ID) or len(self._pending) >= MOST_PENDING:
            return
        if may_invite(event.sender, self._policy, self._listed):
            self._pending[room_id] = (event.sender, event.content.get("is_direct") is True)
        else:
            LOG.info("an invitation is not accepted", instance=self._instance, room=room_id, inviter=event.sender)

    async def accept(self, response: SyncResponse) -> None:
        """Accept pending invitations. A join that the homeserver cannot do now is tried again after the next sync."""
        for room_id, (inviter, direct) in list(self._pending.items()):
            try:
                if direct:  # first: stopped in between, we would be in a private room without knowing
                    await self._set_direct(inviter, room_id)
                await self._session.post(f"rooms/{quote(room_id, safe='')}/join", {}, "join a room")
            except Unavailable as error:
                LOG.info("a room was not joined", instance=self._instance, room=room_id, error=str(error))
                continue
            except Refused as error:
                LOG.warning("a room was not joined", instance=self._instance, room=room_id, error=str(error))
            self._pending.pop(room_id, None)

    async def open_direct(self, user: str) -> str:
        """The private room with somebody, made if there is none. It is encrypted."""
        for room_id, other in self._direct.items():
            room = self._session.client.rooms.get(room_id)
            if other == user and room is not None and user in room.users | room.invited_users:
                return room_id
        wanted = {
            "invite": [user],
            "is_direct": True,
            "preset": "trusted_private_chat",
            "initial_state": [ENCRYPTED],
        }
        try:
            made = await self._session.post("createRoom", wanted, f"open a private room with {user}")
        except PlatformRefusal as error:
            if error.status in (400, 404):
                raise NotFound("person", user, "nobody has this name on Matrix") from None
            raise
        room_id = str(made.get("room_id", ""))
        await self._set_direct(user, room_id)
        return room_id

    async def _set_direct(self, user: str, room_id: str) -> None:
        self._direct[room_id] = user
        people: dict[str, list[str]] = {}
        for room, person in self._direct.items():
            people.setdefault(person, []).append(room)
        await self._session.put(self._get_path(), people, "mark a room as private")

    def _read_direct(self, content: Mapping[str, Any]) -> None:
        self._direct = {
            room: person
            for person, rooms in content.items()
            if is_id(person, USER_ID) and isinstance(rooms, list)
            for room in rooms
            if is_id(room, ROOM_ID)
        }

    def _get_path(self) -> str:
        return f"user/{quote(self._session.own_id, safe='')}/account_data/m.direct"

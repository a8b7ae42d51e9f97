"""Notices for owners: said in the direct room of each who can be reached, once for each key."""

from gatepost.access.tiers import ROOT_FOLDER
from gatepost.flow.delivery.outgoing_messages import ChannelInstances, OutgoingMessage, find_or_add
from gatepost.flow.requests.ask_approver import list_approvers
from gatepost.store.messages.outbox import EffectOrigin
from gatepost.store.port import Db
from gatepost.store.rooms import direct_rooms

MOST_TOLD = 10  # owners who are told of one thing


def add_owner_notices(db: Db, channels: ChannelInstances, key: str, text: str, now: int) -> tuple[tuple[str, str], ...]:
    """The rooms to ring, once it is committed. A room of a channel that runs comes before others."""
    owners = tuple(list_approvers(db, ROOT_FOLDER)[:MOST_TOLD])
    found = direct_rooms.list_for_people(db, owners)
    found.sort(key=lambda room: channels.find_channel(room.instance) is None)
    places = dict[str, tuple[str, str]]()
    for room in found:
        places.setdefault(room.user_id, (room.instance, room.address))
    rooms = []
    for instance, address in dict.fromkeys(places.values()):
        notice = OutgoingMessage(
            key=f"notice:{key}:{instance}:{address}",
            origin=EffectOrigin.NOTICE,
            instance=instance,
            address=address,
            text=text,
        )
        if find_or_add(db, channels, notice, now)[1]:
            rooms.append((instance, address))
    return tuple(rooms)

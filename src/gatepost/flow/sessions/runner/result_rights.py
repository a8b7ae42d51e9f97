"""The rules for what an agent's answer does besides answering. A block that speaks in another room is judged like a
call of `send` there, files that go with an answer like a call of `send_file`.

The answer itself goes to whoever wrote, in the room of its turn, and is no call: no rule is asked.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from gatepost.access.policy import AccessRequest, GroupHold, GroupPolicy
from gatepost.access.subjects import Subject, make_effects
from gatepost.access.tiers import Tier
from gatepost.core.records import replace
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.ask_approver import AskedRequest, AskingRules, ask
from gatepost.flow.requests.held_calls import check_limits, choose_quorum
from gatepost.flow.schedule.task_rights import NO_RULES, load_access_rules
from gatepost.gate.held_call import make_about
from gatepost.store.messages import inbox
from gatepost.store.messages.destinations import Destination
from gatepost.store.money import costs
from gatepost.store.port import Db
from gatepost.store.rights import audit, requests
from gatepost.store.rights.audit import AuditRecord
from gatepost.store.rights.requests import BoundReads, NewRequest, RequestKind
from gatepost.store.rooms import origins
from gatepost.store.sessions.turns import Turn

SEND, REPLY, SEND_FILE = "send", "reply", "send_file"
EFFECTS = {  # as the tools declare them
    SEND: make_effects([Subject.SPEAK]),
    REPLY: make_effects([Subject.SPEAK]),
    SEND_FILE: make_effects([Subject.SPEAK, Subject.HAND_OUT]),
}
_encode = msgspec.json.Encoder(order="sorted").encode


class ResultRights:
    """The rights of one turn, for results that are recorded together. The rules are read once, if there are any."""

    def __init__(self, db: Db, channels: ChannelInstances, turn: Turn, now: int) -> None:
        self._db, self._turn, self._now = db, turn, now
        facts = load_access_rules(db)
        self._policy = GroupPolicy(turn.folder, facts) if facts is not NO_RULES else None
        self._asks = self._read_people(channels) if self._policy is not None else ()

    def _read_people(self, channels: ChannelInstances) -> tuple[AccessRequest, ...]:
        """As for a call: the agent, and everybody behind it where they asked. All must be granted."""
        db, turn = self._db, self._turn
        chain = origins.get_for_turn(db, turn.id)
        claims = {"folder": turn.folder, "tier": str(int(self._get_policy().tier)), "provider": turn.provider}
        here = (turn.instance, turn.address, turn.thread, costs.find_asker(db, turn.id))
        places = [here, *((each.instance, each.address, each.thread, each.person) for each in chain.origins)]
        people = [(turn.address, *inbox.list_senders(db, turn.id))]
        people += [(each.address, each.person) if each.person else (each.address,) for each in chain.origins]
        return tuple(
            AccessRequest(
                SEND,
                Tier.WORKER,  # the row of a destination is the permission, whatever the tier
                turn.folder,
                claims=claims | {"platform": channels.get_kind(bot).name, "room": room, "topic": thread, "user": user},
                also=also,
            )
            for (bot, room, thread, user), also in zip(places, people, strict=True)
        )

    def _get_policy(self) -> GroupPolicy:
        assert self._policy is not None
        return self._policy

    def find_refusal(self, tool: str, text: str, address: str) -> str:
        """Why a rule forbids it; '' if none does."""
        policy, params = self._policy, _make_params(text, address)
        if policy is None or not policy.has_rules_for(tool, EFFECTS[tool]):
            return ""
        asks = [replace(each, tool=tool, params=params, effects=EFFECTS[tool], room=address) for each in self._asks]
        if all(map(policy.decide, asks)):
            return ""
        self._record(tool, "refused", address)
        return "a rule of this gateway forbids it"

    def list_holds(self, tool: str, text: str, address: str) -> tuple[GroupHold, ...]:
        """Return the holds by which a result waits for a person."""
        policy, params = self._policy, _make_params(text, address)
        if policy is None or not policy.holds:
            return ()
        request = AccessRequest(tool, Tier.WORKER, self._turn.folder, params, effects=EFFECTS[tool], room=address)
        return policy.list_holds(request)

    def may_give_files(self, text: str, address: str) -> bool:
        """Return True if files may go with an answer: send_file is neither forbidden nor held for a person there."""
        if self.find_refusal(SEND_FILE, text, address):
            return False
        held = bool(self.list_holds(SEND_FILE, text, address))
        if held:
            self._record(SEND_FILE, "refused", address)
        return not held

    def hold(
        self,
        channels: ChannelInstances,
        rules: AskingRules,
        key: str,
        text: str,
        place: Destination,
        holds: Sequence[GroupHold],
    ) -> AskedRequest | None:
        """Ask people about a block, as about a call of `send`. None: somebody allowed such calls for this conversation.
        Refused, if too many wait already."""
        turn, policy = self._turn, self._get_policy()
        params = _make_params(text, place.address)
        named = {each: params.get(each) for each in policy.list_named_params(SEND, EFFECTS[SEND])}
        about = make_about(SEND, f"{place.instance} {place.address}", holds, named, {})
        if requests.find_lasting(self._db, turn.session_id, about) is not None:
            return None
        arguments = {"text": text, "chatJid": place.address}
        new = NewRequest(
            kind=RequestKind.CALL,
            name=key,
            folder=turn.folder,
            session_id=turn.session_id,
            turn_id=turn.id,
            tool=SEND if policy.visible(SEND, Tier.AGENT, EFFECTS[SEND]) else REPLY,  # a worker has no other
            input=arguments,
            editable=True,
            digest=hashlib.sha256(_encode([SEND, arguments])).hexdigest(),
            about=about,
            why=", ".join(each.render() for each in holds),
            rooms={"chatJid": place.instance},
            bound=BoundReads(threads={"chatJid": place.thread}),
            quorum=choose_quorum([each.quorum for each in holds], rules.quorum),
            instance=turn.instance,
            address=turn.address,
            thread=turn.thread,
            rights=turn.rights,
        )
        if requests.find_same(self._db, new) is None:
            check_limits(self._db, new, self._now)
            self._record(SEND, "held", place.address)
        return ask(self._db, channels, rules, new, self._now)

    def _record(self, tool: str, verdict: str, address: str) -> None:
        details = {"turn": self._turn.id, "session": self._turn.session_id, "args": {"jid": address}, "result": True}
        audit.append(self._db, AuditRecord(self._now, f"agent:{self._turn.folder}", tool, verdict, details))


def _make_params(text: str, address: str) -> dict[str, str]:
    return {"text": text, "jid": address, "chatJid": address}

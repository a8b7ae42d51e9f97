"""Links that lead to a room of a group: chat links for people, webhooks for programs. A token's row names the group,
because the room's address does not say where the folder ends.

By a chat link a stranger gets an identity, a secret and a room of their own below the link's. The room leads to the
link's group alone. That is a route, so everything that asks where a room leads sees the same; it comes before what
operators write for other rooms. A second route drops what no link's own route holds for: a room whose link is gone must
not fall to whoever gets all the rest.

A program's post goes to the group of its webhook; no route is asked. The post is committed with the use of its link, as
the link is at that moment. A post that was stored before changes nothing. Its sender is a guest, whatever the text
says, and instructions come from the link's row alone.
"""

import re
import secrets as random_values
from typing import Any

from msgspec import Struct

from gatepost.access import senders
from gatepost.access.tiers import ROOT_FOLDER
from gatepost.core import ids
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused
from gatepost.core.event_bus import EventBus
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.process.home_lock import read_holder
from gatepost.core.records import replace
from gatepost.core.settings import Config
from gatepost.flow import sender_rights
from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.intake.accepted_message import Arrival, IntakeResult, MessageContext, TargetAccess, deliver
from gatepost.flow.intake.admission import find_spent_budget
from gatepost.flow.intake.intake import make_arrival, read_limits
from gatepost.flow.intake.message_acceptance import make_message
from gatepost.flow.intake.routed_message import MessageRelation
from gatepost.flow.intake.routing import RouteChoice
from gatepost.flow.invitations import too_many
from gatepost.flow.pairing import get_page_url
from gatepost.flow.requests.spent_budgets import SPENT
from gatepost.messages import address as addresses
from gatepost.messages.inbound import Direction, Inbound, MessageKind, Receipt, Verb
from gatepost.messages.text import clean
from gatepost.store.engine.rule_cache import RuleCache
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxState
from gatepost.store.port import Db, Store, inline_read
from gatepost.store.rights import secrets, tokens
from gatepost.store.rights.secret_rows import SecretOwner, get_channel_secret_name
from gatepost.store.rights.tokens import TIMED_SCHEMES, NewToken, SignatureScheme, Token, TokenKind
from gatepost.store.rooms import rooms, routes
from gatepost.store.rooms.rooms import RoomPolicy
from gatepost.store.rooms.routes import Route
from gatepost.store.sessions import groups
from gatepost.store.sessions.sessions import SessionMode
from gatepost.store.web import links
from gatepost.store.web.links import LinkVisitor, NewLinkVisitor

PREFIXES = {  # no room of a person, or of the owner, begins like that
    TokenKind.CHAT_LINK: "web:link/",
    TokenKind.WEBHOOK: "hook:",
}
PATHS = {  # of the pages that answer tokens
    TokenKind.CHAT_LINK: "/chat/",
    TokenKind.WEBHOOK: "/hook/",
    TokenKind.INVITE: "/invite/",
}
MOST_ORIGINS = 10
LONGEST_INSTRUCTIONS = 4000  # characters
SHORTEST_SECRET, LONGEST_SECRET = 16, 200
_SECRET = re.compile(r"[\x21-\x7e]+\Z")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_ORIGIN = re.compile(r"https?://[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?(?::[0-9]{1,5})?\Z")
ROOMS = PREFIXES[TokenKind.CHAT_LINK]  # what the addresses of all these rooms begin with
IDENTITY = "web:visitor/"  # what the identities of visitors begin with; nobody signs in as one
SEQ, DROP_SEQ = 0, 1  # of the routes
MADE_BY = "gatepost:links"
DROP_MATCH = f"chat_jid={ROOMS}**"
INSTANCE = "hook"
INSTRUCTIONS = "instructions"  # in a message's content
RIGHTS: senders.Rights = "guest"


class NewLink(Struct, frozen=True, kw_only=True):
    kind: TokenKind
    folder: str
    label: str  # of a webhook: what reports there
    suffix: str
    created_by: str
    expires_at: int | None = None
    instructions: str = ""
    signature: SignatureScheme = SignatureScheme.NONE
    signing_secret: str = ""  # '': one is made
    origins: tuple[str, ...] = ()  # of a chat link: pages that may show it in a frame


class IssuedLink(Struct, frozen=True):
    """`secret`: as it is shown, once. So is `signing_secret`, if it was made here."""

    token: Token
    secret: str
    signing_secret: str = ""


def make_url(config: Config, home: Home, kind: TokenKind, secret: str) -> str:
    """Return where a token is answered; '' if no page does, or nobody knows where that is."""
    holder = read_holder(home)
    base = get_page_url(config, holder.listen if holder is not None else "")
    return f"{base}{PATHS[kind]}{secret}" if base and kind in PATHS else ""


def issue_link(db: Db, new: NewLink, now: int, keyring: Keyring | None = None) -> IssuedLink:
    """`keyring`: to seal what proves a webhook's senders."""
    _check_webhook(new)
    if new.folder == ROOT_FOLDER:
        raise Invalid("folder", "root is for owners: no link leads there")
    if groups.get(db, new.folder) is None:
        raise NotFound("group", new.folder, "`gatepost group list` shows which there are")
    if new.expires_at is not None and new.expires_at <= now:
        raise Invalid("expires_at", "is in the past; name a later moment")
    secret = ids.token()
    key, signing = _seal(db, keyring, new.folder, new.signature, new.signing_secret, now)
    row = NewToken(
        kind=new.kind,
        folder=new.folder,
        address=make_address(new),
        label=new.label,
        expires_at=new.expires_at,
        created_by=new.created_by,
        instructions=clean(new.instructions).strip(),
        signature=new.signature,
        signing_key=key,
        origins=_render_origins(new),
    )
    made = tokens.add(db, row, secret, now)
    if made is None:
        raise too_many(new.created_by, new.folder)
    return IssuedLink(made, secret, "" if new.signing_secret else signing)


def set_signature(db: Db, link: Token, scheme: SignatureScheme, given: str, now: int, keyring: Keyring | None) -> str:
    """From now on the posts of a webhook are proved so. The secret, if it was made here; '' if it was given."""
    if link.kind is not TokenKind.WEBHOOK or link.folder is None:
        raise Invalid("id", f"{link.id} is no webhook: nothing else is signed")
    _check_secret(scheme, given)
    key, signing = _seal(db, keyring, link.folder, scheme, given, now)
    tokens.set_signature(db, link.id, scheme, key)
    return "" if given else signing


def _seal(
    db: Db, keyring: Keyring | None, folder: str, scheme: SignatureScheme, given: str, now: int
) -> tuple[str, str]:
    """(the name under which it is kept, the secret). A name is used once: whoever has the old one open notices. It is
    that of a channel's secret, which no agent gets."""
    if scheme is SignatureScheme.NONE:
        return "", ""
    if keyring is None:
        raise Invalid("signature", "this process cannot seal secrets")
    name = get_channel_secret_name("hook", ids.new("k"))
    value = given or random_values.token_hex(32)
    secrets.put(db, keyring, SecretOwner(folder), name, value, now)
    return name, value


def _check_webhook(new: NewLink) -> None:
    if new.kind is not TokenKind.WEBHOOK and (new.instructions or new.signature is not SignatureScheme.NONE):
        raise Invalid("kind", "instructions and signatures are for webhooks; people prove nothing by them")
    if len(new.instructions) > LONGEST_INSTRUCTIONS:
        raise Invalid("instructions", f"has {len(new.instructions)} characters; at most {LONGEST_INSTRUCTIONS} fit")
    _check_secret(new.signature, new.signing_secret)


def _check_secret(scheme: SignatureScheme, given: str) -> None:
    if given and scheme is SignatureScheme.NONE:
        raise Invalid("signature", "is missing: say which service signs with this secret")
    if given and not (SHORTEST_SECRET <= len(given) <= LONGEST_SECRET and _SECRET.match(given)):
        signs = f"{SHORTEST_SECRET} to {LONGEST_SECRET} visible signs of ASCII"
        raise Invalid("signing_secret", f"is not {signs}; copy it from the service, or leave it out")


def make_address(new: NewLink) -> str:
    """`web:link/FOLDER[/SUFFIX]`, `hook:FOLDER/LABEL[/SUFFIX]`."""
    if new.kind is TokenKind.WEBHOOK and not new.label:
        raise Invalid("label", "is missing: a webhook has a word for what reports there, like github")
    if new.label:
        _check_name("label", new.label)
    if new.suffix:
        _check_name("suffix", new.suffix)
    label = new.label if new.kind is TokenKind.WEBHOOK else ""
    parts = (new.folder, label, new.suffix)
    return str(addresses.parse(PREFIXES[new.kind] + "/".join(part for part in parts if part)))


def _render_origins(new: NewLink) -> str:
    """They stand in a header later: nothing but plain origins gets there."""
    if new.origins and new.kind is not TokenKind.CHAT_LINK:
        raise Invalid("origins", "only a chat link is shown in other pages")
    if len(new.origins) > MOST_ORIGINS:
        raise Invalid("origins", f"at most {MOST_ORIGINS} are possible; make a second link for the others")
    for each in new.origins:
        if not _ORIGIN.match(each):
            raise Invalid("origins", f"{each[:80]!r} is not a page's origin; write it like https://shop.example")
    return " ".join(dict.fromkeys(new.origins))


def _check_name(field: str, text: str) -> None:
    if not _NAME.match(text):
        raise Invalid(field, f"{text[:80]!r} is not a name of letters, digits, `_` and `-`, at most 64")


class LinkFacts(Struct, frozen=True):
    """Facts that whoever holds a link is told before they say anything."""

    token: Token
    name: str  # of the group


class StartedVisit(Struct, frozen=True):
    """`secret`: it is shown once."""

    visitor: LinkVisitor
    secret: str


class TooManyVisitors(Refused):
    def __init__(self) -> None:
        super().__init__("a visitor", "come in", why="too many use this link; try again tomorrow")


@inline_read
def find_link(db: Db, secret: str, now: int) -> LinkFacts | None:
    """Unknown, revoked and too old look alike."""
    token = tokens.find_valid(db, TokenKind.CHAT_LINK, secret, now)
    group = groups.get(db, token.folder) if token is not None and token.folder is not None else None
    return LinkFacts(token, group.name or "Chat") if token is not None and group is not None else None


def start_visit(db: Db, instance: str, secret: str, now: int) -> StartedVisit | None:
    """None if the link is not valid."""
    token = tokens.use(db, TokenKind.CHAT_LINK, secret, now)
    if token is None or token.folder is None:
        return None
    _ensure_routes(db, token, now)
    visitor_id, visitor_secret = links.make_visitor_id(), ids.token()
    new = NewLinkVisitor(
        id=visitor_id,
        token_id=token.id,
        identity=f"{IDENTITY}{visitor_id}",
        address=f"{make_base(token)}/{visitor_id}",
    )
    made = links.add_visitor(db, new, visitor_secret, now)
    if made is None:
        raise TooManyVisitors
    rooms.add(db, instance, made.address, make_room_name(token, made), True, RoomPolicy.PUBLIC, now)
    return StartedVisit(made, visitor_secret)


def has_routes(db: Db, visitor: LinkVisitor) -> bool:
    """Return True if the visitor's room still leads to the link's group. Somebody may have set other routes in the
    place of all."""
    matches = {each.match for each in routes.list_all(db)}
    token = tokens.get(db, visitor.token_id)
    return token is not None and {render_match(token), DROP_MATCH} <= matches


def restore_routes(db: Db, visitor: LinkVisitor, now: int) -> None:
    """Restore the routes that the visitor came by: what they say must fall to nobody else."""
    token = tokens.get(db, visitor.token_id)
    if token is not None and token.folder is not None:
        _ensure_routes(db, token, now)


def make_base(token: Token) -> str:
    """The link's rooms are below it. The token's id tells two links apart whose addresses are written alike."""
    return f"{token.address}/{token.id}"


def make_room_name(token: Token, visitor: LinkVisitor) -> str:
    return f"{token.label or token.folder} visitor {visitor.id[-4:]}"


def is_link_room(address: str) -> bool:
    return address.startswith(ROOMS)


def _ensure_routes(db: Db, token: Token, now: int) -> None:
    known = routes.list_all(db)
    _remove_old_routes(db, known)
    assert token.folder is not None
    link = Route(
        seq=SEQ,
        match=render_match(token),
        target=f"folder:{token.folder}",
        folder=token.folder,
        created_by=MADE_BY,
        created_at=now,
    )
    rest = Route(seq=DROP_SEQ, match=DROP_MATCH, target="drop", created_by=MADE_BY, created_at=now)
    matches = {each.match for each in known}
    for each in (link, rest):
        if each.match not in matches:
            routes.add(db, each)


def render_match(token: Token) -> str:
    return f'chat_jid="{make_base(token)}/*"'


def _remove_old_routes(db: Db, known: list[Route]) -> None:
    """Remove the routes of links that are not even listed any more."""
    for each in known:
        if each.created_by == MADE_BY and each.match != DROP_MATCH:
            token_id = each.match.rpartition("/")[0].rpartition("/")[2]
            if tokens.get(db, token_id) is None:
                routes.remove(db, each.id)


class LinkEnded(GatepostError):
    """The link was revoked, or its time was over, before the post was committed."""


class RepeatedSignature(GatepostError):
    """A post with this signature was accepted before, under another id."""


class LinkPost(Struct, frozen=True, kw_only=True):
    """A post that came by a link. `delivery`: the sender's own id of it, or a new one. `signature`: the hash of what
    proved it, '' if the link asks for no proof. `secret`: the link's token, which goes nowhere but into its hash."""

    secret: str
    delivery: str
    text: str
    event: str = ""
    signature: str = ""


class LinkInbox:
    """When `receive` returns, the post is durable."""

    def __init__(
        self, store: Store, clock: Clock, config: Config, events: EventBus, channels: ChannelInstances
    ) -> None:
        self._store, self._clock, self._events, self._channels = store, clock, events, channels
        self._limits = read_limits(config)
        self._rules = RuleCache()  # the writers' alone

    async def receive(self, link: Token, post: LinkPost) -> Receipt:
        """Raises LinkEnded, RepeatedSignature, and Invalid for a text that is too long."""
        now = self._clock.now()
        arrival = make_arrival(INSTANCE, make_inbound(link, post), self._limits, now, 0)
        if arrival.fault:
            raise Invalid("body", arrival.complaint)
        lane = f"{INSTANCE} {arrival.address}"
        done = await self._store.write(
            accept_post, self._channels, arrival, post, now, self._rules, durable=True, lane=lane
        )
        for session_id in done.wake:
            self._events.session(session_id)
        if done.notified:
            self._events.room(INSTANCE, str(arrival.address))
        return done.receipt


def make_sender(link: Token) -> str:
    """`hook:acme/eng/webhook/github`: of one group, and a program's."""
    return f"{INSTANCE}:{link.folder}/webhook/{link.label}"


def make_inbound(link: Token, post: LinkPost) -> Inbound:
    return Inbound(
        address=link.address,
        platform_id=post.delivery,
        sender=make_sender(link),
        sender_name=link.label,
        text=post.text,
        kind=MessageKind.WEBHOOK,
        room_name=link.address.removeprefix(f"{INSTANCE}:"),
    )


def accept_post(
    db: Db, channels: ChannelInstances, arrival: Arrival, post: LinkPost, now: int, rules: RuleCache | None = None
) -> IntakeResult:
    """The one transaction of a post."""
    link = tokens.use(db, TokenKind.WEBHOOK, post.secret, now)
    if link is None or link.folder is None:
        raise LinkEnded("the link has ended")
    inbound = arrival.inbound
    known = messages.find(db, INSTANCE, inbound.address, Direction.IN, inbound.platform_id)
    if known is not None:
        return IntakeResult(receipt=_find_receipt(db, known.id))
    timed = link.signature in TIMED_SCHEMES
    if post.signature and not links.add_signature(db, link.id, post.signature, now, timed=timed):
        raise RepeatedSignature("this signature was used before")
    arrival = replace(arrival, inbound=replace(inbound, extra=_make_extra(link, post)))
    message_id = messages.accept(db, make_message(arrival, MessageRelation(act=Verb.MESSAGE, verb=Verb.MESSAGE)), now)
    assert message_id is not None  # it was not there a moment ago, in this transaction
    rules = rules or RuleCache()
    rules.renew(db)
    case = MessageContext(db, rules, channels, arrival, message_id, "", now)
    return _give_to_group(case, link.folder)


def _give_to_group(context: MessageContext, folder: str) -> IntakeResult:
    db, inbound = context.db, context.arrival.inbound
    if sender_rights.find_rights(db, inbound.sender, folder) is None:
        return context.end(InboxState.REFUSED, senders.SHUT_OUT.reason, RIGHTS, folder)
    route = Route(match="", target=folder, created_by=INSTANCE, created_at=context.now, folder=folder)
    choice = RouteChoice(route, folder, observe=False, topic=None, mode=SessionMode.PER_THREAD)
    place = (INSTANCE, inbound.address, context.thread)
    if find_spent_budget(db, context.rules, inbound.kind, inbound.sender, choice, place, context.now) is not None:
        return context.end(InboxState.REFUSED, SPENT, RIGHTS, folder)
    room = rooms.get(db, INSTANCE, inbound.address)
    return deliver(context, [TargetAccess(choice, RIGHTS)], room)


def _make_extra(link: Token, post: LinkPost) -> dict[str, Any]:
    """Return what the agent is told besides the text, by whom it is known."""
    extra = {"source": link.label, "event": post.event, INSTRUCTIONS: link.instructions}
    return {name: value for name, value in extra.items() if value}


def _find_receipt(db: Db, message_id: int) -> Receipt:
    entries = inbox.list_for_message(db, message_id)
    state, reason = (entries[0].state, entries[0].reason) if entries else ("", "")
    return Receipt(message_id=message_id, new=False, state=state, reason=reason)

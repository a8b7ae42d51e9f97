"""Messages to be said, as rows of the outbox: one row, with a key of its own, for each part that a channel can take.

Nothing is sent here. Ring `events.room` after the transaction; the delivery loop does the rest. A part that fails never
causes another part to be sent again, because each is an effect of its own.

The bytes of files that an agent gives away are set aside before anything is copied: for a turn, and for a group in a
day. Each such file becomes a copy on the host that outlives the sandbox. A sparse one becomes as large as it says.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct

from gatepost.channels.contract import Channel, ChannelDeps, ChannelKind, ChannelPace
from gatepost.core.errors import NotFound, Refused
from gatepost.core.languages.catalogue import ENGLISH, translate
from gatepost.core.settings import Config, setting
from gatepost.flow import server_senders
from gatepost.flow.delivery import content_fallback
from gatepost.mailbox import runner_frames
from gatepost.messages.card import Card
from gatepost.messages.inbound import Inbound
from gatepost.messages.outbound import Feature, Op, OutboundFile
from gatepost.messages.text import clean
from gatepost.messages.text_size import fits, measure
from gatepost.store.messages import growing_drafts, outbox, sent_files
from gatepost.store.messages.outbox import EffectOrigin, NewEffect, OutboxEffect
from gatepost.store.messages.sent_files import NewSentFiles
from gatepost.store.people import users
from gatepost.store.port import Db, LockKind
from gatepost.store.rooms.rooms import RoomPolicy

MOST_RESULTS = setting(
    "sessions.most_results",
    500,
    help="A turn that says more than this many messages is ended, and its tools send and do no more than this many.",
)

MOST_RESULT_BYTES = setting(
    "sessions.most_result_bytes",
    4 * 1024 * 1024,
    help="A turn whose messages have more than this many bytes together is ended. What is longer is a file.",
)

LANGUAGE = setting(
    "language", ENGLISH, help="The language of the gateway's own texts, where a person has not chosen theirs: en or de."
)
UNPACED = ChannelPace()
LARGEST_CARD = 20_000  # characters: no platform shows more in one message
TURN_MB = setting(
    "files.turn_mb", 200, help="Megabytes of files that an agent may send in one turn, or between two turns."
)
GROUP_MB = setting("files.group_mb", 1000, help="Megabytes of files that a group's agents may send within 24 hours.")
LARGEST_FILE = 100 * 1024 * 1024
MEGABYTE = 1024 * 1024


def _make_nothing(deps: ChannelDeps) -> Channel:
    raise NotFound("channel", deps.instance)


class ChannelInstances:
    """The abilities of this gateway's channel instances. An instance that is not there can do nothing. `engages_s`: how
    long a group stays in a conversation of theirs, where its route says nothing."""

    def __init__(
        self,
        kinds: Mapping[str, ChannelKind],
        adapters: Mapping[str, Channel] | None = None,
        engages_s: int = 0,
        language: str = ENGLISH,
    ) -> None:
        self._kinds, self._adapters, self.engages_s = kinds, adapters or {}, engages_s
        self.language = language  # of what the gateway itself says where nobody has chosen another one
        self.get_page: Callable[[], str] = lambda: ""  # where the web page is; '' if it is served nowhere
        self.get_draft: Callable[[str], str] = lambda session_id: ""  # what people see of its answer that is written

    def find_language(self, db: Db, instance: str, address: str) -> str:
        """Return the language of our own words in a room: that of the only person who reads it, if they chose one."""
        return users.find_language(db, instance, address) or self.language

    def get_kind(self, instance: str) -> ChannelKind:
        """Return what the channel of an instance declares; of one that is not there, that it can do nothing."""
        found = self._kinds.get(instance)
        return found or ChannelKind(name=instance, make=_make_nothing, features=frozenset(), pace=UNPACED)

    def fits_card(self, instance: str, card: Card) -> bool:
        """Return True if people see all of a card in a room of this instance."""
        kind = self._kinds.get(instance)
        if kind is None:
            return True
        native = kind.fits_card if Feature.CARDS in kind.features else None
        if not kind.always and card.size > (LARGEST_CARD if native else kind.max_text or LARGEST_CARD):
            return False  # to render it takes time by its length
        if native is not None:
            return native(card)
        text = content_fallback.render_card_text(card, kind.features)
        return fits(text, kind.max_text, kind.text_unit)

    def explain_reaction(self, instance: str, address: str, reaction: str) -> str:
        """Return what to use in place of a reaction that this room does not have, or ''."""
        kind = self._kinds.get(instance)
        return kind.explain_reaction(address, reaction) if kind is not None and kind.explain_reaction else ""

    def shows_drafts(self, instance: str) -> bool:
        """Return True if an answer grows there while it is written."""
        kind = self._kinds.get(instance)
        return kind is not None and kind.drafts

    def policy(self, instance: str) -> RoomPolicy:
        """Return who may speak in a room of this instance that nobody has said anything about."""
        kind = self._kinds.get(instance)
        return kind.policy if kind else RoomPolicy.STRICT

    def asks_strangers(self, instance: str) -> bool:
        """Return True if people are asked about somebody unknown who writes there directly."""
        kind = self._kinds.get(instance)
        return kind is not None and kind.asks_strangers

    def is_known(self, instance: str) -> bool:
        """Return True if the channel instance is switched on."""
        return instance in self._kinds

    def is_local(self, instance: str) -> bool:
        """Return True if the gateway itself is the platform: what people see there is the ledger."""
        kind = self._kinds.get(instance)
        return kind is not None and kind.always

    def deletes_unseen(self, instance: str) -> bool:
        """Return True if a message that is deleted there leaves nothing behind."""
        kind = self._kinds.get(instance)
        return kind is not None and Feature.DELETE in kind.features and not kind.deletions_show and not kind.always

    def list_local(self) -> list[str]:
        """The instances of which the gateway itself is the platform."""
        return [instance for instance, kind in self._kinds.items() if kind.always]

    def list_instances(self, feature: Feature) -> list[str]:
        """Those that can do this."""
        return [instance for instance, kind in self._kinds.items() if feature in kind.features]

    def find_channel(self, instance: str) -> Channel | None:
        return self._adapters.get(instance)

    def add_server(self, instance: str, inbound: Inbound) -> Inbound:
        """An event that its channel was asked for, with senders as the gateway knows them."""
        kind = self._kinds.get(instance)
        return server_senders.add_server(kind, instance, inbound) if kind else inbound

    def remove_server(self, instance: str, identity: str) -> str:
        """Return what the channel calls this person; '' if nobody of this instance is meant."""
        kind = self._kinds.get(instance)
        return server_senders.remove_server(kind, instance, identity) if kind else ""

    def own_names(self, instance: str) -> frozenset[str]:
        """Return what this bot is called on its platform, in lower case; empty if its channel does not know
        (`HasOwnNames`). Asked with each message, and to ask whether a channel is of a protocol costs more than all else
        there."""
        names: frozenset[str] = getattr(self._adapters.get(instance), "own_names", frozenset())
        return frozenset(map(str.lower, names)) if names else names


class OutgoingMessage(Struct, frozen=True, kw_only=True):
    """Something to be said in a room, of any length."""

    key: str  # the identity of the first part; the others are `<key>/2` …
    origin: EffectOrigin
    instance: str
    address: str
    thread: str = ""
    text: str = ""
    folder: str = ""
    session_id: str | None = None
    turn_id: str | None = None
    attempt: int = 1
    reply_to_id: int | None = None  # the message answered, by its id in the ledger
    in_reply_to: int | None = None  # the same by its seq in the session
    files: tuple[OutboundFile, ...] = ()
    topic: str = ""  # that it is said about, if it is not a thread
    grows: bool = False  # takes the place of its turn's draft, if there is one
    secret: str = ""  # is sent in the place of the text, whole; the ledger, which agents read, has the text


def add_outgoing_message(db: Db, channels: ChannelInstances, new: OutgoingMessage, now: int) -> list[OutboxEffect]:
    """Add the rows, or find those that are there: of this key, or, for a result, of what its turn already said.

    Empty if there is nothing to say.
    """
    return find_or_add(db, channels, new, now)[0]


def find_or_add(db: Db, channels: ChannelInstances, new: OutgoingMessage, now: int) -> tuple[list[OutboxEffect], bool]:
    """The same, and whether they were added."""
    db.lock(LockKind.ROOM, new.instance, new.address)
    parts = _split_parts(channels, new, _find_words(db, channels, new))
    if new.origin != EffectOrigin.RESULT or new.turn_id is None:
        found = find_parts(db, new.key)
    elif parts and outbox.has_effect(db, new.key, new.turn_id, new.instance, new.address, parts[0]):
        found = find_parts(db, new.key) or ([] if new.files else _find_already_sent(db, new, new.turn_id, parts))
    else:
        found = []
    if found:
        return found, False
    draft = growing_drafts.claim(db, new.turn_id, now) if parts and new.grows and new.turn_id is not None else None
    if draft is not None and new.files and parts != [""]:
        parts.append("")  # an edit brings no files: they follow the text
    carrier = len(parts) if draft is not None else 1
    added = [
        _add(db, new, number, part, now, draft if number == 1 else None, new.files if number == carrier else ())
        for number, part in enumerate(parts, start=1)
    ]
    return added, bool(added)


def _find_words(db: Db, channels: ChannelInstances, new: OutgoingMessage) -> str:
    """Our own words are said in the language of whoever reads them."""
    if new.origin is not EffectOrigin.NOTICE:
        return new.text
    return translate(new.text, channels.find_language(db, new.instance, new.address))


def _split_parts(channels: ChannelInstances, new: OutgoingMessage, text: str) -> list[str]:
    kind, text = channels.get_kind(new.instance), clean(text)
    limit = kind.max_text or runner_frames.LONGEST_RESULT
    if kind.max_text and new.files:
        unsent = content_fallback.sort_files(new.files, Op.SEND, kind.features, kind.largest_file)[1]
        if unsent:  # the lines that will name the files go with the first part and need room there
            named = measure(content_fallback.name_files("", unsent), kind.text_unit)
            limit = max(limit - named - 1, limit // 2)
    parts = content_fallback.split_text(text, limit, kind.text_unit)
    if kind.max_text > runner_frames.LONGEST_RESULT:
        parts = [each for part in parts for each in content_fallback.split_text(part, runner_frames.LONGEST_RESULT)]
    return parts or ([""] if new.files else [])


def _key(key: str, number: int) -> str:
    return key if number == 1 else f"{key}/{number}"


def find_parts(db: Db, key: str) -> list[OutboxEffect]:
    """All rows of what was added under a key. The first is added before the others, so none has a later one alone."""
    found: list[OutboxEffect] = []
    while (effect := outbox.find_by_key(db, _key(key, len(found) + 1))) is not None:
        found.append(effect)
    return found


def _find_already_sent(db: Db, new: OutgoingMessage, turn_id: str, parts: list[str]) -> list[OutboxEffect]:
    """The turn's own rows that say exactly this in this room; empty if any part is missing.

    Two messages of one batch may well get the same answer: a row that answers another message does not count.
    """
    found: list[OutboxEffect] = []
    for part in parts:
        same = outbox.list_texts_in_turn(db, turn_id, new.instance, new.address, part, new.in_reply_to)
        if same is None:
            return []
        found.append(same)
    return found


def _add(
    db: Db,
    new: OutgoingMessage,
    number: int,
    part: str,
    now: int,
    draft: int | None,
    files: tuple[OutboundFile, ...],
) -> OutboxEffect:
    hidden: dict[str, str | int] = {"text": new.secret} if new.secret else {}
    if draft is not None:
        hidden[growing_drafts.DRAFT] = draft
    payload = {
        "text": part,
        "in_reply_to": new.in_reply_to,
        "files": [{"name": file.name, "mime": file.mime, "path": file.path, "size": file.size} for file in files],
    }
    return outbox.insert(
        db,
        NewEffect(
            key=_key(new.key, number),
            op=Op.SEND,
            origin=new.origin,
            instance=new.instance,
            address=new.address,
            thread=new.thread,
            topic=new.topic,
            text=part,
            payload=payload,
            hidden=hidden,
            folder=new.folder,
            session_id=new.session_id,
            turn_id=new.turn_id,
            attempt=new.attempt,
            target_id=new.reply_to_id if number == 1 else None,
        ),
        now,
    )


def reserve_file_bytes(db: Db, config: Config, new: NewSentFiles, action: str, now: int) -> None:
    """Refused, with the limit, if these bytes do not fit."""
    db.lock(LockKind.QUOTA, "files", new.folder)
    turn = sent_files.count_turn_bytes(db, new.session_id, new.turn_id, without=new.key)
    group = sent_files.count_group_bytes(db, new.folder, now, without=new.key)
    for sent, limit, span in ((turn, TURN_MB, "in one turn"), (group, GROUP_MB, "of a group within 24 hours")):
        most = config[limit]
        if sent + new.bytes > most * MEGABYTE:
            why = (
                f"files of at most {most} MB are sent {span} ({limit.name}); {_mb(sent)} MB were, and this is"
                f" {_mb(new.bytes)} MB more; send less, or name the path to whoever can read it"
            )
            raise Refused(new.folder, action, why=why)
    sent_files.put(db, new, now)


def _mb(size: int) -> str:
    return f"{size / MEGABYTE:.1f}"

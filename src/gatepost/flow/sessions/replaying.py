"""Replays: the messages of a session, given to a new one with other settings. Nothing that the new one does reaches
anybody: its room is nobody's, its tools only read, its way out leads to models alone, and its group's folder is a copy.

The copy is made first. The new session's rows come last, in one transaction with its messages. So a gateway that is
killed meanwhile leaves a whole replay, or a folder that nobody knows and that retention removes.
"""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from gatepost.core import ids, settings
from gatepost.core.clock import Clock
from gatepost.core.errors import GatepostError, Invalid, NotFound, Refused, Unavailable, did_you_mean
from gatepost.core.event_bus import EventBus
from gatepost.core.files.untrusted_copies import TreeLimits, TreeTooLarge, copy_settled_tree
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.process.thread_pools import FairThreadPool
from gatepost.core.records import replace
from gatepost.core.settings import Config, setting
from gatepost.egress.prices import FILE, find_price, load_own_prices
from gatepost.flow.gateways.folder_check import check_here
from gatepost.flow.group_files import check_skill
from gatepost.flow.sessions.forking import ForkWriter, remove_files
from gatepost.flow.sessions.sandbox.effective_group import MODELS_OPTION, load_effective_group, read_choices, read_names
from gatepost.flow.sessions.session_deps import WINDOW, WINDOW_CHARS
from gatepost.flow.skills.agreements import agree_to_read, change_file
from gatepost.flow.skills.skill_card import ReadSkill
from gatepost.flow.skills.skill_files import MAIN, pack_tree, unpack_tree
from gatepost.messages.inbound import Direction
from gatepost.messages.text import clean
from gatepost.store.messages import inbox, messages
from gatepost.store.messages.inbox import InboxEntry
from gatepost.store.messages.messages import Message, NewMessage
from gatepost.store.port import Db, LockKind, Store
from gatepost.store.rooms import origins
from gatepost.store.rooms.origins import OriginChain
from gatepost.store.sessions import replays, session_files, sessions, skills, turns
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.replays import ContextWindow, ObservedMessage, Replay, StartedReplay
from gatepost.store.sessions.sessions import SESSIONS, Session, SessionMode
from gatepost.store.sessions.skills import SkillSource
from gatepost.tools.call import ReplayWish, ToolCall, run_to_completion

MOST_REPLAYS = setting("sessions.max_replays", 10, help="How many replays a group may have at once; 0: none.")
REPLAY_MB = setting(
    "sessions.replay_mb", 256, help="How large the copy of a group's folder for a replay may be, in MiB."
)
MOST_FILES = 20_000  # of that copy
MOST_TURNS, MOST_MESSAGES = 50, 500  # of one replay
MOST_CONTEXT, LARGEST_CONTEXT = 1000, 1_000_000  # observed messages, and their characters, of one replay
LONGEST_FILE = 100_000  # characters of a changed AGENTS.md
MOST_SKILLS = 20
MIB = 1 << 20
RIGHTS = "agent"  # whoever wrote a message once does not ask for anything now


class ReplayedInput(Struct, frozen=True):
    """The messages that a turn was given to answer, and those that it was shown beside them; both oldest first."""

    turn_id: str
    pairs: list[tuple[InboxEntry, Message]]
    context: list[ObservedMessage]

    def list_messages(self) -> list[Message]:
        return [message for _, message in self.pairs] + [each.message for each in self.context]


class ReplaySource(Struct, frozen=True):
    """The turns that are repeated, oldest first."""

    session: Session
    group: Group  # with the provider that the replay has
    turns: list[ReplayedInput]


class SessionReplayer:
    def __init__(
        self, home: Home, store: Store, clock: Clock, config: Config, events: EventBus, threads: FairThreadPool
    ) -> None:
        self._home, self._store, self._clock, self._config = home, store, clock, config
        self._events, self._threads = events, threads

    async def replay_session(self, call: ToolCall, source_id: str, wish: ReplayWish) -> StartedReplay:
        """For an agent. The person who asked for it is behind the replay, and pays for it."""
        chain = await call.read(call.chain)
        return await self.start(source_id, wish, call.caller.folder, call.write, chain)

    async def start(
        self, source_id: str, wish: ReplayWish, by: str, write: ForkWriter, chain: OriginChain | None = None
    ) -> StartedReplay:
        """The person who asked may be gone before it is done: it is done or undone all the same."""
        return await run_to_completion(self._start(source_id, wish, by, write, chain or OriginChain()))

    async def _start(
        self, source_id: str, wish: ReplayWish, by: str, write: ForkWriter, chain: OriginChain
    ) -> StartedReplay:
        wish = check_wish(wish)
        source = await self._store.read(self._read_source, source_id, wish, by)
        replay_id, done = ids.new("s"), False
        folder = source.session.folder
        await check_here(self._store, self._home, folder)
        if wish.model:
            await self._threads.run(f"replay {folder}", check_model, self._home, self._config, source.group, wish.model)
        changed = [await self._change_skill(folder, name, text, by) for name, text in wish.skills.items()]
        try:
            there = await self._prepare(source, wish, replay_id)
            made = await write(lambda db: self._record(db, source, wish, by, replay_id, there, chain, changed))
            done = True
        finally:
            if not done:
                with suppress(GatepostError, OSError):
                    await self._threads.run(f"replay {folder}", remove_files, self._home, replay_id)
        self._events.session(replay_id)
        return made

    def _read_source(self, db: Db, source_id: str, wish: ReplayWish, by: str) -> ReplaySource:
        session = sessions.get(db, source_id)
        if session is None:
            raise NotFound("session", source_id[:80], "`gatepost session list` shows them")
        if session.instance == replays.INSTANCE:
            raise Invalid("id", f"{session.id} is a replay itself; name the session that it repeats")
        self._check_quota(db, session.folder, by)
        group = load_effective_group(db, self._config, session.folder, wish.provider or session.provider)
        if group is None:
            raise NotFound("group", session.folder, "it was removed")
        latest = turns.list_for_session(db, session.id, 2**62, min(max(wish.turns, 1), MOST_TURNS))
        inputs = {each.id: replays.list_inputs(db, each.id) for each in latest if each.ended_at}
        if not any(inputs.values()):
            raise Invalid("id", f"{session.id} has answered nothing yet that could be replayed")
        if sum(map(len, inputs.values())) > MOST_MESSAGES:
            raise Invalid("turns", f"these turns have more than {MOST_MESSAGES} messages; replay fewer")
        window = self._get_window(session, group)
        return ReplaySource(session, group, _add_context(db, session, inputs, window))

    def _get_window(self, session: Session, group: Group) -> ContextWindow:
        """As the source's own turns are shown it."""
        most = group.window_messages if session.window_messages is None else session.window_messages
        chars = group.window_chars if session.window_chars is None else session.window_chars
        return ContextWindow(
            min(self._config[WINDOW] if most is None else most, MOST_CONTEXT),
            min(self._config[WINDOW_CHARS] if chars is None else chars, LARGEST_CONTEXT),
        )

    def _check_quota(self, db: Db, folder: str, by: str) -> None:
        db.lock(LockKind.QUOTA, "replays", folder)
        most = self._config[MOST_REPLAYS]
        if replays.count_open(db, folder) >= most:
            why = f"this group has {most} replays, which is all it may; close one with `gatepost session close ID`"
            raise Refused(by, "replay a conversation", folder, why)

    async def _prepare(self, source: ReplaySource, wish: ReplayWish, replay_id: str) -> set[str]:
        """The copy of the group's folder, with what is changed. The files of messages that are still there."""
        folder = source.session.folder
        limits = TreeLimits(self._config[REPLAY_MB] * MIB, MOST_FILES)
        names = {
            str(each.get("path"))
            for turn in source.turns
            for message in turn.list_messages()
            for each in message.content.get("attachments") or ()
        }
        given = (self._home, folder, replay_id, wish, limits, names)
        try:
            return await self._threads.run(f"replay {folder}", prepare_copy, *given)
        except TreeTooLarge as error:
            why = f"the files of the group are too many for a copy: {error.why} (sessions.replay_mb)"
            raise Refused(folder, "replay a conversation", source.session.id, why) from None
        except OSError as error:
            raise Unavailable("a replay", error.strerror or str(error)) from None

    async def _change_skill(self, folder: str, name: str, text: str, by: str) -> tuple[ReadSkill, bytes]:
        """Return a skill of the group with another SKILL.md, or a new one."""

        def make() -> tuple[ReadSkill, bytes]:
            agreed = unpack_tree(pack) if pack is not None else None
            now = self._clock.now()
            changed = change_file(agreed, name, MAIN, text.encode(), SkillSource.REPLAY, now, by)
            return changed, pack_tree(changed.tree)

        pack = await self._store.read(_find_pack, folder, name)
        return await self._threads.run(f"replay {folder}", make)

    def _record(
        self,
        db: Db,
        source: ReplaySource,
        wish: ReplayWish,
        by: str,
        replay_id: str,
        there: set[str],
        chain: OriginChain,
        changed: Sequence[tuple[ReadSkill, bytes]],
    ) -> StartedReplay:
        now, session = self._clock.now(), source.session
        self._check_quota(db, session.folder, by)
        made = _add_session(db, session, wish, source.group.provider, replay_id, now)
        changes = render_changes(wish)
        new = Replay(replay_id, session.id, session.folder, changes, by, now)
        replays.add(db, new, [each.turn_id for each in source.turns], msgspec.json.encode(changes).decode())
        session_files.inherit(db, session.id, replay_id)
        for skill, pack in changed:
            agree_to_read(db, session.folder, skill, pack, by, now, session_id=replay_id)
        for number, turn in enumerate(source.turns, start=1):
            for place, (entry, message) in enumerate(turn.pairs):
                seen = turn.context if place == 0 else []
                message_id = messages.accept(db, _copy_message(made, number, entry, message, seen, there), now)
                assert message_id is not None  # its session is new
                if chain.origins:
                    origins.add_next_step(db, message_id, chain)
                inbox.enqueue(db, message_id, made.id, made.folder, RIGHTS, now)
        return StartedReplay(replay_id, session.id, session.folder, len(source.turns), replay_id)


def check_wish(wish: ReplayWish) -> ReplayWish:
    """With its texts as they may be written."""
    if len(wish.agents_md) > LONGEST_FILE:
        raise Invalid("agents_md", f"has more than {LONGEST_FILE} characters")
    if len(wish.skills) > MOST_SKILLS:
        raise Invalid("skill", f"at most {MOST_SKILLS} skills can be changed in one replay")
    skills = {name: check_skill(name, text) for name, text in wish.skills.items()}
    return replace(wish, agents_md=clean(wish.agents_md), skills=skills)


def check_model(home: Home, config: Config, group: Group, model: str) -> None:
    """Raise Invalid for a model that no call of the replay could ask: it has no price, and its group does not name
    it."""
    named = {group.model, *(read_names(group.options.get(MODELS_OPTION)) or ())}
    own = load_own_prices(home, settings.load_declared(home.path, FILE))
    if model in named or find_price(model, own) is not None:
        return
    choices = read_choices(home, config)
    spec = choices.specs.get(group.provider)
    if spec is not None and spec.vendor:
        near = did_you_mean(model, [*named, *choices.models.get(group.provider, ())])
        command = f"gatepost price set {shlex.quote(model[:100])} IN/OUT"
        raise Invalid("model", f"{model[:100]!r} has no price{near or f'; `{command}` gives it one'}")


def render_changes(wish: ReplayWish) -> dict[str, str]:
    """Return what is not as it was, for people: a text is named and not repeated."""
    named = {"provider": wish.provider, "model": wish.model, "AGENTS.md": "changed" if wish.agents_md else ""}
    named |= {f"skills/{name}": "changed" for name in sorted(wish.skills)}
    return {name: value for name, value in named.items() if value}


def prepare_copy(
    home: Home, folder: str, replay_id: str, wish: ReplayWish, limits: TreeLimits, names: set[str]
) -> set[str]:
    with open_untrusted(home.sessions) as root:
        root.make_dir(replay_id, 0o700)
    place = home.replay_copy(replay_id)
    if copy_settled_tree(home.group(folder), place, limits) is None:
        raise Unavailable("a replay", "the group's folder is being written to; try again when its agents rest")
    with open_untrusted(place) as copy:
        if wish.agents_md:
            copy.write_bytes("AGENTS.md", wish.agents_md.encode())
    with open_untrusted(home.media) as media:
        return {name for name in names if media.exists(name)}


def _find_pack(db: Db, folder: str, name: str) -> bytes | None:
    rows = [each for each in skills.list_for_agent(db, folder) if each.name == name]
    return skills.get_pack(db, rows[0].digest) if rows else None


def _add_session(db: Db, source: Session, wish: ReplayWish, provider: str, replay_id: str, now: int) -> Session:
    """With the source's own model and mode, unless another provider is chosen: both belong to their provider."""
    same = not wish.provider or wish.provider == source.provider
    address = replays.get_address(replay_id)
    return SESSIONS.put(
        db,
        id=replay_id,
        key=sessions.key_of(SessionMode.SHARED, source.folder, replays.INSTANCE, address, ""),
        folder=source.folder,
        mode=SessionMode.SHARED,
        instance=replays.INSTANCE,
        address=address,
        thread="",
        provider=wish.provider or source.provider,
        title=f"replay of {source.id}",
        model=wish.model or (source.model if same else ""),
        permission_mode=source.permission_mode if same else "",
        created_at=now,
        active_at=now,
    )


def _add_context(
    db: Db, session: Session, inputs: dict[str, list[tuple[InboxEntry, Message]]], window: ContextWindow
) -> list[ReplayedInput]:
    found = []
    messages_left, chars_left = MOST_CONTEXT, LARGEST_CONTEXT
    for turn_id, pairs in inputs.items():
        if not pairs:
            continue
        context = replays.list_context(db, session.id, turn_id, window)
        messages_left -= len(context)
        chars_left -= sum(len(each.message.text) for each in context)
        if messages_left < 0 or chars_left < 0:
            raise Invalid("turns", "these turns observed more than a replay can hold; replay fewer")
        found.append(ReplayedInput(turn_id, pairs, context))
    return found


def _copy_content(message: Message, there: set[str], prefix: str = "") -> dict[str, Any]:
    """With those of its files that are still there. `prefix`: before their names, where several messages share a
    folder."""
    content: dict[str, Any] = dict(message.content)
    if content.get("attachments"):
        content["attachments"] = [
            {**each, "name": f"{prefix}{each['name']}"}
            for each in content["attachments"]
            if str(each.get("path")) in there
        ]
    return content


def _copy_message(
    replay: Session,
    number: int,
    entry: InboxEntry,
    message: Message,
    context: Sequence[ObservedMessage],
    there: set[str],
) -> NewMessage:
    """As the agent saw it. It is nobody's: who wrote it once neither pays for the replay nor lends it a key. The
    context goes with it, and not as rows of its own: all turns wait at once, and each is shown its own."""
    content = _copy_content(message, there)
    if context:
        content["observed"] = [
            {
                "kind": each.message.kind,
                "at": each.message.at,
                "content": _copy_content(each.message, there, f"{each.seq}-"),
            }
            for each in context
        ]
    return NewMessage(
        instance=replay.instance,
        address=replay.address,
        thread=str(number),
        direction=Direction.IN,
        kind=message.kind,
        verb=message.verb,
        sender=f"agent:{replay.folder}",
        sender_name=message.sender_name,
        text=message.text,
        at=message.at,
        platform_id=f"replay/{entry.id}",
        content=msgspec.json.encode(content).decode(),
        folder=replay.folder,
    )

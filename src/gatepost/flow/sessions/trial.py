"""A trial: one turn in a session of its own, to see whether an agent would answer. Everything on its way is real: the
sandbox, the provider, the tools, the way out, the endpoint, the money.

Nothing that is tried is in force for anybody else: key, endpoint and model are this session's alone. The session is
in a room where nobody is, and is closed and cleared away at the end, however that comes; the ledger keeps its rows.
"""

import asyncio
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.keyring import Keyring
from gatepost.core.records import replace
from gatepost.egress.contract import Spender
from gatepost.egress.model_proxy import ModelProxy
from gatepost.egress.prices import Price, PriceList
from gatepost.flow.group_egress import SpenderSecrets, StoreBudget
from gatepost.flow.reports import TrialOutcome
from gatepost.flow.sessions.awake_session import AwakeSession
from gatepost.flow.sessions.sandbox import sandbox_plan
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.session_ending import Ending
from gatepost.flow.sessions.session_supervisor import SessionSupervisor
from gatepost.mailbox.runner_frames import TurnErrorClass
from gatepost.messages.inbound import Direction
from gatepost.store.messages import inbox, messages, outbox
from gatepost.store.messages.inbox import InboxState
from gatepost.store.messages.messages import NewMessage
from gatepost.store.money import costs
from gatepost.store.port import Db
from gatepost.store.rights import switches
from gatepost.store.rights.secrets import SecretReader
from gatepost.store.sessions import groups, sessions, turns
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.sessions import Session, SessionMode
from gatepost.tools.call import Caller

PROMPT = "This is a test of the connection. Use no tool. Answer with one word: ready"
INSTANCE, OWNER, RIGHTS = "terminal", "terminal:owner", "owner"
OVER = "the trial is over"
MOST_SAID, LONGEST_SAID = 20, 2000  # messages of the agent that are shown, and characters of each
NO_PRICE = re.compile(r"'([^']{1,100})' has no price")
_NETWORK = ("cannot be reached", "does not answer", "broke off", "sent us elsewhere")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRequest:
    """The agent that is to be tried."""

    id: str
    folder: str
    provider: str
    model: str = ""  # '': the provider's own
    options: Mapping[str, Any] = field(default_factory=dict)
    secrets: Mapping[str, str | None] = field(default_factory=dict, repr=False)  # None: as if there were none
    settings: Mapping[str, str] = field(default_factory=dict)
    price: Price | None = None  # of the model, where it is to have one that is not listed
    limit_s: float = 120.0

    @property
    def address(self) -> str:
        return f"{sessions.TRIAL_ROOMS}{self.id}"


class _TrialKeys:
    """The keys that were brought for the trial, before those that are stored."""

    def __init__(self, brought: Mapping[str, str | None], stored: SpenderSecrets) -> None:
        self._brought, self._stored = brought, stored

    async def get(
        self, name: str, spender: Spender, purpose: str = "model", origins: tuple[str, ...] | None = None
    ) -> str | None:
        if name in self._brought:
            return self._brought[name]
        return await self._stored.get(name, spender, purpose, origins)


async def run_trial(host: SessionSupervisor, wish: TrialRequest) -> TrialOutcome:
    """Run the turn. Raises NotFound and Invalid for what cannot be tried at all."""
    group = await host.deps.store.read(groups.get, wish.folder)
    if group is None:
        raise NotFound("group", wish.folder, "`gatepost group list` shows them")
    if await host.deps.store.read(switches.get, switches.PANIC) is not None:
        return TrialOutcome(trouble="stopped", reason="everything is stopped here (`gatepost panic`)")
    config = host.deps.config.with_values(wish.settings, "connect") if wish.settings else host.deps.config
    group = replace(group, provider=wish.provider, model=wish.model, options={**group.options, **wish.options})
    try:
        sandbox, _ = await asyncio.to_thread(
            sandbox_plan.choose_sandbox, config, group, wish.provider, host.deps.sandboxes
        )
    except GatepostError as error:
        return TrialOutcome(trouble="sandbox", reason=str(error))
    listed = PriceList(host.deps.home, config)

    def prices(model: str) -> Price | None:
        return wish.price if wish.price is not None and model == wish.model else listed(model)

    if wish.model and prices(wish.model) is None and wish.provider != sandbox_plan.DEMO:
        return TrialOutcome(trouble="price", reason=f"{wish.model!r} has no price", sandbox=sandbox)
    deps = replace(host.deps, config=config)
    purse = StoreBudget(deps.store, deps.clock, deps.channels, deps.events)
    keys = _TrialKeys(
        wish.secrets, SpenderSecrets(deps.store, SecretReader(deps.store, Keyring(deps.home), deps.clock))
    )
    models = ModelProxy(config, purse, keys, prices, listed.tool)
    deps = replace(deps, egress=replace(deps.egress, models=models))
    return replace(await _run(host, deps, group, wish, models), sandbox=sandbox)


async def _run(
    host: SessionSupervisor, deps: SessionDeps, group: Group, wish: TrialRequest, models: ModelProxy
) -> TrialOutcome:
    session, message_id = await deps.store.write(start_trial_session, wish, deps.clock.now())
    over, began = asyncio.Event(), time.monotonic()
    live = AwakeSession(deps, session, group, wish.provider, over.set)
    trouble, reason = "", ""
    with host.adopt(live):
        running = asyncio.create_task(live.run())
        ended = asyncio.create_task(over.wait())
        try:
            await asyncio.wait({running, ended}, timeout=wish.limit_s, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done() and not running.done():
                trouble, reason = "time", f"it did not answer within {wish.limit_s:g} s"
            elif not over.is_set() or live.runner.failure is not None or live.ending:
                trouble, reason = _find_failure(live, running)
        finally:
            ended.cancel()
            live.kill(Ending.by_person(OVER))
            await asyncio.wait({running})
            await models.close()
            answer, micro, used = await deps.store.write(_end_trial_session, session.id, message_id, deps.clock.now())
            await asyncio.to_thread(_clear, deps.home, session.id)
    with suppress(GatepostError):
        running.result()  # told above
    seen = Caller(folder=group.folder, session_id=session.id, provider=wish.provider)
    if not trouble and not answer:
        trouble, reason = "agent", "it ended its turn without a word"
    return TrialOutcome(
        trouble=trouble,
        reason=reason,
        answer=answer,
        tools=len(await deps.dispatch.visible_to(seen)),
        micro=micro,
        models=used,
        seconds=time.monotonic() - began,
    )


def _find_failure(live: AwakeSession, running: "asyncio.Task[None]") -> tuple[str, str]:
    """The class of what went wrong, and its words."""
    failure, words = live.runner.failure, live.runner.last_words
    if failure is not None:
        return classify_failure(failure.error_class, failure.error or "the agent failed")
    if live.ending:
        return "stopped", live.ending.cause
    error = running.exception() if running.done() and not running.cancelled() else None
    if error is not None:
        return "sandbox", str(error) if isinstance(error, GatepostError) else "the gateway's log says why"
    return "agent", " ".join(words.why.split())[:500] if words else "its sandbox ended before it answered"


def classify_failure(error_class: str, text: str) -> tuple[str, str]:
    """From what a provider says about its failure to what an operator can do about it."""
    if found := NO_PRICE.search(text):
        return "price", f"{found[1]!r} has no price"
    if error_class == TurnErrorClass.AUTH or "refuses the gateway's key" in text or "there is no key" in text:
        return "auth", text
    if error_class in (TurnErrorClass.QUOTA, TurnErrorClass.BUDGET):
        return error_class, text
    if any(each in text for each in _NETWORK):
        return "network", text
    if error_class == TurnErrorClass.NETWORK:
        return "network", text
    return ("busy" if error_class in (TurnErrorClass.RETRYABLE, TurnErrorClass.OVERLOAD) else "agent"), text


def start_trial_session(db: Db, wish: TrialRequest, now: int) -> tuple[Session, int]:
    session = sessions.find_or_add(db, SessionMode.PER_THREAD, wish.folder, INSTANCE, wish.address, "", now)
    if session.next_seq > 1:
        raise Invalid("id", f"a trial {wish.id!r} is under way")
    content = {"text": PROMPT, "sender": OWNER, "senderId": OWNER, "senderName": "Owner", "verb": "message"}
    message_id = messages.accept(
        db,
        NewMessage(
            instance=INSTANCE,
            address=wish.address,
            direction=Direction.IN,
            platform_id=wish.id,
            sender=OWNER,
            sender_name="Owner",
            text=PROMPT,
            content=json.dumps(content),
            at=now,
        ),
        now,
    )
    assert message_id is not None
    inbox.enqueue(db, message_id, session.id, wish.folder, RIGHTS, now)
    sessions.set_title(db, session.id, "connect")
    return session, message_id


def _end_trial_session(db: Db, session_id: str, message_id: int, now: int) -> tuple[str, int, tuple[str, ...]]:
    """Return what it said, what it cost and what it ran on; then nothing of it is open any more."""
    said = [
        each.text[:LONGEST_SAID]
        for entry in inbox.list_for_message(db, message_id)
        for each in (outbox.list_done_in_turn(db, entry.turn_id, MOST_SAID, LONGEST_SAID) if entry.turn_id else [])
    ]
    turn = turns.find_open(db, session_id)
    if turn is not None:
        turns.cancel(db, turn.id, OVER, now)
    for entry, _ in inbox.list_open(db, session_id):
        inbox.set_state(db, entry.id, InboxState.CANCELLED, OVER, None, now)
    outbox.cancel_unsent(db, session_id, OVER, now)
    sessions.close(db, session_id, now)
    return "\n".join(said).strip(), costs.sum_for_session(db, session_id), costs.list_models(db, session_id)


def end_leftover_trials(db: Db, now: int) -> list[str]:
    """The sessions of trials that a daemon was killed in: nobody waits for their answers, and the group's own provider
    was not meant. They are known by their only message, whose id is the room's name; nobody else writes such a one."""
    ended = []
    for session in sessions.list_open(db):
        name = session.address.removeprefix(sessions.TRIAL_ROOMS)
        first = (
            messages.find(db, INSTANCE, session.address, Direction.IN, name) if session.instance == INSTANCE else None
        )
        if first is not None and first.text == PROMPT:
            _end_trial_session(db, session.id, first.id, now)
            ended.append(session.id)
    return ended


async def remove_leftover_trials(deps: SessionDeps) -> None:
    """Before anything is woken."""
    for session_id in await deps.store.write(end_leftover_trials, deps.clock.now()):
        await asyncio.to_thread(_clear, deps.home, session_id)


def _clear(home: Home, session_id: str) -> None:
    with suppress(FileNotFoundError, GatepostError), open_untrusted(home.sessions) as root:
        root.remove_tree(session_id)

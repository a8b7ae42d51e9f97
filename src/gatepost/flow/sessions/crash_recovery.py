"""After a crash: end what the last daemon left, and continue its turns. Runs once, before anything is served."""

from contextlib import suppress

from gatepost.core.errors import GatepostError
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.flow.sessions import turn_settlement
from gatepost.flow.sessions.session_deps import SessionDeps
from gatepost.flow.sessions.trial import remove_leftover_trials
from gatepost.sandboxes.contract import SandboxKind
from gatepost.store.money import ledger
from gatepost.store.port import Db
from gatepost.store.rights import waiting_requests
from gatepost.store.sessions import sessions, sleeping_turns, turns
from gatepost.store.sessions.turn_failures import FailureCause, TurnRetryPolicy
from gatepost.store.sessions.turns import Turn, TurnState

RESTARTED = "the gateway was restarted"
MOST_RESTARTS = 5  # ends of the gateway that a turn outlives without using up its continuation


def sweep_leftovers(home: Home, kinds: list[SandboxKind], prefix: str) -> int:
    """Sandboxes, cgroups, sockets and local mailboxes of a daemon that is gone: we hold the lock, so nobody else can be
    using them."""
    ended = sum(kind.sweep(prefix) for kind in kinds)
    with suppress(FileNotFoundError, GatepostError), open_untrusted(home.run) as run:
        for name in run.list("s"):
            run.remove_tree(f"s/{name}")
    if home.shared is not None:
        with suppress(FileNotFoundError, GatepostError), open_untrusted(home.mailboxes) as mailboxes:
            for name in mailboxes.list(""):
                mailboxes.remove_tree(name)
    return ended


async def continue_turns(deps: SessionDeps) -> None:
    """Continue the turns that the last daemon had open. Its end is not the messages' fault, so nothing is counted
    against them. A turn that waits for a person cannot have ended the gateway, so it may be continued as often as that
    happens. Any other is continued a few times, with growing pauses, lest it be what ends the gateway. From then on an
    end of the gateway counts as one of the sandbox does."""
    await remove_leftover_trials(deps)
    await deps.store.write(ledger.reset_due_times, deps.clock.now())
    await deps.store.write(sleeping_turns.defer_sleeping, deps.clock.now())
    for turn in await deps.store.read(turns.list_open):
        session = await deps.store.read(sessions.get, turn.session_id)
        if session is not None and turn.state == TurnState.INTERRUPTED:
            await turn_settlement.report_continuation(deps, session, turn)
        elif session is not None:
            cause = await deps.store.read(make_restart_cause, deps, turn)
            await turn_settlement.settle_broken_turn(deps, session, turn, cause)


def make_restart_cause(db: Db, deps: SessionDeps, turn: Turn) -> FailureCause:
    waits = waiting_requests.is_turn_waiting(db, turn.id)
    keeps_continuation = waits or turn.spared < MOST_RESTARTS
    wait = None if waits else _pause(turn, deps.policy)
    return FailureCause(reason=RESTARTED, wait=wait, counts_as_failure=False, keeps_continuation=keeps_continuation)


def _pause(turn: Turn, policy: TurnRetryPolicy) -> int | None:
    """Before a turn goes on that was spared before: others are served meanwhile, and a supervisor that gives up on a
    process which ends too often does not."""
    if turn.state != TurnState.BEGUN or not turn.spared:
        return None
    return min(policy.base << (turn.spared - 1), policy.longest)

"""Replays of sessions: repeat one with other settings, and compare both."""

from gatepost.core.errors import NotFound
from gatepost.flow.sessions.replaying import SessionReplayer
from gatepost.serve.control.arguments.replays import CompareReplayArgs, ReplayComparison, ReplaySessionArgs
from gatepost.serve.control.contract import OperationDeps, operation, read_operation
from gatepost.serve.control.operations.groups import check_provider
from gatepost.store.port import Db
from gatepost.store.sessions import replays
from gatepost.store.sessions.replays import StartedReplay
from gatepost.tools.call import ReplayWish

LONGEST_COMPARED = 20_000  # characters of each text


@operation
async def replay(deps: OperationDeps, args: ReplaySessionArgs) -> StartedReplay:
    replayer = deps.extra.get("replayer")
    assert isinstance(replayer, SessionReplayer), "only a running gateway replays"
    wish = ReplayWish(
        provider=check_provider(deps.home, args.provider),
        model=args.model,
        agents_md=args.agents_md,
        skills=args.skill,
        turns=args.turns,
    )
    return await replayer.start(args.id, wish, deps.caller, deps.write)


@read_operation
def compare(db: Db, args: CompareReplayArgs, now: int) -> ReplayComparison:
    found = replays.get(db, args.id)
    if found is None:
        raise NotFound("replay", args.id, "`gatepost session replay ID` makes one")
    both = replays.compare(db, found, LONGEST_COMPARED)
    return ReplayComparison(
        id=found.session_id,
        source=found.source_id,
        folder=found.folder,
        changes=found.changes,
        finished=all(each.replayed is not None and each.replayed.took is not None for each in both),
        turns=both,
    )

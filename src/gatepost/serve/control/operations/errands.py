"""Errands: list and show them."""

from gatepost.core.clock import SECOND
from gatepost.core.errors import NotFound
from gatepost.core.records import extend
from gatepost.serve.control.arguments.errands import ErrandDetails, ErrandView, ListErrandsArgs, ShowErrandArgs
from gatepost.serve.control.contract import read_operation
from gatepost.store.messages import messages
from gatepost.store.port import Db
from gatepost.store.rooms import origins
from gatepost.store.sessions import errands, groups
from gatepost.store.sessions.errands import Errand

LONGEST_SHOWN = 20_000  # characters of what was asked, and of what came back
MOST_ABOVE = 50  # more than any chain may have
MOST_BELOW = 100


@read_operation
def list_errands(db: Db, args: ListErrandsArgs, now: int) -> list[ErrandView]:
    if args.folder and not any(f"{each.folder}/".startswith(f"{args.folder}/") for each in groups.list_all(db)):
        raise NotFound("group", args.folder, "`gatepost group list` shows them")
    found = errands.list_page(db, args.folder, args.before, args.limit, only_open=args.open)
    return [_make_view(db, each, now) for each in found]


@read_operation
def show(db: Db, args: ShowErrandArgs, now: int) -> ErrandDetails:
    errand = errands.get(db, args.id)
    if errand is None:
        raise NotFound("errand", args.id[:80], "`gatepost errand list` shows them")
    chain = origins.get_inherited(db, errand.message_id)
    return extend(
        ErrandDetails,
        _make_view(db, errand, now),
        people=list(dict.fromkeys(each.person for each in chain.origins if each.person)),
        above=_list_above(db, errand),
        below=errands.list_ids_below(db, errand.id, MOST_BELOW),
        asked=_read_text(db, errand.message_id),
        answer=_read_text(db, errand.result_id),
    )


def _make_view(db: Db, errand: Errand, now: int) -> ErrandView:
    return ErrandView(
        id=errand.id,
        caller_folder=errand.caller_folder,
        caller_session=errand.caller_session,
        folder=errand.folder,
        session_id=errand.session_id,
        depth=origins.get_inherited(db, errand.message_id).depth,
        state=errand.state,
        reason=errand.reason,
        cost=errands.sum_costs(db, errand, now),
        created_at=errand.created_at,
        ended_at=errand.ended_at,
        age_s=((errand.ended_at or now) - errand.created_at) / SECOND,
        instance=errand.instance,
        address=errand.address,
        thread=errand.thread,
    )


def _list_above(db: Db, errand: Errand) -> list[str]:
    found: list[str] = []
    above: Errand | None = errand
    while above is not None and above.parent and len(found) < MOST_ABOVE:
        found.append(above.parent)
        above = errands.get(db, above.parent)
    return found


def _read_text(db: Db, message_id: int | None) -> str:
    message = messages.get(db, message_id) if message_id is not None else None
    return message.text[:LONGEST_SHOWN] if message is not None else ""

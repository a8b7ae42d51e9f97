"""Errands: what agents gave to other agents to do."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import argument, option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.sessions.errands import ErrandState

READ = "errands.read"


class ErrandView(Struct, frozen=True, kw_only=True):
    """An errand. `depth`: the steps from agent to agent behind it. `cost`: of its own turns, in millionths. `age_s`:
    until now, or until its end. `instance`, `address`, `thread`: where the result goes."""

    id: str
    caller_folder: str
    caller_session: str
    folder: str
    session_id: str
    depth: int
    state: ErrandState
    reason: str
    cost: int
    created_at: int
    ended_at: int | None
    age_s: float
    instance: str
    address: str
    thread: str


class ErrandDetails(ErrandView, frozen=True, kw_only=True):
    """`people`: on whose behalf it is done. `above`: the errands in whose work it was given out, the nearest first.
    `below`: those that were given out for it."""

    people: list[str]
    above: list[str]
    below: list[str]
    asked: str
    answer: str


@declares("errand.list", right=READ, reads=True)
class ListErrandsArgs(OperationArgs[list[ErrandView]], frozen=True):
    """Errands, the newest first: who asked whom, how far from the person, the state, the cost and the age."""

    folder: Annotated[str, option("Only those that this group or one below it gave out or has to do.", scope=True)] = ""
    open: Annotated[bool, option("Only those that have not returned yet.")] = False
    before: Annotated[str, option("Only those older than this one.", metavar="ID")] = ""
    limit: Annotated[int, option("At most so many.", least=1, most=1000)] = 100


@declares("errand.show", right=READ, reads=True)
class ShowErrandArgs(OperationArgs[ErrandDetails], frozen=True):
    """One errand: who is behind it, the errands above and below it, what was asked, and what came back."""

    id: Annotated[str, argument("The errand's id, as `errand list` shows it.", "errand")]

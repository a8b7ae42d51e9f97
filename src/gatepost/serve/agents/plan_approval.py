"""A plan that was approved: in which mode its agent goes on, and with which prompt. Written in the transaction of the
approval, so neither is there without the other, and each once."""

from gatepost.core.errors import Invalid
from gatepost.core.home import Home
from gatepost.serve.agents.modes import check_mode
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.rights.requests import Request, RequestKind
from gatepost.store.rooms import origins
from gatepost.store.sessions import agents, sessions


def apply_approved_plan(db: Db, home: Home, asked: Request, by: str, name: str, now: int) -> bool:
    """Apply a plan that a person has approved. Return True if the agent gets its answer from here.

    The plan came from the sandbox and is not trusted: its words are a prompt of that agent, and its mode must be a
    known one.
    """
    session = sessions.get(db, asked.session_id) if asked.session_id is not None else None
    if asked.kind != RequestKind.PLAN or session is None:
        return False
    if asked.next_mode:
        try:
            agents.set_permission_mode(db, session.id, check_mode(home, session.provider, asked.next_mode))
        except Invalid as error:
            raise Invalid(
                "requestId", f"{asked.id} cannot be allowed, only denied: its plan asks for {error}"
            ) from None
    if asked.follow_up:
        chain = origins.get_for_turn(db, asked.turn_id)  # the agent's own words, whoever approves them
        agents.add_prompt(db, session, asked.follow_up, by, name, inbox.InboxMode.NEXT, now, chain)
    return bool(asked.next_mode or asked.follow_up)

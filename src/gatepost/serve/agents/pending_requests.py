"""Requests of agents and people, over all of them: a list, and one of them by what somebody calls it.

Beside that, a plan that was approved, and an answer in the shape in which whoever asks takes it.
"""

from collections.abc import Mapping
from typing import Any

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.home import Home
from gatepost.flow.requests.choices import GROUP, MODEL, PRICE
from gatepost.flow.requests.questions import ANSWERS, AgentQuestion, find_choice, find_own_words, parse_questions
from gatepost.serve.agents.providers import check_mode
from gatepost.serve.agents.views import ViewContext, make_pending_request, read_state
from gatepost.serve.control.arguments.agents import PendingRequest, RequestingAgent
from gatepost.store.messages import inbox
from gatepost.store.port import Db
from gatepost.store.rights import requests, waiting_requests
from gatepost.store.rights.requests import Request, RequestKind
from gatepost.store.rooms import origins
from gatepost.store.sessions import agents, sessions

SHORTEST = 4  # beginning of an id
MOST_LISTED = 200
HOW_TO_ANSWER = 'a question is answered by {"answers": {"the question": "your answer"}}'


def list_pending(
    db: Db, viewer: ViewContext, after: str = "", most: int = MOST_LISTED
) -> list[tuple[RequestingAgent, PendingRequest]]:
    """Return what waits for an answer, the oldest first; behind the request `after`, which need not wait any more."""
    last = requests.get(db, after) if after else None
    if after and last is None:
        raise NotFound("request", after, "give the id of the last one of a list")
    known: dict[str, RequestingAgent] = {}
    found = []
    for each in waiting_requests.list_waiting(db, last, most):
        who = each.session_id or each.folder
        if who not in known:
            known[who] = _make_agent(db, each, viewer)
        found.append((known[who], make_pending_request(each)))
    return found


def _make_agent(db: Db, request: Request, viewer: ViewContext) -> RequestingAgent:
    """Describe who asks: the agent of the request's session, or the group if a person asks to be let in."""
    session = sessions.get(db, request.session_id) if request.session_id is not None else None
    return RequestingAgent(
        agent_id=session.id if session is not None else "",
        title=session.title if session is not None else request.folder,
        type=session.provider if session is not None else "",
        folder=request.folder,
        status=read_state(db, session, viewer) if session is not None else None,
    )


def find_request(db: Db, named: str) -> Request | None:
    """By its id, waiting or not, or the beginning of one that waits."""
    found = requests.get(db, named)
    if found is not None or len(named) < SHORTEST:
        return found
    near = waiting_requests.list_ids_by_prefix(db, named)
    if len(near) > 1:
        raise _ambiguous_error(named, near)
    return requests.get(db, near[0]) if near else None


def get_only_request(db: Db, session_id: str, named: str) -> Request | None:
    """Return what an agent asks, if it is one thing."""
    found = waiting_requests.list_pending(db, session_id)
    if len(found) > 1:
        raise _ambiguous_error(named, [each.id for each in found])
    return found[0] if found else None


def _ambiguous_error(named: str, ids: list[str]) -> Invalid:
    return Invalid("request", f"{named!r} means several requests: {', '.join(ids[:5])}")


def apply_approved_plan(db: Db, home: Home, asked: Request, by: str, name: str, now: int) -> bool:
    """Apply a plan that a person has approved, and return True if the agent gets its answer from here.

    The mode in which the agent goes on and its prompt are written in the transaction of the approval, so neither is
    there without the other, and each once. The plan came from the sandbox and is not trusted: its words are a prompt of
    that agent, and its mode must be a known one.
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


def make_answers(asked: PendingRequest, texts: list[str]) -> dict[str, Any]:
    """Return what a request is allowed with: answers to a question, the group for a room, the model for a budget, or
    the price of a model. Nothing for what is none of these."""
    if asked.kind == RequestKind.ROOM and len(texts) == 1:
        return {GROUP: texts[0]}
    if asked.kind == RequestKind.BUDGET and len(texts) == 1:
        return {MODEL: texts[0]}
    if asked.kind == RequestKind.PRICE and len(texts) == 1:
        return {PRICE: texts[0]}
    if asked.kind != RequestKind.QUESTION:
        if texts:
            raise Invalid("--answer", f"{asked.id} is no question; allow it or deny it")
        return {}
    questions = parse_questions(asked.input)
    if len(texts) != max(len(questions), 1):
        many = f", {len(questions)} times, one for each" if len(questions) > 1 else ""
        raise Invalid("--answer", f"{asked.id} is a question; say --answer TEXT{many}")
    keys = [each.key for each in questions] or [asked.name]
    return {ANSWERS: dict(zip(keys, texts, strict=True))}


def check_answers(asked: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Answers as people in a chat would have given them: each question has one, by its key or its own words, and an
    option's number or beginning means the option."""
    answers = given.get(ANSWERS)
    if not isinstance(answers, Mapping):
        raise Invalid("updatedInput", HOW_TO_ANSWER)
    return {ANSWERS: {each.key: _check_answer(each, answers) for each in parse_questions(asked)}}


def _check_answer(question: AgentQuestion, answers: Mapping[str, Any]) -> str:
    text = answers.get(question.key, answers.get(question.text))
    if not isinstance(text, str):
        raise Invalid("updatedInput", f"the question {question.key!r} has no answer")
    found = find_choice(question, text) or find_own_words(question, text)
    if found is None:
        raise Invalid("answer", f"{text[:60]!r} does not answer {question.key!r}; {', '.join(question.options)} do")
    return found

"""Answering a question: one answer for each thing that is asked, kept as it comes. The last one decides the request."""

from gatepost.flow.delivery.outgoing_messages import ChannelInstances
from gatepost.flow.requests.card_delivery import find_name, show_answer, show_question
from gatepost.flow.requests.deciding import Decision, close, find_to_decide, record_decision
from gatepost.flow.requests.questions import ANSWERS, get_answers, parse_questions, render_answered
from gatepost.messages.text import one_line
from gatepost.store.people import identities
from gatepost.store.port import Db
from gatepost.store.rights import request_votes, requests
from gatepost.store.rights.requests import AnswerLasts, RequestState

KEPT = "answer"  # in the audit: of one of several questions
LONGEST_SHOWN = 300  # characters of an answer that is told again


def answer(
    db: Db,
    reach: ChannelInstances,
    request_id: str,
    part: int,
    text: str,
    by: str,
    now: int,
    where: tuple[str, str] | None = None,
) -> Decision:
    """Somebody's answer to one question. The first one counts; who comes later is told what it was."""
    request, refusal = find_to_decide(db, reach, request_id, by, where, now)
    if refusal is not None:
        return refusal
    asked, known = parse_questions(request.input), get_answers(request)
    if part >= len(asked):
        return Decision(request, False, "There is no such question.")
    if asked[part].key in known:
        return Decision(
            request, False, f"That was answered before: {one_line(known[asked[part].key])[:LONGEST_SHOWN]}."
        )
    person = identities.get_person(db, by)
    given = {ANSWERS: {**known, asked[part].key: text}}
    if len(given[ANSWERS]) == len(asked):
        return close(db, reach, request, RequestState.ALLOWED, AnswerLasts.ONCE, person, "", given, now)
    kept = requests.set_answer(db, request.id, given)
    assert kept is not None  # it waits in this transaction
    request_votes.add_vote(db, request.id, person, now)  # who else answered a part of it is known by that
    record_decision(db, now, person, KEPT, kept)
    rooms = (*show_answer(db, reach, kept, person, now), *show_question(db, reach, kept, now))
    said = render_answered(kept, person, part, find_name(db, person))
    return Decision(kept, False, said, tuple(dict.fromkeys(rooms)), kept=True)

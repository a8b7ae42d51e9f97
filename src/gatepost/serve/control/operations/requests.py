"""One request of an agent or a person, with the answers that it takes: the same as its card in a chat."""

from gatepost.core.errors import NotFound
from gatepost.core.records import replace
from gatepost.flow.requests.card_delivery import find_facts, find_name
from gatepost.flow.requests.choices import (
    RESTORED,
    CardFacts,
    is_edited,
    list_choices,
    list_fields,
    render_decision,
    render_sentence,
    render_title,
)
from gatepost.flow.requests.edited_input import is_editable
from gatepost.flow.requests.questions import AgentQuestion, get_answers, parse_questions
from gatepost.serve.control.arguments.requests import (
    PermitChoice,
    PermitDetails,
    PermitField,
    PermitQuestion,
    ShowRequestArgs,
)
from gatepost.serve.control.contract import read_operation
from gatepost.store.port import Db
from gatepost.store.rights import request_cards, requests
from gatepost.store.rights.requests import Request, RequestKind, RequestState


@read_operation
def show(db: Db, args: ShowRequestArgs, now: int) -> PermitDetails:
    asked = requests.get(db, args.id)
    if asked is None:
        raise NotFound("request", args.id[:80], "`gatepost permit ls` shows those that wait")
    waits = asked.state is RequestState.PENDING
    is_question = asked.kind is RequestKind.QUESTION
    facts = find_facts(db, asked)
    return PermitDetails(
        id=asked.id,
        kind=asked.kind,
        title=render_title(asked, facts),
        folder=asked.folder,
        session=asked.session_id,
        asked_by=facts.asked_by,
        asked_in=facts.asked_in,
        said=facts.said,
        tool=asked.tool,
        why=f"{RESTORED} {render_sentence(asked.why)}".strip() if facts.restored else asked.why,
        preview=asked.preview,
        fields=_list_fields(asked, facts),
        input=asked.input,
        cut=asked.cut,
        editable=waits and is_editable(asked),
        state=asked.state,
        decision="" if waits else _render_outcome(db, asked),
        quorum=asked.quorum,
        voters=request_cards.list_voters(db, asked.id),
        choices=[] if is_question or not waits else _list_choices(asked),
        questions=[_make_question(asked, each) for each in parse_questions(asked.input)] if is_question else [],
        asked_at=asked.asked_at,
        expires_at=asked.expires_at,
    )


def _list_fields(asked: Request, facts: CardFacts) -> list[PermitField]:
    """Return what was asked for, and below it what a person allowed in its place."""
    found = [PermitField(label=each.name, value=each.value) for each in list_fields(asked, facts)]
    if not is_edited(asked):
        return found
    allowed = list_fields(replace(asked, input=asked.answer), facts)
    known = {(each.label, each.value) for each in found}
    changed = [each for each in allowed if (each.name, each.value) not in known]
    return [*found, *(PermitField(label=f"allowed instead, {each.name}", value=each.value) for each in changed)]


def _render_outcome(db: Db, asked: Request) -> str:
    """Render the decision and, of an allowed call that failed, what went wrong."""
    decision = render_decision(asked, asked.answered_by, name=find_name(db, asked.answered_by))
    return f"{decision} {asked.failure}" if asked.failure else decision


def _list_choices(asked: Request) -> list[PermitChoice]:
    return [
        PermitChoice(
            label=each.label,
            allow=each.state is RequestState.ALLOWED,
            lasts=each.lasts,
            group=each.group,
            model=each.model,
            price=each.price,
        )
        for each in list_choices(asked)
    ]


def _make_question(asked: Request, each: AgentQuestion) -> PermitQuestion:
    return PermitQuestion(
        text=each.text,
        key=each.key,
        options=list(each.options),
        many=each.many,
        own_words=each.own_words,
        answer=get_answers(asked).get(each.key, ""),
    )

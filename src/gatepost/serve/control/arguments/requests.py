"""Requests of agents: what one of them asks."""

from typing import Annotated, Any

from msgspec import Struct

from gatepost.core.record_fields import ShownAs, argument, shown
from gatepost.serve.control.arguments.agents import READ
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.store.rights.requests import AnswerLasts, RequestKind, RequestState


class PermitChoice(Struct, frozen=True, kw_only=True):
    """An answer that is one click. `group`: of a room, who answers there; `model`: of a budget, with which it goes
    on; `price`: of a model."""

    label: str
    allow: bool
    lasts: AnswerLasts
    group: str
    model: str = ""
    price: str = ""


class PermitQuestion(Struct, frozen=True, kw_only=True):
    """`answer`: what somebody has said to it already."""

    text: str
    key: str
    options: list[str]
    many: bool
    own_words: bool
    answer: str


class PermitField(Struct, frozen=True, kw_only=True):
    """An argument in words, as the card shows it."""

    label: str
    value: str


class PermitDetails(Struct, frozen=True, kw_only=True):
    """`cut`: `input` is an excerpt. `voters`: who agreed, where `quorum` people must. `decision`: what became of it.
    `asked_by`: the person for whom the agent works, `asked_in` the conversation, `said` their words."""

    id: Annotated[str, shown("Id", ShownAs.CODE)]
    title: str
    state: Annotated[RequestState, shown("State", ShownAs.BADGE)]
    decision: str
    folder: Annotated[str, shown("Group")]
    session: Annotated[str | None, shown("Conversation")]
    asked_by: Annotated[str, shown("Asked by")]
    asked_in: Annotated[str, shown("In")]
    said: Annotated[str, shown("With the words")]
    kind: Annotated[RequestKind, shown("Asks for")]
    tool: Annotated[str, shown("Tool", ShownAs.CODE)]
    why: str
    preview: str
    fields: list[PermitField]
    input: dict[str, Any]
    cut: bool
    editable: bool
    asked_at: Annotated[int, shown("Asked", ShownAs.MOMENT)]
    expires_at: Annotated[int | None, shown("Waits until", ShownAs.MOMENT)]
    quorum: Annotated[int, shown("Who must agree")]
    voters: Annotated[list[str], shown("Agreed")]
    choices: list[PermitChoice]
    questions: list[PermitQuestion]


@declares("permit.show", right=READ, reads=True)
class ShowRequestArgs(OperationArgs[PermitDetails], frozen=True):
    """Show one request: what is asked with its arguments, the answers that it takes, who agreed, what it waits for."""

    id: Annotated[str, argument("The request's id.", "request")]

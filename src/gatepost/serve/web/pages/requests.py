"""Requests: what agents ask people for, and the answers that let them go on."""

import json
from typing import Any

from gatepost.flow.requests import choices
from gatepost.messages.visible_text import hides_something, show_hidden
from gatepost.serve.control.arguments.agents import AgentRequest, ListRequestsArgs, PendingRequest
from gatepost.serve.control.arguments.requests import (
    PermitChoice,
    PermitDetails,
    PermitField,
    PermitQuestion,
    ShowRequestArgs,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import (
    link,
    made,
    make_columns,
    make_facts,
    make_moment,
    make_table,
    render_fields,
    shorten,
)
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    Code,
    Disclosure,
    EmptyState,
    Fact,
    Facts,
    FormBlock,
    FormInput,
    InputKind,
    Link,
    LongText,
    Note,
    PageView,
    Prose,
    Tone,
    has_content,
)
from gatepost.store.rights.requests import AnswerLasts, RequestKind, RequestState

LIMIT, LONGEST_ID = 100, 80
LONGEST_IN_LINE = 120  # characters of arguments, as JSON, that a line of the table shows for sure
MOST_OPTIONS = 8  # of a question that are buttons
EMPTY = EmptyState(text="Nobody waits for an answer. What an agent must ask for is here, and in its chat.")
REQUEST = (
    made("id", "Request", lambda each: Link(each.request.id, render_path("/requests/{id}", id=each.request.id))),
    made("agent", "Agent", lambda each: shorten(each.agent.title or each.agent.folder, 60)),
    made("asked_by", "For", lambda each: shorten(each.asked_by, 60) or None),
    made("kind", "Asks for", lambda each: each.request.kind),
    made("name", "What", lambda each: Code(shorten(each.request.name)) if each.request.name else None),
    made("input", "With", lambda each: shorten(show_hidden(render_fields(each.request.input)))),
    made("askedAt", "Since", lambda each: make_moment(each.request.asked_at)),
)
EXACT = make_columns(
    PermitDetails,
    {
        "folder": link("folder", "Agent", "/groups/{folder}"),
        "session": link("session", "Conversation", "/sessions/{id}"),
        "said": made("said", "With the words", lambda asked: shorten(asked.said, 200) or None),
        "quorum": made("quorum", "Who must agree", lambda asked: f"{len(asked.voters)} of {asked.quorum}"),
        "voters": made("voters", "Agreed", lambda asked: ", ".join(asked.voters) or None),
    },
)


@page("/requests", "Decisions", Section.AGENTS, "permit.list", order=5)
async def show_requests(request: PageRequest) -> PageView:
    after = request.query.get("after", "")[:LONGEST_ID]
    return make_requests_view(await request.ask(ListRequestsArgs(limit=LIMIT, after=after)))


def make_requests_view(found: list[AgentRequest]) -> PageView:
    more = f"?after={found[-1].request.id}" if len(found) == LIMIT else ""
    return PageView(
        lead="An agent waits until one of these is answered. Cards in chats say the same.",
        blocks=[make_table(found, REQUEST, EMPTY, actions=list_row_actions, more=more)],
    )


def list_row_actions(row: AgentRequest) -> tuple[Action, ...]:
    """Return the actions for which the line shows enough: nobody allows what they do not see."""
    asked = row.request
    if asked.kind in (RequestKind.QUESTION, RequestKind.ROOM, RequestKind.PRICE) or asked.cut:
        return ()
    given = {"id": asked.id}
    deny = Action(label="Deny", operation="permit.answer", args=given, tone=Tone.BAD)
    if not _is_shown_whole(asked):
        return (deny,)
    return (Action(label="Allow", operation="permit.answer", args={**given, "allow": "on"}, tone=Tone.GOOD), deny)


def _is_shown_whole(asked: PendingRequest) -> bool:
    """Return True if the line shows all that somebody would allow. What a call reads, and what follows a plan, are on
    the page of the request alone."""
    if asked.preview or asked.follow_up or asked.next_mode_id:
        return False
    text = _render_input(asked.input)
    return len(text) <= LONGEST_IN_LINE and not hides_something(text) and "…" not in render_fields(asked.input)


@page("/requests/{id}", "Request", Section.AGENTS, "permit.show")
async def show_request(request: PageRequest) -> PageView:
    return make_request_view(await request.ask(ShowRequestArgs(id=request.params["id"])))


def make_request_view(asked: PermitDetails) -> PageView:
    """Show its wish first, then who asked for it; ids and exact arguments are one click deeper."""
    blocks: list[Block] = [Note(text=asked.decision)] if asked.decision else []
    if asked.questions:
        blocks += make_question_blocks(asked)
    elif wants := [_make_fact(each) for each in asked.fields if each.label != choices.DETAILS]:
        blocks.append(Facts(title="What it wants", items=wants))
    if asked.kind is RequestKind.PRICE and asked.state is RequestState.PENDING:
        blocks.append(make_price_form(asked))
    if asked.cut:
        blocks.append(
            Note(text="Only an excerpt of it was kept, so nobody can allow it. Deny it, or ask for less at once.")
        )
    if asked.preview:
        blocks.append(LongText(title="What it would change or read", text=asked.preview))
    if cause := list_cause(asked):
        blocks.append(Facts(title="Why it asks", items=cause))
    exact: list[Block] = [make_facts(asked, EXACT)]
    exact += [Facts(items=[_make_fact(each) for each in asked.fields if each.label == choices.DETAILS])]
    if asked.editable:
        exact.append(make_edit_form(asked))
    label = "Change it, or show the exact call" if asked.editable else "Show the exact call"
    blocks.append(Disclosure(label=label, blocks=exact))
    title = asked.title.replace(f" ({asked.id})", "")
    return PageView(title=title, blocks=blocks, actions=list_actions(asked))


def _make_fact(field: PermitField) -> Fact:
    return Fact(f"{field.label[:1].upper()}{field.label[1:]}", field.value)


def list_cause(asked: PermitDetails) -> list[Fact]:
    """Return who caused it, where and by which words, and which rule asks; nothing that is not known."""
    found = [
        Fact("For", shorten(asked.asked_by, 100)),
        Fact("In", shorten(show_hidden(asked.asked_in), 100)),
        Fact("Because of the words", shorten(show_hidden(asked.said), 200)),
        Fact("Because of", Prose(asked.why) if asked.why else ""),
        Fact("Asked", make_moment(asked.asked_at)),
    ]
    if asked.state == RequestState.PENDING and asked.expires_at:
        found.append(Fact("Waits until", make_moment(asked.expires_at)))
    if asked.quorum > 1:
        found.append(Fact("Who must agree", f"{len(asked.voters)} of {asked.quorum}"))
    return [each for each in found if has_content(each.value)]


def _render_input(given: dict[str, Any]) -> str:
    return json.dumps(given, ensure_ascii=False, indent=2)


def list_actions(asked: PermitDetails) -> tuple[Action, ...]:
    """As on the card: what is allowed for longer than this once asks first."""
    if asked.state != RequestState.PENDING:
        return ()
    if asked.questions:
        deny = Action(label="Do not answer", operation="permit.answer", args={"id": asked.id}, tone=Tone.BAD)
        return (*list_option_actions(asked), deny)
    return tuple(_make_action(asked.id, each) for each in asked.choices)


def _make_action(request_id: str, choice: PermitChoice) -> Action:
    given = {"id": request_id, **({"allow": "on"} if choice.allow else {})}
    if choice.lasts != AnswerLasts.ONCE:
        given["lasts"] = choice.lasts
    if answer := choice.group or choice.model or choice.price:
        given["answers"] = answer
    once = choice.lasts == AnswerLasts.ONCE
    tone = Tone.BAD if not choice.allow else Tone.GOOD if once or choice.group else Tone.PLAIN
    return Action(label=choice.label, operation="permit.answer", args=given, tone=tone)


def list_option_actions(asked: PermitDetails) -> tuple[Action, ...]:
    """The options of one question, each a click. Several questions, or several options of one, are a form."""
    [first, *others] = asked.questions
    if others or first.many or len(first.options) > MOST_OPTIONS:
        return ()
    return tuple(
        Action(
            label=shorten(each, 60),
            operation="permit.answer",
            args={"id": asked.id, "allow": "on", "answers": each},
            tone=Tone.GOOD,
        )
        for each in first.options
        if "\n" not in each
    )


def make_question_blocks(asked: PermitDetails) -> list[Block]:
    said = [Fact(shorten(each.text, 400), shorten(each.answer, 400) or None) for each in asked.questions]
    blocks: list[Block] = [Facts(title="Questions", items=said)]
    if asked.state == RequestState.PENDING:
        inputs = [_make_question_input(each) for each in asked.questions]
        blocks.append(
            FormBlock(label="Answer", operation="permit.answer", args={"id": asked.id, "allow": "on"}, inputs=inputs)
        )
    return blocks


def _make_question_input(question: PermitQuestion) -> FormInput:
    options = [shorten(each, 80) for each in question.options]
    ways = f"{'Some' if question.many else 'One'} of: {', '.join(options)}." if options else ""
    own = " Words of your own are an answer, too." if question.own_words and options else ""
    return FormInput(
        name="answers",
        label=shorten(question.text, 200),
        kind=InputKind.TEXT,
        value=question.answer,
        required=True,
        description=f"{ways}{own}",
    )


def make_price_form(asked: PermitDetails) -> FormBlock:
    price = FormInput(
        name="answers",
        label="Price",
        kind=InputKind.TEXT,
        value="",
        required=True,
        description="USD for a million tokens, input/output: 0.5/1.5.",
    )
    return FormBlock(
        label="Set the price", operation="permit.answer", args={"id": asked.id, "allow": "on"}, inputs=[price]
    )


def make_edit_form(asked: PermitDetails) -> FormBlock:
    arguments = FormInput(
        name="input",
        label="Arguments",
        kind=InputKind.JSON,
        value=_render_input(asked.input),
        required=True,
        description="Change them here, and it is allowed once with what stands here.",
        rows=min(16, 3 + _render_input(asked.input).count("\n")),
    )
    return FormBlock(
        label="Allow once with these arguments",
        operation="permit.answer",
        args={"id": asked.id, "allow": "on"},
        inputs=[arguments],
    )

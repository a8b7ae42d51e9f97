"""The answers that somebody may give to a request, as buttons of a card, and the text of the card. The same list in the
same order whenever it is made: a button is known by its number."""

import re
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from gatepost.core.languages.catalogue import current_language, list_languages, translate
from gatepost.core.late_pattern import late_pattern
from gatepost.core.records import replace
from gatepost.flow.requests.approved_plans import render_consequences
from gatepost.flow.requests.edited_input import ANSWERED, is_editable
from gatepost.flow.requests.questions import make_answered_card, make_question_card, render_answered
from gatepost.messages.card import Card, CardButton, CardField, escape_markdown, normalize_answer, parse_choice
from gatepost.messages.text import one_line
from gatepost.messages.visible_text import show_hidden
from gatepost.store.rights.requests import AnswerLasts, Request, RequestKind, RequestState

LONGEST_NAME = 30  # characters of a tool, a group, a room or a person; four of them fit a title
LONGEST_SAID = 200  # of the words that the agent was given
NEXT_STEP = "the next step may cost"  # in the input of a request about a budget that is too small for it
LONGEST_INPUT = 30_000  # of all arguments that a card shows, with what goes out before it
GROUPS = "groups"  # of a room: those that may be chosen, in its input …
GROUP = "group"  # … and the one that was, in its answer
CHEAPER = "cheaper model"  # of a budget: the one that is offered, in its input …
MODEL = "model"  # … and that was chosen, in its answer
PRICE = "price"  # of a model, IN/OUT, in the answer
MOST_GROUPS = 5
LONGEST_GROUP = 48  # characters of a folder, or a model's name, that fits a button
YES = frozenset({"yes", "y", "ok", "okay", "allow", "approve", "ja", "j"})
NO = frozenset({"no", "n", "nope", "deny", "nein"})
ACTS = {  # tools whose names alone do not say what they do
    "send": "send a message",
    "reply": "reply",
    "post": "publish a post",
    "send_file": "send a file",
    "send_voice": "send a voice message",
    "edit": "edit a message",
    "delete": "delete a message",
    "forward": "pass a message on",
    "send_card": "send a card",
    "like": "react to a message",
    "dislike": "react to a message",
    "pin_message": "pin a message",
    "unpin_message": "unpin a message",
    "schedule_task": "schedule a task",
    "update_task": "change a task",
    "pause_task": "pause a task",
    "resume_task": "resume a task",
    "cancel_task": "cancel a task",
    "write_skill": "write a skill",
    "register_group": "make another agent",
    "send_to_agent": "give work to another agent",
    "delegate_group": "give work to another agent",
    "escalate_group": "ask the agent above",
    "invite_create": "invite somebody",
    "add_route": "change who answers where",
    "set_routes": "change who answers where",
    "delete_route": "change who answers where",
    "network_allow": "open a host on the network",
    "network_deny": "close a host on the network",
}
IDS = frozenset({"replyToId", "messageId", "sessionId", "taskId", "id", "conversation"})  # shown last
PARAMETERS = {
    "chatJid": "room",
    "targetJid": "room",
    "jid": "room",
    "toJid": "to the room",
    "replyToId": "in reply to",
    "filepath": "file",
    "cron": "when",
    "contextMode": "context",
    "missed": "if it was missed",
    "maxRuns": "most runs",
    "expiresAt": "until",
}
_HUMP = late_pattern(r"(?<=[a-z])[A-Z]")
_encode = msgspec.json.encode
DETAILS = "Details"  # the last field of a card: ids and exact names
_PRICE = late_pattern(r"\s*\$?\d{1,6}(?:\.\d{1,6})?\s*/\s*\$?\d{1,6}(?:\.\d{1,6})?\s*\Z", re.ASCII)
DIRECT = "direct"  # in a request about somebody unknown: they wrote in a chat of their own
RESTORED = "It comes from a restored or copied store, so it may have been decided before."
LONGEST_REASON = 500  # characters of why somebody refuses
_NO_BECAUSE = late_pattern(
    r"\s*(?:no|nope|deny|nein)(?:\s*[,.:;!–—-]+\s*(?=\w)|\s+(?=(?:because|weil)\s+\w))", re.IGNORECASE
)


class AnswerChoice(Struct, frozen=True):
    label: str
    state: RequestState
    lasts: AnswerLasts = AnswerLasts.ONCE
    style: str = ""
    group: str = ""  # of a room: who answers there
    model: str = ""  # of a budget: with which the conversations that wait go on
    price: str = ""  # of a model: what it costs


ALLOW_ONCE = AnswerChoice("Allow once", RequestState.ALLOWED, style="primary")
ALLOW_SESSION = AnswerChoice("Allow in this conversation", RequestState.ALLOWED, AnswerLasts.SESSION)
ALLOW_ALWAYS = AnswerChoice("Always allow", RequestState.ALLOWED, AnswerLasts.ALWAYS)
ALLOW_EACH_TIME = AnswerChoice("Allow each time", RequestState.ALLOWED, AnswerLasts.SESSION)
DENY = AnswerChoice("Deny", RequestState.DENIED, style="danger")
BLOCK = AnswerChoice("Block", RequestState.DENIED, AnswerLasts.ALWAYS, style="danger")
LET_IN = AnswerChoice("Let in", RequestState.ALLOWED, AnswerLasts.ALWAYS, style="primary")
KEEP_OUT = AnswerChoice("Keep out", RequestState.DENIED, AnswerLasts.ALWAYS, style="danger")
NEVER = AnswerChoice("Never", RequestState.DENIED, AnswerLasts.ALWAYS, style="danger")
SEND = AnswerChoice("Send them", RequestState.ALLOWED)
FREE = AnswerChoice("It costs nothing", RequestState.ALLOWED, price="0")
DROP = AnswerChoice("Drop them", RequestState.DENIED, style="danger")


def list_choices(request: Request) -> tuple[AnswerChoice, ...]:
    """Return the answers that a request takes. None of several who must agree makes it last: they agreed to this once.
    Nobody allows a request that is kept in part alone: they cannot see it."""
    alone = request.quorum == 1
    if request.cut:
        return (DENY,)
    if request.kind is RequestKind.CALL:
        lasting = (ALLOW_SESSION, *((ALLOW_ALWAYS,) if request.rule else ()))
        return (ALLOW_ONCE, *(lasting if alone else ()), DENY)
    if request.kind is RequestKind.SENDER and DIRECT in request.input and alone:
        return (LET_IN, DENY, KEEP_OUT)
    if request.kind is RequestKind.SENDER:
        return (ALLOW_ONCE, *((ALLOW_ALWAYS,) if alone else ()), DENY, BLOCK)
    if request.kind is RequestKind.ROOM:
        return (*map(make_group_choice, list_groups(request)), DENY, NEVER)
    if request.kind is RequestKind.HOST:
        return (*((ALLOW_SESSION, ALLOW_ALWAYS) if alone else (ALLOW_ONCE,)), DENY, BLOCK)
    if request.kind is RequestKind.TEXT:
        return (ALLOW_ONCE, *((ALLOW_EACH_TIME,) if alone else ()), DENY)
    if request.kind is RequestKind.RESTORED:
        return (SEND, DROP)
    if request.kind is RequestKind.BUDGET:
        more = AnswerChoice(f"{request.input.get('more')} more", RequestState.ALLOWED, style="primary")
        return (more, *map(make_model_choice, list_models(request)), DENY)
    if request.kind is RequestKind.PRICE:
        return (FREE, DENY)
    return (ALLOW_ONCE, DENY)


class ChosenAnswer(Struct, frozen=True):
    choice: AnswerChoice
    words: str = ""  # why somebody refuses


def find_answer(choices: Sequence[AnswerChoice], text: str) -> ChosenAnswer | None:
    """Return the choice that a text means, or None. A number or a label picks its choice, a yes the first that allows,
    a no the plain denial, also with a reason behind it. A yes where several would allow something different means none
    of them. IN/OUT is an answer where a price is asked for."""
    for language in list_languages():  # a card may have spoken any of them
        at = parse_choice(text, [translate(each.label, language) for each in choices])
        if at is not None:
            return ChosenAnswer(choices[at])
    said, because = normalize_answer(text), _NO_BECAUSE.match(text)
    if said in NO or because:
        words = one_line(text[because.end() :])[:LONGEST_REASON] if because else ""
        return ChosenAnswer(DENY, words) if DENY in choices else None
    allowing = [each for each in choices if each.state is RequestState.ALLOWED and not each.price]
    if FREE in choices and _PRICE.match(text):
        return ChosenAnswer(replace(FREE, label=text.strip(), price=text.strip().replace(" ", "").replace("$", "")))
    unclear = len({each.group for each in allowing}) > 1
    return ChosenAnswer(allowing[0]) if said in YES and allowing and not unclear else None


def list_groups(request: Request) -> tuple[str, ...]:
    """Those that are offered for a room."""
    offered = request.input.get(GROUPS)
    return tuple(map(str, offered)) if isinstance(offered, list) else ()


def list_models(request: Request) -> tuple[str, ...]:
    """Return the cheaper models that a request about a budget offers: one at most."""
    offered = request.input.get(CHEAPER)
    return (offered,) if isinstance(offered, str) and request.kind is RequestKind.BUDGET else ()


def make_model_choice(model: str) -> AnswerChoice:
    return AnswerChoice(f"Go on with {model}", RequestState.ALLOWED, model=model)


def make_group_choice(folder: str) -> AnswerChoice:
    """A route is what lasts."""
    return AnswerChoice(f"Let {folder} answer", RequestState.ALLOWED, AnswerLasts.ALWAYS, group=folder)


class CardFacts(Struct, frozen=True, kw_only=True):
    """The facts that a card puts into words: who asks, for whom, and the names of the rooms."""

    agent: str
    asked_by: str = ""  # who gave the agent its work; '' if nobody did
    asked_in: str = ""  # the conversation
    said: str = ""  # their words
    rooms: Mapping[str, str] = {}  # what they are called, by the parameter that names each
    restored: bool = False  # it was asked before the store was restored or copied, and waits


def make_card(request: Request, token: str, facts: CardFacts, part: int = 0) -> Card:
    """The card by which somebody decides, with everything that is asked. `part`: which of several questions."""
    if request.kind is RequestKind.QUESTION:
        card = make_question_card(request, part, token, show_beginning(facts.agent, LONGEST_NAME))
        return replace(card, text="\n\n".join(filter(None, [_render_restored(facts), card.text])))
    buttons = tuple(
        CardButton(f"{token}:{number}", translate(each.label), each.style)
        for number, each in enumerate(list_choices(request))
    )
    editable = is_editable(request)
    return Card(
        title=translate(render_title(request, facts)),
        text=_render_text(request, facts),
        fields=list_fields(request, facts),
        buttons=buttons,
        command=_render_command(request),
        token=token if editable else "",
        editable=editable,
        language=current_language.get(),
    )


def _render_command(request: Request) -> str:
    price = " 0.5/1.5 (its own price)" if request.kind is RequestKind.PRICE else ""
    return f"/approve {request.id}{price} or /deny {request.id}"


def make_decided_card(request: Request, facts: CardFacts, done: str, part: int = 0) -> Card:
    if request.kind is RequestKind.QUESTION:
        return make_answered_card(request, part, show_beginning(facts.agent, LONGEST_NAME), done)
    return Card(
        title=translate(render_title(request, facts)),
        text=_render_text(request, facts),
        fields=list_fields(request, facts),
        done=translate(done),
        language=current_language.get(),
    )


def is_too_long(request: Request) -> bool:
    """Return True if no card can show all that is asked. Cheap: nothing of it is rendered."""
    return get_size(request) > LONGEST_INPUT


def get_size(request: Request) -> int:
    """Return the characters that a card shows, about so many."""
    sizes = (len(value) if isinstance(value, str) else len(_encode(value)) for value in request.input.values())
    return sum(sizes) + len(request.preview) + len(request.follow_up) + sum(map(len, request.input))


def make_refusal_card(request: Request, token: str, facts: CardFacts, page: str) -> Card:
    """The card of what cannot be shown whole: it can be denied, and says where it is decided. `page`: where the web
    page is, '' if nobody knows."""
    if request.cut:
        why = "Only a part of what it asks was kept, so nobody can allow it."
    else:
        where = f"{page}/dashboard/requests/{request.id}" if page else "the page Requests of the dashboard"
        why = f"It is too long to be shown here. Read it at {where}, or with `gatepost permit show {request.id}`."
    choices = enumerate(list_choices(request))
    return Card(
        title=translate(render_title(request, facts)),
        text="\n\n".join(filter(None, [_render_restored(facts), translate(_render_asker(facts)), translate(why)])),
        buttons=tuple(
            CardButton(f"{token}:{number}", translate(each.label), each.style)
            for number, each in choices
            if each.state is RequestState.DENIED
        ),
        command=f"/deny {request.id}",
        language=current_language.get(),
    )


def _render_text(request: Request, facts: CardFacts) -> str:
    consequences = render_consequences(request) if request.kind is RequestKind.PLAN else ""
    asker, why = translate(_render_asker(facts)), render_sentence(request.why)
    parts = [_render_restored(facts), asker, why, request.preview, translate(consequences)]
    return "\n\n".join(filter(None, parts))


def _render_restored(facts: CardFacts) -> str:
    return translate(RESTORED) if facts.restored else ""


def render_sentence(text: str) -> str:
    """Return a reason as a sentence of its own."""
    end = "" if text.endswith((".", "!", "?")) or not text else "."
    return f"{text[:1].upper()}{text[1:]}{end}"


def _render_asker(facts: CardFacts) -> str:
    """For whom the agent works, as markdown."""
    if not facts.asked_by:
        return ""
    place = f" in {_quote(facts.asked_in)}" if facts.asked_in else ""
    words = f": {_quote(facts.said, LONGEST_SAID)}" if facts.said else ""
    return f"Asked by {escape_markdown(show_beginning(facts.asked_by, LONGEST_NAME))}{place}{words}"


def _quote(text: str, longest: int = LONGEST_NAME) -> str:
    return f"“{escape_markdown(show_beginning(text, longest))}”"


def render_title(request: Request, facts: CardFacts) -> str:
    named = show_beginning(facts.agent, LONGEST_NAME)
    if request.kind is RequestKind.SENDER:
        return f"Somebody unknown writes to {named}"
    if request.kind is RequestKind.ROOM:
        return "Who shall answer in a chat that nobody answers yet?"
    if request.kind is RequestKind.HOST:
        return f"{named} asks to reach a host on the network"
    if request.kind is RequestKind.TEXT:
        return f"A scheduled text of {named} is to be said"
    if request.kind is RequestKind.RESTORED:
        return "This gateway was restored or copied: send what was under way?"
    if request.kind is RequestKind.BUDGET:
        how = "too small for the next step" if NEXT_STEP in request.input else "spent"
        return f"{request.input.get('budget')} is {how}, and messages wait"
    if request.kind is RequestKind.PRICE:
        return "A model has no price, and messages wait: what does it cost?"
    if request.kind is RequestKind.PLAN:
        return f"{named} asks to carry out a plan"
    if request.kind is RequestKind.CALL:
        act, room = _find_act(request), _find_room(request, facts)
        return f"{named} wants to {act} in “{room}”" if room else f"{named} wants to {act}"
    return f"{named} asks to use {show_beginning(request.tool, LONGEST_NAME)}"


def _find_act(request: Request) -> str:
    """Return the call in words."""
    return ACTS.get(request.tool) or show_beginning(request.tool.replace("_", " "), LONGEST_NAME)


def _find_room(request: Request, facts: CardFacts) -> str:
    """Return the name of the room that the call names; '' if it has none."""
    named = next((facts.rooms[name] for name in request.input if name in facts.rooms), "")
    return show_beginning(named, LONGEST_NAME)


def list_fields(request: Request, facts: CardFacts) -> tuple[CardField, ...]:
    """List the arguments by readable names, whole, without empty ones and the room that the title names. Addresses and
    ids come last."""
    given = {
        name: value
        for name, value in request.input.items()
        if value not in (None, "", [], {}) and (name != GROUPS or request.kind is not RequestKind.ROOM)
    }
    labels = [PARAMETERS.get(name) or _spell_out(name) for name in given]
    shown: list[CardField] = []
    titled = next((name for name in given if name in facts.rooms), "") if request.kind is RequestKind.CALL else ""
    details = [request.id]
    details += [f"tool {show_hidden(request.tool)}"] if request.kind is RequestKind.CALL else []
    for label, (name, value) in zip(labels, given.items(), strict=True):
        clear = label if labels.count(label) == 1 else show_hidden(name)
        if name in facts.rooms:
            if name != titled:
                shown.append(CardField(translate(clear), f"“{show_beginning(facts.rooms[name], LONGEST_NAME)}”"))
            details.append(f"{clear} {show_hidden(str(value))}")
        elif name in IDS:
            details.append(f"{clear} {_show(value)}")
        else:
            shown.append(CardField(translate(clear), _show(value)))
    if request.cut:
        shown.append(CardField("…", translate("there is more than was kept")))
    return (*shown, CardField(DETAILS, " · ".join(details)))


def _spell_out(name: str) -> str:
    return show_hidden(_HUMP.sub(lambda found: f" {found[0].lower()}", name).replace("_", " "))


def _show(value: object) -> str:
    """In one line: nothing that an agent says may look like a part of the card."""
    return show_hidden(value if isinstance(value, str) else _encode(value).decode())


def show_beginning(text: str, longest: int) -> str:
    """The beginning of a name or of words that nobody decides by."""
    shown = show_hidden(text[: longest + 1])
    return shown if len(text) <= longest and len(shown) <= longest else f"{shown[: longest - 1]}…"


def is_edited(request: Request) -> bool:
    """Return True if it was allowed with other arguments than were asked for."""
    answers = request.kind in ANSWERED  # what is given there is the answer itself
    return request.state is RequestState.ALLOWED and bool(request.answer) and not answers


def render_decision(request: Request, by: str, part: int | None = None, name: str = "") -> str:
    """Return the line of a decided card. `part`: of one question alone. `name`: of the person who decided."""
    if request.kind is RequestKind.QUESTION:
        return render_answered(request, by, part, name)
    by = name or by
    words = f": {request.reason}" if request.reason and request.state is RequestState.DENIED else ""
    conversation = " each time" if request.kind is RequestKind.TEXT else " in this conversation"
    lasts = {AnswerLasts.SESSION: conversation, AnswerLasts.ALWAYS: " always", AnswerLasts.ONCE: ""}
    group = request.answer.get(GROUP) if request.kind is RequestKind.ROOM else None
    model = request.answer.get(MODEL) if request.kind is RequestKind.BUDGET else None
    answers = f": {group} answers there" if group else f": it goes on with {model}" if model else ""
    if request.kind is RequestKind.PRICE and request.answer:
        answers = f": it costs {request.answer.get(PRICE)} (USD for a million tokens, input/output)"
    changed = " with changes" if is_edited(request) else ""
    said = {
        RequestState.ALLOWED: f"Allowed{changed}{lasts[request.lasts]} by {by}{answers}",
        RequestState.DENIED: f"Denied{lasts[request.lasts]} by {by}{words}",
        RequestState.EXPIRED: "Nobody decided in time, so it was not done",
        RequestState.WITHDRAWN: f"Withdrawn{words}",
        RequestState.PENDING: "It waits for a decision",
    }
    return f"{said[request.state]}."

"""Sentences about what an agent may do, each with an answer: yes, ask me, or no. The exact rules are a click deeper."""

import asyncio
from collections.abc import Mapping, Sequence

from gatepost.access import choices
from gatepost.access.choices import Permission
from gatepost.access.grants import GrantRule, parse
from gatepost.access.subjects import Subject
from gatepost.serve.control.arguments.access import ListGrantsArgs, ListToolsArgs, VisibleTool
from gatepost.serve.web.dashboard.contract import PageRequest
from gatepost.serve.web.dashboard.tables import make_columns, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    Choice,
    ChoiceList,
    ChoiceOption,
    Disclosure,
    EmptyState,
    FormBlock,
    FormInput,
    InputKind,
    TableBlock,
    Tone,
)
from gatepost.store.memory.memories import list_above
from gatepost.store.rights.acl import GrantRow
from gatepost.store.rooms import rooms

RULE = make_columns(GrantRow, without=("folder",))
TOOL = make_columns(VisibleTool)
HELP = "What it answers to whoever asked is always sent. “Ask me” makes a card for whoever decides here."
MOST_SHOWN = 3  # exceptions of a sentence
MOST_PLACES = 50  # sentences about single rooms
MOST_OFFERED = 200  # rooms
SENTENCES: Mapping[Subject, tuple[str, str]] = {
    Subject.SPEAK: ("Writes by itself", "To rooms and people, beyond answering whoever asked."),
    Subject.HAND_OUT: ("Sends files out", "Into rooms, or to other agents. The use of a secret counts, too."),
    Subject.PUBLISH: ("Publishes", "Pages, posts and links that anybody may see."),
    Subject.REACH: ("Looks things up on the web", "A request carries words to that place."),
    Subject.INSTRUCT: ("Gives work to other agents", "And teaches them skills."),
    Subject.SCHEDULE: ("Sets its own tasks", "Reminders and regular work."),
    Subject.SPEND: ("Uses tools that cost money", "Within its limits. Its model is not meant."),
    Subject.CHANGE_RIGHTS: ("Changes who may do what", "Agents, routes, invitations, links, hosts."),
    Subject.ERASE: ("Deletes what others have", "Messages, tasks, pages, what was remembered."),
}
ACTS: Mapping[Subject, str] = {
    Subject.SPEAK: "write by itself",
    Subject.HAND_OUT: "send a file",
    Subject.PUBLISH: "publish something",
    Subject.REACH: "look something up on the web",
    Subject.INSTRUCT: "give work to another agent",
    Subject.SCHEDULE: "set a task",
    Subject.SPEND: "use a tool that costs money",
    Subject.CHANGE_RIGHTS: "change who may do what",
    Subject.ERASE: "delete what others have",
}
ANYONE = "anyone, anywhere"
PLACES_HELP = "What is said for one place comes before what is said above."
ANSWERS = {
    Permission.YES: ("Yes", Tone.GOOD),
    Permission.ASK: ("Ask me", Tone.WARN),
    Permission.NO: ("No", Tone.BAD),
}


async def list_permission_blocks(request: PageRequest, folder: str) -> list[Block]:
    tools = await request.ask(ListToolsArgs(folder=folder))
    if not await request.may("grant.list"):
        return [make_tools(tools)]
    rules = (await request.ask(ListGrantsArgs(folder=folder))).rules
    above = {each: (await request.ask(ListGrantsArgs(folder=each))).rules for each in list_above(folder)}
    writes = await request.may("grant.choose", scope=folder)
    found = await asyncio.to_thread(_make_choices, folder, rules, above, tools, writes)  # there may be very many rules
    names = await _read_rooms(request)
    places = await asyncio.to_thread(make_place_choices, folder, [parse(each.text) for each in rules], names, writes)
    exact: list[Block] = [make_rules(folder, rules), make_tools(tools)]
    return [
        ChoiceList(choices=found, help=HELP),
        *([ChoiceList(choices=places[:MOST_PLACES], title="In one place", help=PLACES_HELP)] if places else []),
        *([make_sentence_form(folder, names)] if writes else []),
        Disclosure(label="Show the exact rules and tools", blocks=exact),
    ]


async def _read_rooms(request: PageRequest) -> Mapping[str, str]:
    """Return the names of rooms by their addresses: a bounded part of them, none for whoever may not see them."""
    if not await request.may("room.list"):
        return {}
    found = await request.operation_deps.store.read(rooms.list_first, MOST_OFFERED)
    return {each.address: each.name or each.address for each in found}


def make_place_choices(folder: str, rules: Sequence[GrantRule], names: Mapping[str, str], writes: bool) -> list[Choice]:
    """Return the answers for single rooms, each as a sentence of its own."""
    return [
        _make_place_choice(folder, subject, room, permission, names, writes=writes)
        for subject in choices.IN_ROOMS
        for room, permission in choices.list_room_answers(rules, subject).items()
    ]


def _make_place_choice(
    folder: str, subject: Subject, room: str, chosen: Permission, names: Mapping[str, str], *, writes: bool
) -> Choice:
    given = {"folder": folder, "subject": subject, "room": room}
    options = []
    for each, (label, tone) in ANSWERS.items():
        action = Action(label=label, operation="grant.choose", args={**given, "permission": each})
        is_chosen = each is chosen
        options.append(
            ChoiceOption(
                label=label,
                tone=tone if is_chosen else Tone.PLAIN,
                is_chosen=is_chosen,
                action=action if writes and not is_chosen else None,
            )
        )
    return Choice(sentence=f"{SENTENCES[subject][0]}: {names.get(room, room)}", options=tuple(options))


def make_sentence_form(folder: str, names: Mapping[str, str]) -> FormBlock:
    """When it wants to … in …: ask me. With what that would have done to the calls of the last week."""
    act = FormInput(
        name="subject",
        label="When it wants to",
        kind=InputKind.CHOICE,
        value=Subject.HAND_OUT,
        choices=tuple(ACTS),
        shown=tuple(ACTS.values()),
    )
    place = FormInput(
        name="room",
        label="To",
        kind=InputKind.CHOICE,
        choices=("", *names),
        shown=(ANYONE, *names.values()),
    )
    answer = FormInput(
        name="permission",
        label="Then",
        kind=InputKind.CHOICE,
        value=Permission.ASK,
        choices=(Permission.ASK, Permission.NO, Permission.YES),
        shown=("ask me", "no", "yes"),
        preview="grant.preview",
        previewed=("folder", "subject", "room", "permission"),
    )
    return FormBlock(
        label="Add this",
        operation="grant.choose",
        args={"folder": folder},
        inputs=[act, place, answer],
        title="Add a sentence",
        keeps=True,
    )


def _make_choices(
    folder: str,
    rules: Sequence[GrantRow],
    above: Mapping[str, Sequence[GrantRow]],
    tools: Sequence[VisibleTool],
    writes: bool,
) -> list[Choice]:
    parsed = [parse(each.text) for each in rules]
    inherited = {each: [parse(row.text) for row in rows] for each, rows in above.items()}
    return [make_choice(folder, each, parsed, inherited, tools, writes=writes) for each in SENTENCES]


def make_choice(
    folder: str,
    subject: Subject,
    rules: Sequence[GrantRule],
    above: Mapping[str, Sequence[GrantRule]],
    tools: Sequence[VisibleTool],
    *,
    writes: bool,
) -> Choice:
    sentence, hint = SENTENCES[subject]
    own = choices.find_permission(rules, subject)
    names = [each.name for each in tools if subject in each.effects]
    options = tuple(_make_option(folder, subject, each, own, writes=writes) for each in Permission)
    return Choice(sentence=sentence, options=options, hint=hint, note=_render_note(subject, own, rules, above, names))


def _make_option(
    folder: str, subject: Subject, permission: Permission, chosen: Permission, *, writes: bool
) -> ChoiceOption:
    label, tone = ANSWERS[permission]
    if permission is chosen:
        return ChoiceOption(label=label, tone=tone, is_chosen=True)
    given = {"folder": folder, "subject": subject, "permission": permission}
    action = Action(label=label, operation="grant.choose", args=given) if writes else None
    return ChoiceOption(label=label, action=action)


def _render_note(
    subject: Subject,
    own: Permission,
    rules: Sequence[GrantRule],
    above: Mapping[str, Sequence[GrantRule]],
    tools: Sequence[str],
) -> str:
    """Return why the answer is not the whole truth, '' if it is."""
    notes = []
    for folder, theirs in above.items():
        if choices.get_strictest([own, permission := choices.find_permission(theirs, subject)]) is not own:
            notes.append(f"{folder} says “{ANSWERS[permission][0].lower()}” for all below it.")
    if own is not Permission.NO and not tools and not notes:  # a denial that is its own hides tools, too
        notes.append("At its place in the tree it has no tool for this.")
    others = [each for each in rules if not (subject in choices.IN_ROOMS and choices.find_room(each, subject))]
    exceptions = [render_exception(each) for each in choices.list_exceptions(others, subject, tools)]
    if exceptions:
        more = "" if len(exceptions) <= MOST_SHOWN else f" and {len(exceptions) - MOST_SHOWN} more"
        notes.append(f"But: {', '.join(exceptions[:MOST_SHOWN])}{more}.")
    return " ".join(notes)


def render_exception(rule: GrantRule) -> str:
    """Return what a rule says in words, with its tool or room as the exact rules have it."""
    what = "in some rooms" if rule.subject else rule.action
    return f"never {what}" if rule.deny else f"asks first, {what}" if rule.hold else f"freely {what}"


def make_rules(folder: str, found: Sequence[GrantRow]) -> TableBlock:
    def list_row_actions(rule: GrantRow) -> tuple[Action, ...]:
        given = {"folder": folder, "rule": rule.text}
        return (Action(label="Remove", operation="grant.rm", args=given, asks=True, tone=Tone.BAD),)

    add = Action(label="Add a rule", operation="grant.add", args={"folder": folder}, asks=True)
    empty = EmptyState(text="It has no rules of its own: its tier decides.", action=add)
    return make_table(found, RULE, empty, actions=list_row_actions, title="Rules")


def make_tools(found: Sequence[VisibleTool]) -> TableBlock:
    return make_table(found, TOOL, EmptyState(text="It may call no tool."), title="Tools that it may call")

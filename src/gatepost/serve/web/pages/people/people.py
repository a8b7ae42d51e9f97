"""People: who is known, by which names, with which roles; and newcomers who wait."""

from gatepost.serve.control.arguments.people.onboarding import ListNewcomersArgs
from gatepost.serve.control.arguments.people.tokens import ListInvitationsArgs
from gatepost.serve.control.arguments.people.users import ListUsersArgs, ShowUserArgs, UserDetails
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import (
    badge,
    code,
    flag,
    link,
    made,
    make_facts,
    make_table,
    moment,
    number,
    shorten,
    text,
)
from gatepost.serve.web.dashboard.view import Action, Block, Cell, EmptyState, PageView, Tone
from gatepost.store.people.newcomers import Entrance, Newcomer, NewcomerState

NEW = Action(label="Add a person", operation="user.add", asks=True, tone=Tone.GOOD)
INVITE = Action(label="Invite", operation="invite.create", asks=True)
OPEN = Action(label="Open an entrance", operation="onboarding.open", asks=True)
EMPTY = EmptyState(text="Nobody is known yet. Whoever writes first, or is invited, is here.", action=INVITE)


def _show_roles(person: UserDetails) -> Cell:
    return shorten(", ".join(role if not folder else f"{role} of {folder}" for role, folder in person.roles)) or None


ROLES = made("roles", "Roles", _show_roles)
MEMBER = made("member_of", "Member of", lambda person: shorten(", ".join(person.member_of)) or None)
NAMES = made("identities", "Also", lambda person: shorten(", ".join(person.identities)) or None)
ROOMS = made("direct_rooms", "Can be reached in", lambda person: shorten(", ".join(person.direct_rooms)) or None)
PERSON = (
    link("id", "Person", "/people/{id}"),
    text("name", "Name"),
    ROLES,
    MEMBER,
    NAMES,
    moment("created_at", "Known since"),
)
NEWCOMER = (
    text("name", "Name"),
    code("sender", "Who"),
    text("instance", "Channel"),
    code("address", "Wrote in"),
    badge("state", "State"),
    text("reason", "Why"),
    made("folder", "Group", lambda each: each.folder or f"{each.parent}/…"),
    text("invited_by", "Invited by"),
    text("decided_by", "Decided by"),
    moment("asked_at", "Asked"),
    moment("admitted_at", "Let in"),
)
ENTRANCE = (
    text("instance", "Channel"),
    code("senders", "Who"),
    made("folder", "Group", lambda entrance: f"{entrance.folder}/…"),
    made("per_day", "Lets in", lambda entrance: _show_limit(entrance)),
    text("created_by", "By"),
    moment("created_at", "Since"),
)
INVITATION = (
    text("label", "Label"),
    link("folder", "Group", "/groups/{folder}"),
    flag("own_group", "For", "own groups below it"),
    badge("state", "State"),
    number("uses_left", "Uses left"),
    moment("created_at", "Since"),
    moment("expires_at", "Ends"),
    text("created_by", "Made by"),
)


@page("/people", "People", Section.ACCESS, "user.list", order=10)
async def show_people(request: PageRequest) -> PageView:
    found = await request.ask(ListUsersArgs())
    blocks: list[Block] = [make_table(found, PERSON, EMPTY)]
    if await request.may("onboarding.list"):
        onboarding = await request.ask(ListNewcomersArgs())
        none = EmptyState(text="Nobody waits to be let in.")
        newcomers = make_table(onboarding.newcomers, NEWCOMER, none, actions=list_newcomer_actions, title="Newcomers")
        shut = EmptyState(text="Strangers get no group of their own.", action=OPEN)
        entrances = make_table(
            onboarding.entrances, ENTRANCE, shut, actions=list_entrance_actions, title="Entrances for strangers"
        )
        blocks += [newcomers, entrances]
    if await request.may("invite.list"):
        invitations = await request.ask(ListInvitationsArgs())
        none = EmptyState(text="There are no invitations.", action=INVITE)
        blocks.append(make_table(invitations, INVITATION, none, title="Invitations"))
    return PageView(blocks=blocks, actions=(OPEN, INVITE, NEW))


def _show_limit(entrance: Entrance) -> Cell:
    return f"{entrance.per_day} a day" if entrance.per_day else "each when somebody allows it"


def list_entrance_actions(entrance: Entrance) -> tuple[Action, ...]:
    given = {"id": entrance.id}
    return (Action(label="Close", operation="onboarding.close", args=given, asks=True, tone=Tone.BAD),)


def list_newcomer_actions(newcomer: Newcomer) -> tuple[Action, ...]:
    if newcomer.state != NewcomerState.QUEUED:
        return ()
    given = {"id": newcomer.id}
    return (
        Action(label="Let in", operation="onboarding.allow", args=given, tone=Tone.GOOD),
        Action(label="Deny", operation="onboarding.deny", args=given, asks=True, tone=Tone.BAD),
    )


@page("/people/{id}", "Person", Section.ACCESS, "user.show")
async def show_person(request: PageRequest) -> PageView:
    person = await request.ask(ShowUserArgs(id=request.params["id"]))
    given = {"id": person.id}
    fields = (code("id", "Id"), text("name", "Name"), ROLES, MEMBER, NAMES, ROOMS, moment("created_at", "Known since"))
    return PageView(
        title=person.name or person.id,
        blocks=[make_facts(person, fields)],
        actions=(
            Action(label="Give a role", operation="user.role", args=given, asks=True),
            Action(label="Make a member", operation="user.member", args=given, asks=True),
            Action(label="Pair", operation="user.pair", args=given, asks=True),
            Action(label="Block", operation="user.block", args={"who": person.id}, asks=True, tone=Tone.BAD),
            Action(label="Forget", operation="user.forget", args=given, asks=True, tone=Tone.BAD),
        ),
    )

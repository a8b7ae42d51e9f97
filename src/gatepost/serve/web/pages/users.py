"""People: who is known, by which names, with which roles; newcomers who wait; and invitations to the page."""

from gatepost.flow.groups import WORLD
from gatepost.serve.control.arguments.credentials import ListInvitationsArgs, TokenView
from gatepost.serve.control.arguments.users import ListNewcomersArgs, ListUsersArgs, ShowUserArgs, UserDetails
from gatepost.serve.control.rights import ROOT_FOLDER
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, made, make_columns, make_facts, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    EmptyState,
    FormBlock,
    FormInput,
    InputKind,
    PageView,
    TableBlock,
    Tone,
)
from gatepost.store.people.newcomers import Entrance, Newcomer, NewcomerState
from gatepost.store.rights.tokens import InvitedRights, TokenState, render_invited
from gatepost.store.sessions import groups

MOST_OFFERED = 200  # agents to choose from
NEW = Action(label="Add a person", operation="user.add", asks=True, tone=Tone.GOOD)
INVITE = Action(label="Invite", operation="invite.create", asks=True)
OPEN = Action(label="Open an entrance", operation="onboarding.open", asks=True)
EMPTY = EmptyState(text="Nobody is known yet. Whoever writes first, or is invited, is here.", action=INVITE)
PERSON = make_columns(UserDetails, {"id": link("id", "Person", "/people/{id}")})
DETAILS = make_columns(UserDetails, details=True)
NEWCOMER = make_columns(Newcomer, {"folder": made("folder", "Group", lambda each: each.folder or f"{each.parent}/…")})
ENTRANCE = make_columns(Entrance)
INVITATION = make_columns(
    TokenView,
    {"folder": link("folder", "Group", "/groups/{folder}")},
    without=("kind", "address", "signature", "origins", "instructions"),  # an invitation has none of them
)


@page("/people", "People", Section.PEOPLE, "user.list", order=10)
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
        blocks.append(await _list_invitations(request))
    return PageView(blocks=blocks, actions=(OPEN, INVITE, NEW))


@page("/people/invite", "Invite", Section.PEOPLE, "invite.create", "invite.list", order=15)
async def show_invite(request: PageRequest) -> PageView:
    folders = await request.operation_deps.store.read(groups.list_folders, MOST_OFFERED)
    inputs = [
        FormInput(
            name="folder",
            label="Agent",
            kind=InputKind.CHOICE,
            value=WORLD,
            choices=tuple(each for each in folders if each != ROOT_FOLDER),
        ),
        FormInput(
            name="rights",
            label="They may",
            kind=InputKind.CHOICE,
            value=InvitedRights.TALK,
            choices=tuple(InvitedRights),
            shown=tuple(render_invited(each, "this agent") for each in InvitedRights),
            description="Nobody gives more than they may do themselves.",
        ),
        FormInput(
            name="label",
            label="For whom",
            kind=InputKind.TEXT,
            description="A note for the list below, like “Ann”. They choose their name themselves.",
        ),
        FormInput(name="days", label="Days until it ends", kind=InputKind.NUMBER, value="7", least=1, most=30),
    ]
    form = FormBlock(label="Make the link", operation="invite.create", args={"page": "on"}, inputs=inputs, clears=True)
    lead = "Whoever opens the link first chooses a name and is signed in. It works once: send it to one person alone."
    return PageView(lead=lead, blocks=[form, await _list_invitations(request)])


async def _list_invitations(request: PageRequest) -> TableBlock:
    found = await request.ask(ListInvitationsArgs())
    none = EmptyState(text="There are no invitations.")
    return make_table(found, INVITATION, none, actions=list_invitation_actions, title="Invitations")


def list_invitation_actions(invitation: TokenView) -> tuple[Action, ...]:
    if invitation.state is not TokenState.VALID:
        return ()
    return (Action(label="Withdraw", operation="token.rm", args={"id": invitation.id}, asks=True, tone=Tone.BAD),)


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


@page("/people/{id}", "Person", Section.PEOPLE, "user.show")
async def show_person(request: PageRequest) -> PageView:
    person = await request.ask(ShowUserArgs(id=request.params["id"]))
    given = {"id": person.id}
    return PageView(
        title=person.name or person.id,
        blocks=[make_facts(person, DETAILS)],
        actions=(
            Action(label="Give a role", operation="user.role", args=given, asks=True),
            Action(label="Make a member", operation="user.member", args=given, asks=True),
            Action(label="Pair", operation="user.pair", args=given, asks=True),
            Action(label="Block", operation="user.block", args={"who": person.id}, asks=True, tone=Tone.BAD),
            Action(label="Forget", operation="user.forget", args=given, asks=True, tone=Tone.BAD),
        ),
    )

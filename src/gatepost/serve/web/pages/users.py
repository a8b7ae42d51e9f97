"""People: who is known, by which names, with which roles; newcomers who wait; and invitations to the page."""

from gatepost.core.records import replace
from gatepost.flow.groups import WORLD
from gatepost.flow.reports import ErasureReport
from gatepost.serve.control.arguments.credentials import ListInvitationsArgs, TokenView
from gatepost.serve.control.arguments.users import (
    ForgetUserArgs,
    ListNewcomersArgs,
    ListUsersArgs,
    ShowUserArgs,
    UserDetails,
)
from gatepost.serve.control.rights import ROOT_FOLDER
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page, render_path
from gatepost.serve.web.dashboard.tables import link, made, make_columns, make_facts, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    Column,
    Disclosure,
    EmptyState,
    Fact,
    Facts,
    FormBlock,
    FormInput,
    InputKind,
    Note,
    PageView,
    Row,
    Tab,
    TableBlock,
    Tone,
)
from gatepost.store.people.newcomers import Entrance, Newcomer, NewcomerState
from gatepost.store.rights.tokens import InvitedRights, TokenState, render_invited
from gatepost.store.sessions import groups

DATA = "data"  # the view of what is known of a person
KNOWN = (
    "All that this gateway knows of this person, by each of their identities. To forget them takes all of it away, and"
    " cannot be undone."
)
KINDS = {
    "audit": "Entries of the record that name them",
    "answers": "Answers to them",
    "choices": "Choices in chats",
    "files": "Files that they sent",
    "named": "Places where others' entries name them",
    "logins": "Sign-ins, passwords and passkeys",
    "cards": "Cards that they were asked on",
}
STAYS = (
    "The record keeps that something happened, when and where, without their name: it proves that nothing was changed.",
    "What was spent stays as a number, so that budgets hold.",
    "What others wrote stays, also if it is about them. Backups that were made before keep everything.",
)
MOST_OFFERED = 200  # agents to choose from
NEW = Action(label="Add a person", operation="user.add", asks=True, tone=Tone.GOOD)
INVITE = Action(label="Invite by a code", operation="invite.create", asks=True)
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
    found = await request.operation_deps.store.read(groups.list_first, MOST_OFFERED)
    inputs = [
        FormInput(
            name="folder",
            label="Agent",
            kind=InputKind.CHOICE,
            value=WORLD,
            choices=tuple(each.folder for each in found if each.folder != ROOT_FOLDER),
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
    address, forgets = render_path("/people/{id}", id=person.id), await request.may("user.forget")
    shows_data = forgets and request.query.get("view") == DATA
    tabs = (
        Tab(label="Person", href=address, is_current=not shows_data),
        Tab(label="What is known", href=f"{address}?view={DATA}", is_current=shows_data),
    )
    view = PageView(title=person.name or person.id, blocks=[], tabs=tabs if forgets else ())
    if shows_data:
        found = await request.ask(ForgetUserArgs(id=person.id))
        forget = Action(
            label="Forget", operation="user.forget", args={**given, "erase": "on"}, asks=True, tone=Tone.BAD
        )
        return replace(view, lead=KNOWN, blocks=make_report_blocks(found), actions=(forget,))
    return replace(
        view,
        blocks=[make_facts(person, DETAILS)],
        actions=(
            Action(label="Give a role", operation="user.role", args=given, asks=True),
            Action(label="Make a member", operation="user.member", args=given, asks=True),
            Action(label="Pair", operation="user.pair", args=given, asks=True),
            Action(label="See the page as they do", operation="user.view", args=given),
            Action(label="Block", operation="user.block", args={"who": person.id}, asks=True, tone=Tone.BAD),
        ),
    )


def make_report_blocks(report: ErasureReport) -> list[Block]:
    """Show what is known by kind and number, and what would stay."""
    rows = [
        Row(cells=(KINDS.get(kind, kind.replace("_", " ").capitalize()), number))
        for kind, number in report.counts.items()
    ]
    columns = (Column("kind", "Kind"), Column("number", "Number", right=True))
    table = TableBlock(columns=columns, rows=rows, empty=EmptyState(text="Nothing is known."), title="Goes with them")
    kept = [Note(text=each) for each in (*(_drop_command(each) for each in report.left), *STAYS)]
    names = Facts(items=[Fact("Identities", ", ".join(report.identities))])
    return [names, table, Disclosure(label="What stays, and why", blocks=kept)]


def _drop_command(text: str) -> str:
    """Return a sentence without the half that names a command."""
    return text.partition("; `gatepost ")[0].rstrip(".") + "."

"""Skills: what agents are taught and by whose consent, drafts of agents, and what was read and waits for a yes."""

from collections.abc import Sequence

from gatepost.serve.control.arguments.groups import ListGroupsArgs
from gatepost.serve.control.arguments.skills import (
    NONE,
    AgreedSkillView,
    DraftState,
    ListSkillsArgs,
    ShowSkillArgs,
    ShowSkillCardArgs,
    SkillCard,
    SkillDetails,
    SkillDraft,
    WaitingSkill,
)
from gatepost.serve.web.dashboard.contract import PageRequest, Section, page
from gatepost.serve.web.dashboard.tables import link, make_columns, make_facts, make_table
from gatepost.serve.web.dashboard.view import (
    Action,
    Block,
    DiffBlock,
    EmptyState,
    FormBlock,
    FormInput,
    InputKind,
    LongText,
    Note,
    PageView,
    Tone,
)
from gatepost.store.sessions.skills import REREAD, AgreedSkill, render_folder

READ = Action(label="Read skills", operation="skill.read", asks=True, tone=Tone.GOOD)
EMPTY = EmptyState(text="Nobody has agreed to a skill. Agents have those alone that a person agreed to.", action=READ)
NO_DRAFT = EmptyState(text="No agent has written a skill that waits for somebody.")
NOTHING_READ = EmptyState(text="Nothing was read that waits for a yes. What is read is kept for a day.")
MORE = "There are more drafts than are shown; `gatepost skill list GROUP` shows those of one agent."

SKILL = make_columns(AgreedSkillView, {"name": link("name", "Skill", "/skills/{place}", by="place")})
DETAILS = make_columns(AgreedSkill, details=True)
DRAFT = make_columns(SkillDraft, {"name": link("name", "Draft", "/groups/{folder}", by="folder")})
WAITING = make_columns(WaitingSkill, {"name": link("name", "Skill", "/skill-cards/{digest}", by="digest")})
CARD = make_columns(SkillCard, details=True)
FACTS = make_columns(SkillCard, without=("folder", "digest", "before", "origin", "revision"), details=True)


@page("/skills", "Skills", Section.AGENTS, "skill.list", order=40)
async def show_skills(request: PageRequest) -> PageView:
    found = await request.ask(ListSkillsArgs())
    more = [Note(text=MORE)] if found.more else []
    return PageView(
        blocks=[
            make_table(found.skills, SKILL, EMPTY, actions=list_actions),
            make_table(found.drafts, DRAFT, NO_DRAFT, title="Drafts of agents", actions=list_draft_actions),
            *more,
            make_table(found.waiting, WAITING, NOTHING_READ, title="Read, and not agreed to"),
        ],
        actions=(READ,),
    )


@page("/skills/{place}", "Skill", Section.AGENTS, "skill.show")
async def show_skill(request: PageRequest) -> PageView:
    folder, _, name = request.params["place"].rpartition(":")
    return make_skill_view(await request.ask(ShowSkillArgs(name=name, folder=folder)))


def make_skill_view(found: SkillDetails) -> PageView:
    blocks: list[Block] = [
        make_facts(found, DETAILS),
        make_facts(found.card, FACTS, "Card"),
        LongText(title="Files", text="\n".join(found.paths)),
        LongText(title="SKILL.md", text=found.text),
    ]
    return PageView(title=found.name, lead=render_folder(found.folder), blocks=blocks, actions=list_actions(found))


@page("/skill-cards/{digest}", "A skill to agree to", Section.AGENTS, "skill.card", "group.list")
async def show_card(request: PageRequest) -> PageView:
    group = request.query.get("group")
    card = await request.ask(ShowSkillCardArgs(digest=request.params["digest"], folder=group))
    folders = [each.folder for each in await request.ask(ListGroupsArgs())]
    return make_card_view(card, folders)


def make_card_view(card: SkillCard, folders: Sequence[str]) -> PageView:
    """The changes are those against what the chosen group has now, and a yes is refused if it has another by then."""
    chosen = FormInput(
        name="group",
        label="For",
        kind=InputKind.CHOICE,
        value=card.folder,
        choices=("", *folders),
        shown=(render_folder(""), *folders),
    )
    blocks: list[Block] = [
        make_facts(card, CARD),
        FormBlock(label="Compare", title="For whom", inputs=[chosen]),
        DiffBlock(title="Changes" if card.before else "All of it", lines=card.changes),
    ]
    return PageView(title=card.name, lead=card.description, blocks=blocks, actions=list_agreements(card))


def list_agreements(card: SkillCard) -> tuple[Action, ...]:
    given = {"name": card.name, "digest": card.digest, "folder": card.folder, "before": card.before or NONE}
    label = f"Agree for {render_folder(card.folder)}"
    agree = Action(label=label, operation="skill.agree", args=given, tone=Tone.GOOD)
    if not card.folder:
        return (agree,)
    return (agree, Action(label=f"{label} and those below it", operation="skill.agree", args={**given, "below": True}))


def list_actions(skill: AgreedSkill) -> tuple[Action, ...]:
    given = {"name": skill.name, "folder": skill.folder}
    remove = Action(label="Remove", operation="skill.rm", args=given, asks=True, tone=Tone.BAD)
    look = Action(label="Look for a change", operation="skill.read_update", args=given)
    return (look, remove) if skill.source in REREAD else (remove,)


def list_draft_actions(draft: SkillDraft) -> tuple[Action, ...]:
    if draft.state is DraftState.UNUSABLE:
        return ()
    given = {"name": draft.name, "folder": draft.folder}
    return (Action(label="Read it", operation="skill.read_draft", args=given),)

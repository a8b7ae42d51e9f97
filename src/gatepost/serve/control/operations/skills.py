"""Skills: list, show, read, agree, remove. Skills that were read are kept by their digests, so a person agrees to what
was shown."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from gatepost.access.tiers import check_folder
from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import extend
from gatepost.flow.gateways.folder_check import check_here, is_here
from gatepost.flow.group_files import SKILLS, check_skill_name, is_skill_name
from gatepost.flow.skills.agreements import agree, list_affected
from gatepost.flow.skills.skill_card import ReadSkill, TreeChanges, describe_skill, render_tree_changes
from gatepost.flow.skills.skill_files import MAIN, pack_tree, read_draft, unpack_tree
from gatepost.flow.skills.skill_needs import has_program, list_key_names, list_steps
from gatepost.flow.skills.skill_sources import read_source
from gatepost.messages.visible_text import show_hidden_in_lines
from gatepost.serve.control.arguments.skills import (
    NONE,
    AgreedSkillView,
    AgreeSkillArgs,
    DraftState,
    ListSkillsArgs,
    ReadSkillArgs,
    ReadSkillDraftArgs,
    ReadSkillUpdateArgs,
    RemoveSkillArgs,
    ShowSkillArgs,
    ShowSkillCardArgs,
    SkillCard,
    SkillDetails,
    SkillDraft,
    SkillList,
    WaitingSkill,
)
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.port import Db
from gatepost.store.sessions import groups, skills
from gatepost.store.sessions.skills import REREAD, AgreedSkill, SkillContent, SkillSource

MOST_DRAFTS, MOST_OF_ONE = 200, 50  # drafts that one list shows, and of one agent if it is of all of them
LARGEST_LOOK = 64 * 1024 * 1024  # bytes of drafts that one list reads
NOT_ALL = "not all of it is shown here: look at the files before you agree"


@operation
async def list_skills(deps: OperationDeps, args: ListSkillsArgs) -> SkillList:
    def read(db: Db) -> tuple[list[AgreedSkill], dict[str, str], list[str], list[SkillContent]]:
        folders = [each.folder for each in groups.list_all(db)]
        if args.folder and args.folder not in folders:
            raise NotFound("group", args.folder[:200], "`gatepost group list` shows them")
        rows = skills.list_for_agent(db, args.folder) if args.folder else skills.list_all(db)
        said = {each.digest: each.description for each in skills.list_contents(db, [row.digest for row in rows])}
        if args.folder:
            return rows, said, [args.folder], []
        return rows, said, folders, skills.list_waiting(db)

    rows, said, folders, waiting = await deps.store.read(read)
    if args.folder:
        await check_here(deps.store, deps.home, args.folder)
    here = [each for each in folders if await is_here(deps.store, deps.home, each)]
    drafts, more = await asyncio.to_thread(find_drafts, deps.home, here, rows)
    return SkillList(
        [extend(AgreedSkillView, each, description=said.get(each.digest, "")) for each in rows],
        drafts,
        [make_waiting(each) for each in waiting],
        more,
    )


def make_waiting(content: SkillContent) -> WaitingSkill:
    return WaitingSkill(
        digest=content.digest,
        name=content.read_facts().name,
        description=content.description,
        source=content.source,
        origin=content.origin,
        read_at=content.added_at,
    )


def find_drafts(home: Home, folders: Iterable[str], rows: Sequence[AgreedSkill]) -> tuple[list[SkillDraft], bool]:
    """Return what lies in `skills/` of these groups and is not agreed as it is there; True if there is more."""
    agreed = {(each.folder, each.name): each.digest for each in rows}
    found: list[SkillDraft] = []
    left = LARGEST_LOOK
    every = [*folders]
    more = False
    for folder in every:
        places = _list_places(home, folder)
        here = MOST_DRAFTS if len(every) == 1 else MOST_OF_ONE
        more |= len(places) > here
        for name in places[:here]:
            if len(found) >= MOST_DRAFTS or left < 0:
                return found, True
            try:
                with open_untrusted(home.groups) as root:
                    tree = read_draft(root, f"{folder}/{SKILLS}/{name}")
            except NotFound:
                continue  # a folder without SKILL.md, or a file
            except GatepostError as error:
                found.append(SkillDraft(name=name, folder=folder, state=DraftState.UNUSABLE, why=str(error)))
                continue
            left -= tree.size
            known = agreed.get((folder, name))
            if known != tree.digest:
                found.append(
                    SkillDraft(name=name, folder=folder, state=DraftState.CHANGED if known else DraftState.NEW)
                )
    return found, more


def _list_places(home: Home, folder: str) -> list[str]:
    try:
        with open_untrusted(home.groups) as root:
            return [each for each in root.list(f"{folder}/{SKILLS}") if is_skill_name(each)]
    except GatepostError:  # there is no such folder
        return []


@operation
async def show_skill(deps: OperationDeps, args: ShowSkillArgs) -> SkillDetails:
    def read(db: Db) -> tuple[AgreedSkill, SkillContent, bytes, AgreedNow]:
        rows = skills.list_for_agent(db, args.folder) if args.folder else skills.list_all(db)
        row = next((each for each in rows if each.name == args.name and (args.folder or not each.folder)), None)
        content = skills.get_content(db, row.digest) if row is not None else None
        pack = skills.get_pack(db, row.digest) if row is not None else None
        if row is None or content is None or pack is None:
            raise make_not_found(db, args.name, args.folder)
        return row, content, pack, AgreedNow(row.digest, None, list_key_names(db))

    row, content, pack, agreed = await deps.store.read(read)

    def make() -> SkillDetails:
        tree = unpack_tree(pack)
        card = make_card(deps, ReadSkill(row.name, tree, content), row.folder, agreed, changes=False)
        paths = [f"{each.path}{' (can be run)' if each.executable else ''}" for each in tree.files]
        return extend(SkillDetails, row, card=card, paths=paths, text=show_hidden_in_lines(tree.main_text))

    return await asyncio.to_thread(make)


class AgreedNow(Struct, frozen=True):
    """The content that is agreed under the name of a card, if there is one, and the keys that are set: the card is
    compared with both."""

    digest: str
    pack: bytes | None
    keys: set[str]


def load_agreed(db: Db, folder: str, name: str) -> AgreedNow:
    row = skills.get(db, folder, name)
    pack = skills.get_pack(db, row.digest) if row is not None else None
    return AgreedNow(row.digest if row is not None else "", pack, list_key_names(db))


def make_card(deps: OperationDeps, skill: ReadSkill, folder: str, now: AgreedNow, *, changes: bool = True) -> SkillCard:
    """Blocks: call it in a thread. `changes`: with the lines in which it differs from what is agreed."""
    content, facts = skill.content, skill.content.read_facts()
    before = unpack_tree(now.pack) if changes and now.pack is not None else None
    shown = render_tree_changes(before, skill.tree) if changes else TreeChanges([], True)
    return SkillCard(
        name=skill.name,
        folder=folder,
        digest=content.digest,
        description=content.description,
        text_size=len(skill.tree.find(MAIN) or b""),
        size=content.size,
        files=content.files,
        origin=content.origin,
        revision=content.revision,
        license=facts.license,
        compatibility=facts.compatibility,
        allowed_tools=[*facts.allowed_tools],
        scripts=[*facts.scripts],
        hosts=[*facts.hosts],
        secrets=[*facts.env],
        programs=[*facts.programs],
        notes=[*facts.notes, *([] if shown.whole else [NOT_ALL])],
        steps=list_steps(facts, folder, now.keys, partial(has_program, deps.home, deps.config)),
        before=now.digest,
        changes=shown.lines,
    )


async def _keep_read(deps: OperationDeps, found: Sequence[ReadSkill], folder: str) -> list[SkillCard]:
    """Keep what was read, for whoever agrees to it. Return it as cards, compared with what the group has now."""
    cards = []
    for skill in found:
        pack = await asyncio.to_thread(pack_tree, skill.tree)
        await deps.store.write(skills.add_content, skill.content, pack)
        now = await deps.store.read(load_agreed, folder, skill.name)
        cards.append(await asyncio.to_thread(make_card, deps, skill, folder, now))
    await deps.write(lambda db: None, digests=[each.digest for each in cards])
    return cards


@operation
async def show_skill_card(deps: OperationDeps, args: ShowSkillCardArgs) -> SkillCard:
    def read(db: Db) -> tuple[SkillContent, bytes, str, AgreedNow]:
        content, pack = skills.get_content(db, args.digest), skills.get_pack(db, args.digest)
        if content is None or pack is None:
            raise NotFound("content", args.digest[:12], "it was read too long ago; read it again")
        folder = find_group(db, content) if args.folder is None else args.folder
        return content, pack, folder, load_agreed(db, folder, content.read_facts().name)

    content, pack, folder, now = await deps.store.read(read)

    def make() -> SkillCard:
        return make_card(deps, ReadSkill(content.read_facts().name, unpack_tree(pack), content), folder, now)

    return await asyncio.to_thread(make)


def find_group(db: Db, content: SkillContent) -> str:
    """Return the group in whose folder it was read, or which alone has a skill of that name from there; else ''."""
    if content.source is SkillSource.DRAFT:
        return content.origin.rpartition(f"/{SKILLS}/")[0]
    name = content.read_facts().name
    known = [each.folder for each in skills.list_all(db) if (each.name, each.origin) == (name, content.origin)]
    return known[0] if len(known) == 1 else ""


@operation
async def read_skills(deps: OperationDeps, args: ReadSkillArgs) -> list[SkillCard]:
    await _check_target(deps, args.target)
    found = await read_source(deps.home, args.source, deps.clock.now(), only=args.only, name=args.name)
    return await _keep_read(deps, found, args.target)


async def _check_target(deps: OperationDeps, folder: str) -> None:
    if folder and await deps.store.read(groups.get, check_folder(folder)) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")


@operation
async def read_skill_draft(deps: OperationDeps, args: ReadSkillDraftArgs) -> list[SkillCard]:
    await _check_target(deps, args.folder)
    await check_here(deps.store, deps.home, args.folder)
    check_skill_name(args.name)
    place, now = f"{args.folder}/{SKILLS}/{args.name}", deps.clock.now()

    def read() -> ReadSkill:
        with open_untrusted(deps.home.groups) as root:
            tree = read_draft(root, place)
        return describe_skill(tree, args.name, SkillSource.DRAFT, now, origin=place, name=args.name)

    return await _keep_read(deps, [await asyncio.to_thread(read)], args.folder)


def make_not_found(db: Db, name: str, folder: str) -> NotFound:
    """Return the error of a skill that is not there under the name. A caller who asked for every agent may see all
    groups, and is told which of them have it."""
    others = [] if folder else sorted(each.folder for each in skills.list_all(db) if each.name == name)
    if not others:
        return NotFound("skill", name, "`gatepost skill list` shows them, and for whom each holds")
    return NotFound("skill", name, f"for every agent; {', '.join(others[:3])} has it: add --group {others[0]}")


@operation
async def read_skill_update(deps: OperationDeps, args: ReadSkillUpdateArgs) -> list[SkillCard]:
    row = await deps.store.read(skills.get, args.folder, args.name)
    if row is None:
        raise await deps.store.read(make_not_found, args.name, args.folder)
    if row.source not in REREAD:
        raise Invalid("name", f"{args.name} came from no place that can be read again; add it anew")
    found = await read_source(deps.home, row.origin, deps.clock.now(), name=row.name)
    return await _keep_read(deps, found, args.folder)


@operation
async def agree_skill(deps: OperationDeps, args: AgreeSkillArgs) -> AgreedSkill:
    now = deps.clock.now()
    check_skill_name(args.name)
    base = "" if args.before == NONE else args.before

    def add(db: Db) -> tuple[AgreedSkill, list[str]]:
        content = skills.get_content(db, args.digest)
        if content is None:
            raise NotFound("content", args.digest[:12], "it was read too long ago; read it again")
        before = skills.get(db, args.folder, args.name)
        row = agree(db, args.folder, args.name, content, deps.caller, now, below=args.below, base=base)
        return row, list_affected(db, args.folder) if before != row else []

    row, affected = await deps.write(add)
    for each in affected:
        deps.events.group(each)
    return row


@operation
async def remove_skill(deps: OperationDeps, args: RemoveSkillArgs) -> AgreedSkill:
    def remove(db: Db) -> tuple[AgreedSkill, list[str]]:
        row = skills.get(db, args.folder, args.name)
        if row is None:
            raise make_not_found(db, args.name, args.folder)
        skills.remove(db, args.folder, args.name)
        return row, list_affected(db, args.folder)

    row, affected = await deps.write(remove)
    for each in affected:
        deps.events.group(each)
    return row

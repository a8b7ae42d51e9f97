"""Skills: list, show, read, agree, remove. What is read is kept by its digest, so a person agrees to what was shown."""

import asyncio
from collections.abc import Iterable, Sequence

from gatepost.access.tiers import check_folder
from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.core.records import extend
from gatepost.flow.gateways.folder_check import check_here, is_here
from gatepost.flow.group_files import NAME_OF_SKILL, SKILLS
from gatepost.flow.skills.agreements import agree, list_affected
from gatepost.flow.skills.skill_card import ReadSkill, describe_skill, render_tree_changes
from gatepost.flow.skills.skill_files import MAIN, SkillTree, pack_tree, read_draft, unpack_tree
from gatepost.flow.skills.skill_sources import read_source
from gatepost.messages.visible_text import show_hidden_in_lines
from gatepost.serve.control.arguments.skills import (
    AgreedSkillView,
    AgreeSkillArgs,
    ListSkillsArgs,
    ReadSkillArgs,
    ReadSkillDraftArgs,
    ReadSkillUpdateArgs,
    RemoveSkillArgs,
    ShowSkillArgs,
    SkillCard,
    SkillDetails,
    SkillDraft,
    SkillList,
)
from gatepost.serve.control.contract import OperationDeps, operation
from gatepost.store.port import Db
from gatepost.store.sessions import groups, skills
from gatepost.store.sessions.skills import AgreedSkill, SkillContent, SkillSource

MOST_DRAFTS = 200  # that one list shows
LARGEST_LOOK = 64 * 1024 * 1024  # bytes of drafts that one list reads
REREAD = (SkillSource.PATH, SkillSource.ZIP, SkillSource.GIT)


@operation
async def list_skills(deps: OperationDeps, args: ListSkillsArgs) -> SkillList:
    def read(db: Db) -> tuple[list[AgreedSkill], dict[str, str], list[str]]:
        folders = [each.folder for each in groups.list_all(db)]
        if args.folder and args.folder not in folders:
            raise NotFound("group", args.folder[:200], "`gatepost group list` shows them")
        rows = skills.list_for_agent(db, args.folder) if args.folder else skills.list_all(db)
        said = {each.digest: each.description for each in skills.list_contents(db, [row.digest for row in rows])}
        return rows, said, [args.folder] if args.folder else folders

    rows, said, folders = await deps.store.read(read)
    if args.folder:
        await check_here(deps.store, deps.home, args.folder)
    here = [each for each in folders if await is_here(deps.store, deps.home, each)]
    drafts, more = await asyncio.to_thread(find_drafts, deps.home, here, rows)
    return SkillList(
        [extend(AgreedSkillView, each, description=said.get(each.digest, "")) for each in rows], drafts, more
    )


def find_drafts(home: Home, folders: Iterable[str], rows: Sequence[AgreedSkill]) -> tuple[list[SkillDraft], bool]:
    """Return what lies in `skills/` of these groups and is not agreed as it is there; True if there is more."""
    agreed = {(each.folder, each.name): each.digest for each in rows}
    found: list[SkillDraft] = []
    left = LARGEST_LOOK
    for folder in folders:
        for name in _list_places(home, folder):
            if len(found) >= MOST_DRAFTS or left < 0:
                return found, True
            try:
                with open_untrusted(home.groups) as root:
                    tree = read_draft(root, f"{folder}/{SKILLS}/{name}")
            except NotFound:
                continue  # a folder without SKILL.md, or a file
            except GatepostError as error:
                found.append(SkillDraft(name=name, folder=folder, state=f"cannot be agreed to: {error}"))
                continue
            left -= tree.size
            known = agreed.get((folder, name))
            if known != tree.digest:
                found.append(SkillDraft(name=name, folder=folder, state="changed" if known else "new"))
    return found, False


def _list_places(home: Home, folder: str) -> list[str]:
    try:
        with open_untrusted(home.groups) as root:
            return [each for each in root.list(f"{folder}/{SKILLS}") if NAME_OF_SKILL.match(each)]
    except GatepostError:  # there is no such folder
        return []


@operation
async def show_skill(deps: OperationDeps, args: ShowSkillArgs) -> SkillDetails:
    def read(db: Db) -> tuple[AgreedSkill, SkillContent, bytes]:
        rows = skills.list_for_agent(db, args.folder) if args.folder else skills.list_all(db)
        row = next((each for each in rows if each.name == args.name and (args.folder or not each.folder)), None)
        content = skills.get_content(db, row.digest) if row is not None else None
        pack = skills.get_pack(db, row.digest) if row is not None else None
        if row is None or content is None or pack is None:
            raise NotFound("skill", args.name, "`gatepost skill list` shows them")
        return row, content, pack

    row, content, pack = await deps.store.read(read)

    def make() -> SkillDetails:
        tree = unpack_tree(pack)
        card = make_card(ReadSkill(row.name, tree, content), row.folder, row, None)
        paths = [f"{each.path}{' (can be run)' if each.executable else ''}" for each in tree.files]
        return extend(SkillDetails, row, card=card, paths=paths, text=show_hidden_in_lines(tree.main_text))

    return await asyncio.to_thread(make)


def make_card(
    skill: ReadSkill, folder: str, row: AgreedSkill | None, before: SkillTree | None, *, changes: bool = False
) -> SkillCard:
    content, facts = skill.content, skill.content.read_facts()
    return SkillCard(
        name=skill.name,
        folder=folder or "every agent",
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
        notes=[*facts.notes],
        known=row is not None,
        same=row is not None and row.digest == content.digest,
        changes=render_tree_changes(before, skill.tree) if changes else [],
    )


async def _keep_read(deps: OperationDeps, found: Sequence[ReadSkill], folder: str) -> list[SkillCard]:
    """Keep what was read, for whoever agrees to it. Return it as cards, compared with what the group has now."""
    cards = []
    for skill in found:
        pack = await asyncio.to_thread(pack_tree, skill.tree)
        await deps.store.write(skills.add_content, skill.content, pack)
        row = await deps.store.read(skills.get, folder, skill.name)
        old = await deps.store.read(skills.get_pack, row.digest) if row is not None else None

        def make(skill: ReadSkill = skill, row: AgreedSkill | None = row, old: bytes | None = old) -> SkillCard:
            before = unpack_tree(old) if old is not None else None
            return make_card(skill, folder, row, before, changes=True)

        cards.append(await asyncio.to_thread(make))
    await deps.write(lambda db: None, digests=[each.digest for each in cards])
    return cards


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
    if not NAME_OF_SKILL.match(args.name):
        raise Invalid("name", f"{args.name[:80]!r} is no name of a skill")
    place, now = f"{args.folder}/{SKILLS}/{args.name}", deps.clock.now()

    def read() -> ReadSkill:
        with open_untrusted(deps.home.groups) as root:
            tree = read_draft(root, place)
        return describe_skill(tree, args.name, SkillSource.DRAFT, now, origin=place, name=args.name)

    return await _keep_read(deps, [await asyncio.to_thread(read)], args.folder)


@operation
async def read_skill_update(deps: OperationDeps, args: ReadSkillUpdateArgs) -> list[SkillCard]:
    row = await deps.store.read(skills.get, args.folder, args.name)
    if row is None:
        raise NotFound("skill", args.name, "`gatepost skill list` shows them")
    if row.source not in REREAD:
        raise Invalid("name", f"{args.name} came from no place that can be read again; add it anew")
    found = await read_source(deps.home, row.origin, deps.clock.now(), name=row.name)
    return await _keep_read(deps, found, args.folder)


@operation
async def agree_skill(deps: OperationDeps, args: AgreeSkillArgs) -> AgreedSkill:
    now = deps.clock.now()
    if not NAME_OF_SKILL.match(args.name):
        raise Invalid("name", f"{args.name[:80]!r}: lower-case letters, digits and hyphens, at most 64")

    def add(db: Db) -> tuple[AgreedSkill, list[str]]:
        content = skills.get_content(db, args.digest)
        if content is None:
            raise NotFound("content", args.digest[:12], "it was read too long ago; read it again")
        before = skills.get(db, args.folder, args.name)
        row = agree(db, args.folder, args.name, content, deps.caller, now, below=args.below)
        return row, list_affected(db, args.folder) if before is None or before != row else []

    row, affected = await deps.write(add)
    for each in affected:
        deps.events.group(each)
    return row


@operation
async def remove_skill(deps: OperationDeps, args: RemoveSkillArgs) -> AgreedSkill:
    def remove(db: Db) -> tuple[AgreedSkill, list[str]]:
        row = skills.get(db, args.folder, args.name)
        if row is None:
            raise NotFound("skill", args.name, "`gatepost skill list` shows them, and for whom each holds")
        skills.remove(db, args.folder, args.name)
        return row, list_affected(db, args.folder)

    row, affected = await deps.write(remove)
    for each in affected:
        deps.events.group(each)
    return row

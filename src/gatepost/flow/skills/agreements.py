"""Agreements to skills: what a person has seen becomes what an agent has, in one transaction with its contents."""

from gatepost.core.errors import Invalid, NotFound
from gatepost.flow.skills.skill_card import ReadSkill, describe_skill
from gatepost.flow.skills.skill_files import SkillFile, SkillTree, check_inner_path, make_tree
from gatepost.store.port import Db
from gatepost.store.sessions import groups, skills
from gatepost.store.sessions.skills import AgreedSkill, SkillContent, SkillSource


def change_file(
    agreed: SkillTree | None, name: str, path: str, data: bytes, source: SkillSource, now: int, origin: str
) -> ReadSkill:
    """Return a skill with this one file changed; the others stay as they were agreed to, whatever a draft has."""
    check_inner_path(path)
    tree = agreed.put(path, data) if agreed is not None else make_tree([SkillFile(path, False, data)])
    return describe_skill(tree, name, source, now, origin=origin, name=name)


def agree(
    db: Db,
    folder: str,
    name: str,
    content: SkillContent,
    by: str,
    now: int,
    *,
    below: bool | None = None,
    session_id: str = "",
    base: str | None = None,
) -> AgreedSkill:
    """From now on a content, which is in the store, holds for a group, '' for every agent; with `session_id` for that
    replay alone. `below`: None keeps what held before. `base`: the digest that it was compared with for whoever
    agrees, '' for none; raises Invalid if another one holds by now."""
    if folder and groups.get(db, folder) is None:
        raise NotFound("group", folder, "`gatepost group list` shows them")
    before = skills.get(db, folder, name, session_id)
    if base is not None and base != (before.digest if before is not None else ""):
        raise Invalid("skill", f"{name} was changed meanwhile: look at it again")
    row = AgreedSkill(
        name=name,
        folder=folder,
        below=below if below is not None else before.below if before is not None else False,
        session_id=session_id,
        digest=content.digest,
        source=content.source,
        origin=content.origin,
        revision=content.revision,
        agreed_by=by,
        agreed_at=now,
    )
    skills.agree(db, row)
    return row


def agree_to_read(
    db: Db,
    folder: str,
    skill: ReadSkill,
    pack: bytes,
    by: str,
    now: int,
    *,
    below: bool | None = None,
    session_id: str = "",
    base: str | None = None,
) -> AgreedSkill:
    """The same for what is not in the store yet."""
    skills.add_content(db, skill.content, pack)
    return agree(db, folder, skill.name, skill.content, by, now, below=below, session_id=session_id, base=base)


def list_affected(db: Db, folder: str) -> list[str]:
    """Return the groups that begin anew after a change, each with those below it; '' is every agent."""
    return [folder] if folder else [each.folder for each in groups.list_all(db) if "/" not in each.folder]

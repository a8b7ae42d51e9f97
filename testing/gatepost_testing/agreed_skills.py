"""Skills that somebody has agreed to, for tests that are not about the agreement."""

from gatepost.flow.skills.agreements import agree
from gatepost.flow.skills.skill_card import describe_skill
from gatepost.flow.skills.skill_files import SkillFile, make_tree, pack_tree
from gatepost.store.port import Db, Store
from gatepost.store.sessions import skills
from gatepost.store.sessions.skills import AgreedSkill, SkillSource


async def agree_to_skill(
    store: Store, folder: str, name: str, text: str, *scripts: SkillFile, below: bool = False, now: int = 1
) -> AgreedSkill:
    """`folder`: '' for every agent. `text`: its SKILL.md."""
    tree = make_tree([SkillFile("SKILL.md", False, text.encode()), *scripts])
    skill = describe_skill(tree, name, SkillSource.PATH, now, origin=f"/skills/{name}", name=name)

    def add(db: Db) -> AgreedSkill:
        skills.add_content(db, skill.content, pack_tree(tree))
        return agree(db, folder, name, skill.content, "operator", now, below=below)

    return await store.write(add)

"""Rows of skills: the nearest row wins, and contents that nobody needs go."""

from tests.store.conftest import NOON

from gatepost.core.clock import DAY
from gatepost.flow.skills.agreements import agree
from gatepost.flow.skills.skill_card import describe_skill
from gatepost.flow.skills.skill_files import SkillFile, make_tree, pack_tree
from gatepost.store.port import Db
from gatepost.store.sessions import groups, skills
from gatepost.store.sessions.skills import SkillSource


def add(db: Db, folder: str, name: str, text: str, *, below: bool = False, session_id: str = "") -> str:
    tree = make_tree([SkillFile("SKILL.md", False, text.encode())])
    skill = describe_skill(tree, name, SkillSource.PATH, NOON, name=name)
    skills.add_content(db, skill.content, pack_tree(tree))
    return agree(db, folder, name, skill.content, "operator", NOON, below=below, session_id=session_id).digest


def has(db: Db, folder: str, session_id: str = "") -> dict[str, str]:
    return {each.name: each.digest for each in skills.list_effective(db, folder, session_id)}


def test_the_nearest_row_wins_and_a_group_keeps_to_itself_what_is_not_for_those_below(db: Db) -> None:
    for folder in ("acme", "acme/eng", "acmeeng"):
        groups.add(db, folder, folder, "", NOON)
    every = add(db, "", "bake", "for every agent")
    family = add(db, "acme", "bake", "for acme and those below", below=True)
    private = add(db, "acme", "cook", "for acme alone")
    assert has(db, "acmeeng") == {"bake": every}
    assert has(db, "acme") == {"bake": family, "cook": private}
    assert has(db, "acme/eng") == {"bake": family}
    own = add(db, "acme/eng", "bake", "its own")
    replay = add(db, "acme/eng", "bake", "of one replay", session_id="s-1")
    assert has(db, "acme/eng") == {"bake": own} and has(db, "acme/eng", "s-1") == {"bake": replay}


def test_a_group_that_is_removed_leaves_its_skills_to_nobody(db: Db) -> None:
    groups.add(db, "acme", "acme", "", NOON)
    add(db, "acme", "bake", "x")
    groups.remove(db, "acme")
    groups.add(db, "acme", "acme", "", NOON)
    assert has(db, "acme") == {} and not skills.is_unadopted(db, "acme")


def test_contents_that_no_row_names_are_swept_and_others_stay(db: Db) -> None:
    groups.add(db, "acme", "acme", "", NOON)
    one, other = add(db, "acme", "bake", "one"), add(db, "", "bake", "one")
    assert one == other
    skills.remove(db, "acme", "bake")
    assert skills.get_pack(db, one) is not None, "every agent has it"
    two = add(db, "", "bake", "two")
    assert skills.sweep_contents(db, NOON - DAY) == 0, "it may be agreed to yet"
    assert skills.sweep_contents(db, NOON + 1) == 1 and skills.list_digests(db) == [two]
    skills.remove(db, "", "bake")
    assert skills.list_digests(db) == []
    add(db, "acme", "bake", "of a replay that is gone", session_id="s-9")
    assert skills.sweep_contents(db, NOON + 1) == 1


def test_a_content_that_was_agreed_to_and_replaced_does_not_wait_for_a_yes(db: Db) -> None:
    first = add(db, "", "bake", "first")
    add(db, "", "bake", "second")
    assert skills.list_waiting(db) == []
    tree = make_tree([SkillFile("SKILL.md", False, b"first")])  # somebody reads it once more
    skills.add_content(db, describe_skill(tree, "bake", SkillSource.PATH, NOON, name="bake").content, pack_tree(tree))
    assert [each.digest for each in skills.list_waiting(db)] == [first]

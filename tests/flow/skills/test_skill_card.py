"""What a person sees of a skill before they agree: what it can do, and each line that changes."""

from gatepost.flow.skills.skill_card import describe_skill, render_tree_changes
from gatepost.flow.skills.skill_files import SkillFile, make_tree
from gatepost.store.sessions.skills import SkillSource

MAIN = SkillFile(
    "SKILL.md", False, b"---\ndescription: Use it for bread.\n---\nSee https://Bread.example/x?y and $BREAD_API_KEY."
)
SCRIPT = SkillFile("bake.py", False, b"import os\nos.environ['OVEN_TOKEN']\n")


def test_scripts_hosts_and_keys_are_named() -> None:
    tree = make_tree(
        [MAIN, SCRIPT, SkillFile("run", True, b"#!/bin/sh"), SkillFile("x.png", False, b"\0\1https://no.example")]
    )
    skill = describe_skill(tree, "bake", SkillSource.PATH, 1)
    facts = skill.content.read_facts()
    assert (skill.name, skill.content.description, skill.content.files) == ("bake", "Use it for bread.", 4)
    assert (facts.scripts, facts.hosts) == (("bake.py", "run"), ("bread.example",))
    assert facts.env == ("BREAD_API_KEY", "OVEN_TOKEN")


def test_what_hides_is_said_and_shown_by_its_number() -> None:
    text = "---\ndescription: Use it\u202e for bread.\n---\n"
    skill = describe_skill(make_tree([SkillFile("SKILL.md", False, text.encode())]), "x", SkillSource.PATH, 1)
    assert "⟨U+202E⟩" in skill.content.description and "cannot be seen" in skill.content.read_facts().notes[0]


def test_a_change_shows_each_file_that_is_another() -> None:
    before = make_tree([MAIN, SCRIPT, SkillFile("old", False, b"x")])
    after = make_tree(
        [SkillFile("SKILL.md", False, MAIN.data + b"\nRun bake.py."), SkillFile("bake.py", True, SCRIPT.data)]
    )
    lines = render_tree_changes(before, after).lines
    assert lines[0].startswith("· SKILL.md is changed") and "+ Run bake.py." in lines
    assert "· bake.py is changed, it can be run, 35 bytes" in lines and lines[-1] == "- old is removed"
    assert render_tree_changes(after, after).lines == []
    assert render_tree_changes(None, make_tree([MAIN])).lines[0].startswith("+ SKILL.md is added")

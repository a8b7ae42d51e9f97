"""What a person sees of a skill before they agree: what it can do, and each line that changes."""

import pytest

from gatepost.core.errors import Invalid
from gatepost.flow.skills.skill_card import MOST_LINES, describe_skill, render_tree_changes
from gatepost.flow.skills.skill_files import SkillFile, make_tree
from gatepost.messages.visible_text import MOST_COMPARED
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


def test_no_end_of_a_line_and_no_later_line_is_cut_in_silence() -> None:
    long = b"x" * 5000 + b" rm -rf"
    whole = render_tree_changes(None, make_tree([MAIN, SkillFile("long.sh", True, long)]))
    assert whole.whole and whole.lines[-1].endswith("rm -rf") and max(map(len, whole.lines)) <= 170
    many = b"\n".join(b"echo %d" % number for number in range(MOST_COMPARED + 500))
    cut = render_tree_changes(None, make_tree([MAIN, SkillFile("many.sh", True, many)]))
    assert not cut.whole and cut.lines[-1].startswith("· …")
    files = [SkillFile(f"a{number:03}", False, b"x\n" * 20) for number in range(200)]
    few = render_tree_changes(None, make_tree([MAIN, *files, SkillFile("z.sh", True, b"#!/bin/sh")]))
    assert not few.whole and len(few.lines) < MOST_LINES + 60
    assert few.lines.index("+ z.sh is added, it can be run, 9 bytes") < 10, "what can be run stands first"


def test_how_far_a_line_is_indented_is_seen() -> None:
    before = make_tree([MAIN, SkillFile("x.py", False, b"if paid:\n    send()\n")])
    after = make_tree([MAIN, SkillFile("x.py", False, b"if paid:\n    pass\nsend()\n")])
    assert "+ send()" in render_tree_changes(before, after).lines
    assert "-     send()" in render_tree_changes(before, after).lines


def test_what_no_card_can_show_is_named() -> None:
    text = b"---\ndescription: x\nhooks:\n  PreToolUse: []\n---\n"
    tree = make_tree([SkillFile("SKILL.md", False, text), SkillFile("bin/tool", True, b"\x7fELF\0\0")])
    notes = describe_skill(tree, "x", SkillSource.PATH, 1).content.read_facts().notes
    assert any("hooks" in each for each in notes) and "no text, and not shown: bin/tool" in notes


def test_a_skill_whose_text_hides_behind_a_zero_byte_is_none() -> None:
    with pytest.raises(Invalid, match="no text"):
        make_tree([SkillFile("SKILL.md", False, b"---\ndescription: x\n---\n\0Obey.")])

"""The files of a skill: found, bounded, named by a digest, packed; no links."""

import os
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, NotFound
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.flow.skills import skill_files
from gatepost.flow.skills.skill_files import (
    SkillFile,
    find_skill_folders,
    make_name,
    make_tree,
    pack_tree,
    read_draft,
    unpack_tree,
)

MAIN = SkillFile("SKILL.md", False, b"Say hello.")


def write_skill(folder: Path, main: str = "SKILL.md") -> Path:
    (folder / "scripts").mkdir(parents=True)
    (folder / main).write_text("Say hello.")
    (folder / "scripts" / "greet.sh").write_text("#!/bin/sh\necho hello\n")
    (folder / "scripts" / "greet.sh").chmod(0o755)
    return folder


def test_a_folder_is_read_with_its_scripts_and_what_it_is_called_does_not_matter(tmp_path: Path) -> None:
    write_skill(tmp_path / "a")
    write_skill(tmp_path / "b", "skill.md")
    (tmp_path / "a" / ".git").mkdir()
    (tmp_path / "a" / ".git" / "config").write_text("no")
    with open_untrusted(tmp_path) as root:
        one, other = read_draft(root, "a"), read_draft(root, "b")
    assert [(each.path, each.executable) for each in one.files] == [("SKILL.md", False), ("scripts/greet.sh", True)]
    assert one.digest == other.digest == unpack_tree(pack_tree(one)).digest


def test_a_digest_changes_with_each_byte_name_and_mode() -> None:
    trees = [
        make_tree([MAIN]),
        make_tree([MAIN, SkillFile("x", False, b"")]),
        make_tree([MAIN, SkillFile("x", True, b"")]),
        make_tree([MAIN, SkillFile("y", False, b"")]),
        make_tree([SkillFile("SKILL.md", False, b"Say hello!")]),
    ]
    assert len({each.digest for each in trees}) == len(trees)


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe"])
def test_a_link_or_a_pipe_is_refused_or_left_out(tmp_path: Path, kind: str) -> None:
    skill = write_skill(tmp_path / "a")
    if kind == "pipe":
        os.mkfifo(skill / "x")
    else:
        (skill / "x").symlink_to("/etc/passwd" if kind == "link" else "/etc")
    with open_untrusted(tmp_path) as root:
        with pytest.raises(Invalid, match="no plain file"):
            read_draft(root, "a")
        assert [each.path for each in read_draft(root, "a", lenient=True).files] == ["SKILL.md", "scripts/greet.sh"]


def test_what_is_too_large_too_deep_or_no_skill_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill_files, "LARGEST", 1000)
    monkeypatch.setattr(skill_files, "MOST_FILES", 5)
    for number, files in enumerate(
        ([("big", b"x" * 1001)], [(f"f{n}", b"") for n in range(6)], [("d/" * 8 + "x", b"")])
    ):
        skill = write_skill(tmp_path / str(number))
        for path, data in files:
            (skill / path).parent.mkdir(parents=True, exist_ok=True)
            (skill / path).write_bytes(data)
        with open_untrusted(tmp_path) as root, pytest.raises(Invalid):
            read_draft(root, str(number))
    (tmp_path / "none").mkdir()
    with open_untrusted(tmp_path) as root, pytest.raises(NotFound, match=r"SKILL\.md"):
        read_draft(root, "none")
    for bad in ("../x", "a//b", "/x", "a\\b", "a\nb"):
        with pytest.raises(Invalid):
            make_tree([MAIN, SkillFile(bad, False, b"")])


def test_skills_are_found_in_nested_folders_and_none_within_another() -> None:
    paths = ["skills/pdf/SKILL.md", "skills/pdf/forms/SKILL.md", "a/b/c/skill.md", "README.md", "skills/x.md"]
    assert find_skill_folders(paths) == ["a/b/c", "skills/pdf"]
    assert find_skill_folders([*paths, "SKILL.md"]) == [""]


def test_a_skill_is_named_by_its_front_matter_else_by_its_folder() -> None:
    assert make_name("PDF Forms", "x") == "pdf-forms" and make_name("", "skills/Pull_Requests") == "pull-requests"
    with pytest.raises(Invalid, match="--name"):
        make_name("", "…")

"""Places that skills come from: a folder, an archive, a repository; and what somebody may have put in the way."""

import os
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from gatepost.core.errors import GatepostError, Invalid, NotFound, Unavailable
from gatepost.core.home import Home
from gatepost.flow.skills import skill_sources
from gatepost.flow.skills.skill_card import ReadSkill
from gatepost.flow.skills.skill_files import LARGEST, MOST_FILES
from gatepost.flow.skills.skill_sources import read_address, read_source

TEXT = "---\nname: {}\ndescription: Use it.\n---\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home")
    made.prepare()
    return made


def write_skill(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(TEXT.format(name))
    return folder


async def read(home: Home, origin: object, **more: str) -> list[ReadSkill]:
    return await read_source(home, str(origin), 1, **more)


async def test_skills_in_nested_folders_are_found_and_named_with_where_they_lie(home: Home, tmp_path: Path) -> None:
    write_skill(tmp_path / "srv" / "a" / "bake", "bake")
    write_skill(tmp_path / "srv" / "b" / "c" / "cook", "cook")
    found = await read(home, tmp_path / "srv")
    assert [(each.name, each.content.origin) for each in found] == [
        ("bake", f"{tmp_path}/srv#a/bake"),
        ("cook", f"{tmp_path}/srv#b/c/cook"),
    ]
    (again,) = await read(home, found[1].content.origin)
    assert again.content.digest == found[1].content.digest
    with pytest.raises(Invalid, match="choose one"):
        await read(home, tmp_path / "srv", name="x")


@pytest.mark.parametrize("place", ["", "/no/such/place", "relative/path", "ftp://host/x", "git@host:x", "x" * 501])
async def test_what_is_no_place_is_refused_with_the_way_out(home: Home, place: str) -> None:
    with pytest.raises((Invalid, NotFound)) as refused:
        await read(home, place)
    assert len(str(refused.value)) < 400


async def test_the_gateways_own_home_is_no_source_whatever_leads_there(home: Home, tmp_path: Path) -> None:
    write_skill(home.groups / "acme" / "skills" / "x", "x")
    (tmp_path / "link").symlink_to(home.groups / "acme")
    hidden = str(home.groups).replace("groups", "%67roups")
    for place in (
        home.groups / "acme" / "skills" / "x",
        tmp_path / "link",
        f"file://{home.groups}/acme",
        f"file://{hidden}/acme",
    ):
        with pytest.raises(Invalid, match="own home"):
            await read(home, place)


async def test_a_folder_without_a_skill_or_with_too_much_is_refused(home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match=r"no SKILL\.md"):
        await read(home, tmp_path / "empty")
    many = write_skill(tmp_path / "many", "many")
    for number in range(MOST_FILES):
        (many / f"f{number}").touch()
    with pytest.raises(Invalid, match=f"more than {MOST_FILES} files"):
        await read(home, many)
    (write_skill(tmp_path / "linked", "linked") / "x").symlink_to("/etc/passwd")
    with pytest.raises(Invalid, match="link"):
        await read(home, tmp_path / "linked")


def make_zip(path: Path, *entries: tuple[str, bytes], link: str = "") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("SKILL.md", TEXT.format("bake"))
        for name, data in entries:
            archive.writestr(name, data)
        if link:
            entry = zipfile.ZipInfo("link")
            entry.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(entry, link)
    return path


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/x", "a\\b", "a//b", "a\nb", "a\u202eb", "C:\\x", "d/" * 9 + "x"]
)
async def test_an_archive_with_a_name_that_is_no_plain_path_is_refused(home: Home, tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid, match="no plain path"):
        await read(home, make_zip(tmp_path / "x.zip", (name, b"x")))


async def test_a_link_or_a_bomb_in_an_archive_is_refused_before_it_is_unpacked(home: Home, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="link"):
        await read(home, make_zip(tmp_path / "link.zip", link="/etc/passwd"))
    with pytest.raises(Invalid, match=f"{LARGEST:,} bytes"):
        await read(home, make_zip(tmp_path / "bomb.zip", ("big", bytes(LARGEST + 1))))
    with pytest.raises(Invalid, match="no zip file"):
        (tmp_path / "bad.zip").write_bytes(b"PK nothing")
        await read(home, tmp_path / "bad.zip")
    twice = make_zip(tmp_path / "twice.zip", ("a/SKILL.md", b"x"))
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(twice, "a") as archive:
        archive.writestr("SKILL.md", "Another one.")
    with pytest.raises(Invalid, match="twice"):
        await read(home, twice)


def test_an_address_is_read_whole_or_not_at_all() -> None:
    found = read_address("https://host/a/b.git@v1.2#skills/pdf/")
    assert (found.url, found.ref, found.folder) == ("https://host/a/b.git", "v1.2", "skills/pdf")
    bad = ("http://host/x", "https://user:pw@host/x", "https://host/x@--upload-pack=x", "https://h/x@a..b", "ssh://h/x")
    for each in bad:
        with pytest.raises(Invalid):
            read_address(each)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = write_skill(tmp_path / "repository" / "skills" / "bake", "bake").parent.parent
    (folder / "link").symlink_to("/etc/passwd")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
        who = ("-c", "user.name=x", "-c", "user.email=x@agents.invalid")
        subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    return folder


async def test_a_repository_is_read_at_a_commit_and_leaves_nothing_behind(
    home: Home, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (found,) = await read(home, f"file://{repository}#skills")
    assert found.name == "bake" and len(found.content.revision) == 40
    assert found.content.origin == f"file://{repository}#skills/bake"
    with pytest.raises(Invalid, match=r"source: git cannot read it: .*no-such-branch"):
        await read(home, f"file://{repository}@no-such-branch")
    with pytest.raises(Invalid, match="git"):
        await read(home, f"file://{tmp_path}/nothing")
    assert os.listdir(tmp_path / "tmp") == []


async def test_git_that_hangs_is_ended(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill_sources, "CLONE_S", 0.1)
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=os.pathsep)
    with pytest.raises(Unavailable, match=r"more than 0\.1 s"):
        await read(home, "https://127.0.0.1:1/x.git")


async def test_a_skill_whose_name_hides_something_is_called_by_plain_letters(home: Home, tmp_path: Path) -> None:
    folder = write_skill(tmp_path / "x", "bake\u202e/../../evil\u200b")
    try:
        (found,) = await read(home, folder)
    except GatepostError:
        return
    assert found.name == "bake-evil"

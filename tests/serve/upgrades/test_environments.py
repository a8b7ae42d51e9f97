"""Versions beside each other: the place of the program is one of them, whole, at every moment."""

import os
import sys
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, SetupError
from gatepost.core.process.container import ContainerEngine
from gatepost.serve.upgrades import environments
from gatepost.serve.upgrades.environments import (
    build,
    claim,
    find_environment,
    find_present,
    keep_present,
    list_changes,
    list_extras,
    read_changes,
    remove,
    remove_abandoned,
    switch,
)


def make_environment(path: Path, version: str) -> Path:
    (path / "bin").mkdir(parents=True)
    (path / "version").write_text(version)
    return path


def test_the_place_leads_to_the_new_version_and_back(tmp_path: Path) -> None:
    place = make_environment(tmp_path / "env", "old")
    new = make_environment(tmp_path / "env.versions" / "1", "new")
    old = keep_present(place)
    assert (place / "version").read_text() == "old" and place.is_symlink() and not old.is_symlink()
    assert keep_present(place) == old  # done again, it changes nothing
    switch(place, new)
    assert (place / "version").read_text() == "new" and find_present(place) == new
    switch(place, old)
    assert (place / "version").read_text() == "old"
    remove(old, place)
    assert (place / "version").read_text() == "old"  # nobody removes what is in use
    remove(new, place)
    assert not new.exists()


def test_what_a_killed_switch_left_is_in_nobodys_way(tmp_path: Path) -> None:
    place = make_environment(tmp_path / "env", "old")
    (tmp_path / "env.versions").mkdir()
    kept = tmp_path / "env.versions" / environments.FIRST
    kept.symlink_to(kept)
    (tmp_path / ".env.new").symlink_to("nowhere")
    switch(place, keep_present(place))
    assert (place / "version").read_text() == "old"


def test_what_a_killed_check_left_is_removed_by_the_next_one_and_nothing_else(tmp_path: Path) -> None:
    place, versions = make_environment(tmp_path / "env", "old"), tmp_path / "env.versions"
    for name in ("1", "2", "3"):
        make_environment(versions / name, name)
    for left in ("2", "3"):
        (versions / left / environments.CLAIM).touch()
    claim(versions / "4", tmp_path)  # by a process that lives
    with pytest.raises(Invalid, match="cannot be installed"):
        build(place, "no-such-commit", print)
    assert sorted(os.listdir(versions)) == ["1", "4"]


def test_users_of_sandboxes_may_pass_to_a_version_whatever_the_umask(tmp_path: Path) -> None:
    """Else its bubblewrap does not start, and sandboxes get other walls or none."""
    place = make_environment(tmp_path / "env", "1")
    before = os.umask(0o077)
    try:
        keep_present(place)
        claim(find_present(place).parent / "1", tmp_path)
        written = environments._run([sys.executable, "-c", "import os; print(oct(os.umask(0)))"], "no Python")
    finally:
        os.umask(before)
    versions = find_present(place).parent
    assert [each.stat().st_mode & 0o777 for each in (versions, versions / "1")] == [0o755, 0o755]
    assert written.strip() == "0o22"


def test_a_version_that_the_place_leads_to_is_nobodys_to_remove_any_more(tmp_path: Path) -> None:
    place = make_environment(tmp_path / "env", "old")
    old = keep_present(place)
    claim(new := tmp_path / "env.versions" / "1", tmp_path)
    switch(place, new)
    switch(place, old)
    remove_abandoned(place)
    assert new.is_dir()


def test_an_environment_is_known_by_the_place_that_leads_to_it(tmp_path: Path) -> None:
    assert find_environment(f"{tmp_path}/env", "/usr") == tmp_path / "env"
    assert find_environment(f"{tmp_path}/env.versions/3", "/usr") == tmp_path / "env"


def test_the_machines_own_python_and_an_image_have_nothing_to_switch(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="pipx"):
        find_environment("/usr", "/usr", ContainerEngine.NONE)
    (tmp_path / environments.IMAGE_MARK).touch()
    for prefix, engine in (("/usr", ContainerEngine.DOCKER), (str(tmp_path), ContainerEngine.NONE)):
        with pytest.raises(SetupError, match="new image on the same volume"):
            find_environment(prefix, "/usr", engine)


@pytest.mark.parametrize("source", ["0.3.0", "no-such-commit", "--upload-pack=x", "/etc/passwd", "x.whl", ""])
def test_what_is_no_version_is_said_and_leaves_nothing(tmp_path: Path, source: str) -> None:
    place = make_environment(tmp_path / "env", "old")
    said: list[str] = []
    with pytest.raises(Invalid, match="cannot be installed"):
        build(place, source, said.append)
    assert (os.listdir(tmp_path / "env.versions"), said) == ([], [])


def test_the_changes_are_the_lines_that_the_older_changelog_lacks() -> None:
    assert list_changes("# Log\n\n- New.\n- Old.\n", "# Log\n\n- Old.\n") == ["- New."]
    assert "## [Unreleased]" in read_changes()
    assert read_changes(Path(sys.prefix, "none")) == ""


def test_the_extras_are_those_whose_libraries_are_here() -> None:
    found = list_extras()
    assert "postgres" in found and "whatsapp-linked" not in found

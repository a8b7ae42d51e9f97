import tomllib
from pathlib import Path

import pytest

from gatepost.core.errors import SetupError
from gatepost.core.settings_file import FileValue, change_setting, set_setting

URL = "http://127.0.0.1:11434/v1"


def test_a_file_that_is_not_there_is_made_and_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "gatepost.toml"
    set_setting(path, "openai.base_url", URL)

    assert tomllib.loads(path.read_text()) == {"openai": {"base_url": URL}}
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# mine\nlisten = ':1' # port\n", "# mine\nlisten = ':1' # port\n\n[openai]\nbase_url = \"%s\"\n"),
        ("[openai]\n# here\nbase_url = 'x' # why\n", '[openai]\n# here\nbase_url = "%s" # why\n'),
        ("[openai] # o\n\n[log]\nlevel = 'info'", "[openai] # o\nbase_url = \"%s\"\n\n[log]\nlevel = 'info'\n"),
        ("openai.base_url = 'x'\n[log]\n", 'openai.base_url = "%s"\n[log]\n'),
    ],
)
def test_the_rest_of_a_file_stays_as_it_was(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "gatepost.toml"
    path.write_text(before)
    set_setting(path, "openai.base_url", URL)

    assert path.read_text() == after % URL


def test_a_file_that_is_kept_elsewhere_is_written_there_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    path, kept = tmp_path / "gatepost.toml", tmp_path / "kept/mine.toml"
    kept.write_text("# mine\n")
    path.symlink_to("kept/mine.toml")
    set_setting(path, "openai.base_url", URL)

    assert path.is_symlink() and tomllib.loads(kept.read_text()) == {"openai": {"base_url": URL}}


@pytest.mark.parametrize("odd", ["openai = { base_url = 'x' }\n", '[openai]\nbase_url = """x"""\n', "not toml"])
def test_what_cannot_be_edited_safely_is_left_alone_and_said(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "gatepost.toml"
    path.write_text(odd)

    with pytest.raises(SetupError, match=r"gatepost\.toml"):
        set_setting(path, "openai.base_url", URL)
    assert path.read_text() == odd


@pytest.mark.parametrize(
    ("value", "before", "after"),
    [
        (7, "[web]\nlogin_days = 30 # a month\n", "[web]\nlogin_days = 7 # a month\n"),
        (True, "[web]\n", "[web]\nlogin_days = true\n"),
        (("a", "b"), "[web]\nlogin_days = ['x', 'y']\n", '[web]\nlogin_days = ["a", "b"]\n'),
        (None, "[web]\n# days\nlogin_days = 30 # a month\nhosts = []\n", "[web]\n# days\nhosts = []\n"),
        (None, "[log]\nlevel = 'info'\n", "[log]\nlevel = 'info'\n"),
    ],
)
def test_values_of_every_type_are_set_and_removed(
    tmp_path: Path, value: FileValue | None, before: str, after: str
) -> None:
    path = tmp_path / "gatepost.toml"
    path.write_text(before)
    assert change_setting(path, "web.login_days", value, dry_run=True) == (before, after)
    assert path.read_text() == before
    change_setting(path, "web.login_days", value)
    assert path.read_text() == after


@pytest.mark.parametrize("odd", ["[web]\nhosts = [\n  'a',\n]\n", "[web]\nhosts = ['a]b']\n"])
def test_a_list_that_cannot_be_edited_safely_is_left_alone(tmp_path: Path, odd: str) -> None:
    path = tmp_path / "gatepost.toml"
    path.write_text(odd)
    for value in (("b",), None):
        with pytest.raises(SetupError, match=r"yourself: web\.hosts"):
            change_setting(path, "web.hosts", value)
    assert path.read_text() == odd

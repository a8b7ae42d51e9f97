"""`gatepost worktree`, and what `gatepost agent` has to do with worktrees, against a real daemon. The sandbox kind is
the one without walls; those are seen in tests/flows."""

import io
import json
import shlex
import stat
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gatepost.cli import output, program
from gatepost.core.home import Home
from gatepost_testing.daemon import DaemonProcess
from gatepost_testing.repositories import commit, git, repository

SCRIPT = {
    "turns": [
        {"when": "^write", "do": [{"write_file": {"path": "answer", "text": "42"}}, {"final": "written"}]},
        {"when": "^branch (.*)", "do": [{"call": "set_branch", "with": {"name": "{1}"}}, {"final": "{result}"}]},
    ]
}
RECIPE = """
[worktree]
setup = ["echo set up > made", "echo 'all \\u001b[2Jwell'"]
teardown = "echo going\\necho gone"
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worktree")


@pytest.fixture(scope="module")
def daemon(place: Path) -> Iterator[DaemonProcess]:
    folder = Home(place / "h").group("agents")
    folder.mkdir(parents=True)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    (place / "code" / "plain").mkdir(parents=True)
    (place / "code" / "link").symlink_to(place / "code" / "plain")
    settings = {"sessions_provider": "scripted", "sandbox_mounts_allowed": str(place / "code")}
    with DaemonProcess(place / "h", sandbox_kind="process", **settings) as made:
        yield made


@pytest.fixture
def shop(place: Path, request: pytest.FixtureRequest) -> Path:
    """A repository for each test, so that names mean one worktree."""
    return repository(place / "code" / f"shop-{abs(hash(request.node.name)):x}")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def ran(daemon: DaemonProcess, *words: str, given: str = "") -> Ran:
    """In this process, as the console script runs it, with a pipe as its stdin."""
    out, err, stdin, hook = io.StringIO(), io.StringIO(), sys.stdin, sys.excepthook
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = program.run(["--home", str(daemon.home), *words])
    finally:
        sys.stdin, sys.excepthook = stdin, hook
    return Ran(code, out.getvalue(), err.getvalue())


def worktree(daemon: DaemonProcess, *words: str, given: str = "") -> Ran:
    return ran(daemon, "worktree", *words, given=given)


def made(daemon: DaemonProcess, shop: Path, name: str = "fix", *words: str) -> dict[str, Any]:
    done = worktree(daemon, "create", name, "--from", str(shop), *words, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = done.json
    return found


@pytest.mark.slow
def test_one_is_made_listed_shown_and_put_away(daemon: DaemonProcess, shop: Path) -> None:
    done = worktree(daemon, "create", "plums", "--from", str(shop))
    name = done.out.split()[0]
    assert done.code == 0 and done.err == ""
    assert done.out == f"{name}  {daemon.home}/worktrees/{name}\nbranch plums, from main of {shop}\n"
    path = worktree(daemon, "path", "plums").out.removesuffix("\n")
    assert path == f"{daemon.home}/worktrees/{name}" and (Path(path) / "README").exists()
    for named in ("plums", name, path):
        assert worktree(daemon, "show", named).out == done.out
    (row,) = [line.split() for line in worktree(daemon, "ls").out.splitlines() if name in line]
    [listed] = [each for each in worktree(daemon, "ls", "--json").json if each["name"] == name]
    since = output.format_iso(listed["createdAt"]).split()
    assert row == [name, "plums", "ready", "none", str(shop), listed["folder"], *since]

    assert worktree(daemon, "save", "plums").out == f"nothing was done in {name} yet\n"
    assert worktree(daemon, "archive", "plums").out == f"{name} is put away; there was nothing to save\n"
    assert name not in worktree(daemon, "ls").out and not Path(path).exists()
    assert [each["state"] for each in worktree(daemon, "ls", "--all", "--json").json if each["name"] == name] == [
        "archived"
    ]


@pytest.mark.slow
def test_programs_are_told_the_same(daemon: DaemonProcess, shop: Path) -> None:
    found = made(daemon, shop, "pears", "--base", "main")
    assert found == worktree(daemon, "show", "pears", "--json").json
    wanted = {"branchName": "pears", "base": "main", "state": "ready", "setupState": "none", "folder": "agents"}
    assert wanted.items() <= found.items()
    assert found in worktree(daemon, "ls", "--json").json
    nothing = worktree(daemon, "save", "pears", "--json").json
    none = {"name": found["name"], "bundle": None, "contents": "", "fetch": "", "look": ""}
    assert nothing == {**none, "branch": "pears", "state": "ready", "left": ""}
    gone = worktree(daemon, "archive", "pears", "--discard", "--json").json
    assert gone == {**none, "trouble": ""}


@pytest.mark.slow
def test_what_was_done_is_fetched_with_the_command_that_is_told(daemon: DaemonProcess, shop: Path) -> None:
    """Of two worktrees, whose work was kept by the same names; the second time as the first."""
    for name in ("figs", "grapes"):
        (Path(made(daemon, shop, name)["worktreePath"]) / "answer").write_text(name)
    for command in ("save", "archive"):
        for name in ("figs", "grapes"):
            told = worktree(daemon, command, name)
            assert told.code == 0 and "saved: nothing committed, uncommitted changes\n" in told.out
            assert f"+{name}" in seen(shop, told.out)
    for name in ("figs", "grapes"):
        assert git(shop, "show", f"refs/agents/{name}/gatepost/uncommitted:answer") == name


def seen(shop: Path, told: str) -> str:
    """Return what the two commands at the end of it show in the repository."""
    fetch, look = (line.strip() for line in told.splitlines()[-2:])
    assert fetch.startswith("git fetch --no-tags ") and look.startswith("git log -p ")
    git(shop, *shlex.split(fetch)[1:])
    return git(shop, *shlex.split(look)[1:])


@pytest.mark.slow
def test_what_is_in_a_bundle_is_told(daemon: DaemonProcess, shop: Path) -> None:
    found = made(daemon, shop, "cherries")
    path = Path(found["worktreePath"])
    commit(path, "one", "1")
    assert "saved: 1 commit on cherries\n" in worktree(daemon, "save", "cherries").out
    commit(path, "two", "2")
    git(path, "tag", "-a", "-m", "words", "mark")
    (path / "README").write_text("put aside")
    git(path, "stash", "-q")
    (path / "three").write_text("3")
    saved = worktree(daemon, "save", "cherries")
    told = "saved: uncommitted changes, 2 commits on cherries, the tag mark, 1 stash\n"
    assert told in saved.out
    look = seen(shop, saved.out)
    assert all(each in look for each in ("+1", "+2", "+3", "put aside"))
    assert git(shop, "tag") == "", "it is not among the operator's own"
    assert git(shop, "cat-file", "-p", "refs/agents/cherries/tags/mark").endswith("words")

    git(path, "stash", "drop", "-q")
    look = seen(shop, worktree(daemon, "save", "cherries").out)
    assert "put aside" not in look, "what is no longer there is not shown as if it were"


@pytest.mark.slow
def test_what_was_put_away_is_found_with_its_bundle(daemon: DaemonProcess, shop: Path) -> None:
    path = Path(made(daemon, shop, "quinces")["worktreePath"])
    commit(path, "answer", "42")
    gone = worktree(daemon, "archive", "quinces")
    assert "is put away; saved: 1 commit on quinces\n" in gone.out
    for words in (("show",), ("save",)):
        told = worktree(daemon, *words, "quinces")
        assert told.code == 0 and "put away" in told.out and f"{path}.bundle" in told.out
        assert "+42" in seen(shop, told.out)
    assert worktree(daemon, "show", "quinces", "--json").json["bundle"] == f"{path}.bundle"
    for words in (("path",), ("archive",), ("setup",)):
        refused = worktree(daemon, *words, "quinces")
        assert refused.code == 1 and "it was put away: `gatepost worktree show " in refused.err

    path = Path(made(daemon, shop, "sloes")["worktreePath"])
    commit(path, "answer", "42")
    assert "thrown away\n" in worktree(daemon, "archive", "sloes", "--discard").out
    assert worktree(daemon, "show", "sloes").out.endswith("nothing of it was saved\n")
    assert worktree(daemon, "save", "sloes").out.endswith("was put away, and nothing of it saved\n")


@pytest.mark.slow
def test_where_it_came_from_is_told(daemon: DaemonProcess, shop: Path) -> None:
    git(shop, "branch", "feature")
    git(shop, "update-ref", "refs/pull/42/head", "HEAD")
    told = worktree(daemon, "create", "--branch", "feature", "--from", str(shop)).out
    assert told.endswith(f"\nbranch feature of {shop}\n")
    told = worktree(daemon, "create", "--pr", "42", "--from", str(shop)).out
    assert told.endswith(f"\nbranch pr-42, from pull request 42 of {shop}\n")
    assert {each["base"] for each in worktree(daemon, "ls", "--json").json if each["source"] == str(shop)} == {
        "feature",
        "pull request 42",
    }


@pytest.mark.slow
@pytest.mark.parametrize("origin", ["git@example.com:ann/shop.git", "ssh://git@example.com/shop.git", "/srv/shop.git"])
def test_an_origin_that_cannot_be_asked_is_not_said_to_lack_it(daemon: DaemonProcess, shop: Path, origin: str) -> None:
    git(shop, "remote", "add", "origin", origin)
    for words, fetch in (
        (("--pr", "9"), "pull/9/head:refs/pull/9/head"),
        (("--branch", "feature"), "feature:refs/remotes/origin/feature"),
    ):
        refused = worktree(daemon, "create", *words, "--from", str(shop))
        assert refused.code == 1 and "is no http(s) address, so it was not asked" in refused.err
        assert refused.err.endswith(f"git fetch origin {fetch}\n")


@pytest.mark.slow
def test_what_was_fetched_as_told_is_found(daemon: DaemonProcess, shop: Path, place: Path) -> None:
    origin = repository(place / "origin")
    git(origin, "branch", "feature")
    git(origin, "update-ref", "refs/pull/9/head", commit(origin, "proposed", "please"))
    git(shop, "remote", "add", "origin", str(origin))
    for words in (("--pr", "9"), ("--branch", "feature")):
        refused = worktree(daemon, "create", *words, "--from", str(shop)).err
        git(shop, *shlex.split(refused.rpartition(": git ")[2]))
        assert worktree(daemon, "create", *words, "--from", str(shop)).code == 0


@pytest.mark.slow
def test_a_recipe_that_cannot_be_read_is_told_wherever_it_matters(daemon: DaemonProcess, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = 'npm ci\n")
    done = worktree(daemon, "create", "leeks", "--from", str(shop))
    assert done.code == 0 and "\nsetup: cannot be read: .gatepost.toml: " in done.out
    assert worktree(daemon, "show", "leeks").out == done.out
    assert [line.split()[3] for line in worktree(daemon, "ls").out.splitlines() if "/leeks " in line] == ["unreadable"]
    for words in ((), ("--yes",)):
        refused = worktree(daemon, "trust", "leeks", *words)
        assert (refused.code, refused.out) == (1, "") and "cannot be read: .gatepost.toml: " in refused.err
    made_one = ran(daemon, "agent", "run", "--cwd", str(shop), "--worktree", "chard", "--base", "main")
    assert "setup cannot be read: .gatepost.toml" in made_one.out + made_one.err


@pytest.mark.slow
def test_what_a_recipe_says_that_means_nothing_is_told(daemon: DaemonProcess, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetpu = 'npm ci'\nteardown = 'true'\n")
    told = "setup: .gatepost.toml: [worktree] has nothing called setpu; there are: setup, teardown\n"
    assert told in worktree(daemon, "create", "kale", "--from", str(shop)).out
    assert told in worktree(daemon, "show", "kale").out

    commit(shop, ".gatepost.toml", "[worktree]\nsetpu = 'npm ci'\nsetup = 'echo well'\n")
    made(daemon, shop, "cress")
    assert "has nothing called setpu" in worktree(daemon, "trust", "cress", "--yes").out
    assert "has nothing called setpu" in worktree(daemon, "create", "rocket", "--from", str(shop)).out


@pytest.mark.slow
def test_what_cannot_be_saved_is_told_with_the_way_out(daemon: DaemonProcess, shop: Path) -> None:
    path = Path(made(daemon, shop, "dates")["worktreePath"])
    repository(path / "vendored")
    saved = worktree(daemon, "save", "dates")
    assert saved.code == 0 and saved.err == "not saved: repositories of their own: vendored\n"
    (path / ".git" / "HEAD").write_text("garbage")
    for command in ("save", "archive"):
        refused = worktree(daemon, command, "dates")
        assert (refused.code, refused.out) == (1, "") and refused.err.count("\n") == 1
        assert "could not be saved (git finds no repository in it any more)" in refused.err
        assert "`gatepost worktree archive --discard " in refused.err
    assert worktree(daemon, "archive", "dates", "--discard").code == 0


@pytest.mark.slow
def test_a_setup_is_shown_whole_before_anybody_trusts_it(daemon: DaemonProcess, shop: Path) -> None:
    commit(shop, ".gatepost.toml", RECIPE)
    found = made(daemon, shop, "limes")
    assert f"gatepost worktree trust {found['name']}" in worktree(daemon, "show", "limes").out
    refused = worktree(daemon, "setup", "limes")
    assert refused.code == 1 and f"gatepost worktree trust {found['name']}" in refused.err

    declined = worktree(daemon, "trust", "limes", given="n\n")
    asked = ("$ echo set up > made", "$ echo 'all ␛[2Jwell'", "When it is archived:", "$ echo going\n    echo gone")
    assert (declined.code, declined.out) == (1, "")
    assert all(each in declined.err for each in asked) and declined.err.endswith("not trusted; nothing was run\n")
    alone = worktree(daemon, "trust", "limes")
    assert alone.code == 1 and "--yes" in alone.err
    assert worktree(daemon, "show", "limes", "--json").json["setupState"] == "untrusted"

    agreed = worktree(daemon, "trust", "limes", "--json", given="y\n")
    assert (agreed.code, agreed.json["setupState"]) == (0, "done"), "and what was asked is not in the way"
    assert (Path(found["worktreePath"]) / "made").read_text() == "set up\n"
    shown = worktree(daemon, "setup", "limes")
    assert shown.code == 0 and "setup: done\n" in shown.out and "all ␛[2Jwell" in shown.out


@pytest.mark.slow
def test_a_trusted_setup_runs_in_the_next_and_can_be_run_in_the_one_before(daemon: DaemonProcess, shop: Path) -> None:
    commit(shop, ".gatepost.toml", RECIPE)
    first, second = made(daemon, shop, "kiwis"), made(daemon, shop, "melons")
    assert worktree(daemon, "trust", "melons", "--yes").code == 0
    assert made(daemon, shop, "nuts")["setupState"] == "done"
    told = worktree(daemon, "show", "kiwis").out
    assert f"gatepost worktree setup {first['name']}" in told and "nobody has trusted" not in told
    assert worktree(daemon, "setup", "kiwis").code == 0
    assert worktree(daemon, "archive", second["name"]).err == ""


@pytest.mark.slow
def test_a_setup_that_fails_is_an_exit_code(daemon: DaemonProcess, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = 'echo trying; false'\nteardown = 'exit 3'\n")
    made(daemon, shop, "olives")
    failed = worktree(daemon, "trust", "olives", "--yes")
    assert failed.code == 1 and "setup: failed\n" in failed.out and "trying\n(it failed: 1)" in failed.out
    assert worktree(daemon, "setup", "olives").code == 1
    for words in ((), ("--json",)):
        assert worktree(daemon, "show", "olives", *words).code == 0, "it was shown"
    gone = worktree(daemon, "archive", "olives")
    assert gone.code == 0 and "is put away" in gone.out and "the teardown failed" in gone.err


@pytest.mark.slow
def test_a_worktree_without_a_setup_has_nothing_to_trust(daemon: DaemonProcess, shop: Path) -> None:
    made(daemon, shop, "beans")
    for words in ((), ("--yes",), ("--json",)):
        refused = worktree(daemon, "trust", "beans", *words)
        assert (refused.code, refused.out) == (1, "") and "has no setup" in refused.err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "Missing option '--from'"),
        (("--from", "SHOP"), 1, "NAME: say the name"),
        (("x", "--from", "SHOP", "--pr", "3"), 1, "NAME: is for a new branch"),
        (("x", "--from", "SHOP", "--branch", "main"), 1, "NAME: is for a new branch"),
        (("--from", "SHOP", "--branch", "main", "--pr", "3"), 1, "say one of them"),
        (("--from", "SHOP", "--pr", "0"), 2, "--pr"),
        (("--from", "SHOP", "--pr", "x"), 2, "--pr"),
        (("--from", "SHOP", "--pr", "7"), 1, "has the pull request 7"),
        (("--from", "SHOP", "--branch", "nowhere"), 1, "has a branch 'nowhere'"),
        (("Bad_Name", "--from", "SHOP"), 1, "a-z, 0-9, - and /"),
        (("\x1b[2J", "--from", "SHOP"), 1, "is no name for a branch"),
        (("x", "--from", "SHOP", "--base", "nowhere"), 1, "no branch 'nowhere'"),
        (("x", "--from", "SHOP", "--base", "--upload-pack=x"), 1, "is no name of a branch"),
        (("x", "--from", "SHOP", "--folder", "ghosts"), 1, "no group named 'ghosts'"),
        (("x", "--from", "SHOP", "--folder", "../x"), 1, "../x"),
        (("x", "--from", "SHOP/README"), 2, "is a file"),
        (("x", "--from", "SHOP/missing"), 2, "does not exist"),
        (("x", "--from", "SHOP/../plain"), 1, "no git repository"),
        (("x", "--from", "CODE/link"), 1, "a link is not followed"),
        (("x", "--from", "CODE/plain"), 1, "no git repository"),
        (("x", "--from", "/etc"), 1, "sandbox.mounts_allowed"),
        (("x", "--from", "HOME"), 1, "sandbox.mounts_allowed"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_said_and_nothing_is_left(
    daemon: DaemonProcess, shop: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    names = {"SHOP": str(shop), "CODE": str(shop.parent), "HOME": str(daemon.home)}
    given = [next((word.replace(key, value) for key, value in names.items() if key in word), word) for word in words]
    before = worktree(daemon, "ls", "--all", "--json").json
    refused = worktree(daemon, "create", *given)
    assert (refused.code, refused.out) == (code, ""), refused
    assert said in refused.err and "\x1b" not in refused.err
    assert worktree(daemon, "ls", "--all", "--json").json == before


@pytest.mark.slow
def test_a_relative_path_is_one_from_here(daemon: DaemonProcess, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shop)
    assert worktree(daemon, "create", "here", "--from", ".", "--json").json["source"] == str(shop)
    (shop / "below").mkdir()
    monkeypatch.chdir(shop / "below")
    assert worktree(daemon, "create", "above", "--from", f"../../{shop.name}", "--json").json["source"] == str(shop)
    assert ran(daemon, "agent", "run", "--cwd", "..", "--worktree", "up", "--base", "main", "--json").code == 0
    monkeypatch.chdir(daemon.home / "worktrees")
    refused = worktree(daemon, "create", "there", "--from", ".")
    assert refused.code == 1 and "not allowed" in refused.err


@pytest.mark.parametrize("named", ["nobody", "", "../x", "/etc", "\x1b[2J", "'; drop table worktrees"])
def test_a_worktree_that_is_not_there_is_said_in_a_line(daemon: DaemonProcess, named: str) -> None:
    for words in (
        ("show",),
        ("path",),
        ("trust", "--yes"),
        ("setup",),
        ("save",),
        ("archive",),
        ("archive", "--discard"),
    ):
        refused = worktree(daemon, words[0], named, *words[1:])
        assert (refused.code, refused.out) == (1, "")
        assert "no worktree named" in refused.err and "gatepost worktree ls" in refused.err
        assert refused.err.count("\n") == 1 and "\x1b" not in refused.err


@pytest.mark.slow
def test_a_name_that_means_several_is_asked_back(daemon: DaemonProcess, shop: Path, place: Path) -> None:
    other = repository(place / "code" / "other")
    names = {made(daemon, each, "twins")["name"] for each in (shop, other)}
    refused = worktree(daemon, "archive", "twins")
    assert refused.code == 1 and all(each in refused.err for each in names)


# Agents.


@pytest.mark.slow
def test_an_agent_starts_in_a_worktree_or_in_one_of_its_own(daemon: DaemonProcess, shop: Path) -> None:
    path = Path(made(daemon, shop, "peas")["worktreePath"])
    assert ran(daemon, "agent", "run", "write", "--cwd", str(path)).out == "written\n"
    assert (path / "answer").read_text() == "42"

    words = ("--cwd", str(shop), "--worktree", "corn", "--base", "main", "--title", f"Corn {shop.name}")
    done = ran(daemon, "agent", "run", "write", *words)
    own = worktree(daemon, "path", "corn").out.strip()
    assert (done.code, done.out, done.err) == (0, "written\n", f"it works in {own}\n")
    assert (Path(own) / "answer").read_text() == "42"
    assert ran(daemon, "agent", "inspect", f"Corn {shop.name}", "--json").json["cwd"] == own
    assert '"maize"' in ran(daemon, "agent", "send", f"Corn {shop.name}", "branch maize").out
    assert worktree(daemon, "show", "corn", "--json").json["branchName"] == "maize"
    quiet = ran(daemon, "agent", "run", "--cwd", str(shop), "--worktree", "rye", "--base", "main", "--json")
    assert (quiet.code, quiet.err) == (0, "") and quiet.json["cwd"].endswith("/rye")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--worktree", "x"), "--cwd: is missing"),
        (("--cwd", "SHOP", "--worktree", "x"), "--base: is missing"),
        (("--cwd", "SHOP", "--base", "main"), "--worktree"),
        (("--cwd", "SHOP"), ":rw"),
        (("--cwd", "/etc"), "sandbox.mounts_allowed"),
        (("--cwd", "SHOP/missing"), "missing"),
        (("--cwd", "HOME/worktrees/no/such"), "was its worktree archived?"),
        (("--cwd", "HOME/worktrees"), "not allowed"),
        (("--cwd", "SHOP", "--worktree", "X!", "--base", "main"), "a-z, 0-9, - and /"),
        (("--cwd", "SHOP", "--worktree", "x", "--base", "nowhere"), "no branch 'nowhere'"),
    ],
)
def test_a_start_that_cannot_be_is_said_and_no_agent_is_made(
    daemon: DaemonProcess, shop: Path, words: tuple[str, ...], said: str
) -> None:
    before = ran(daemon, "agent", "ls", "--all", "--json").json
    given = [word.replace("SHOP", str(shop)).replace("HOME", str(daemon.home)) for word in words]
    refused = ran(daemon, "agent", "run", "write", *given)
    assert (refused.code, refused.out) == (1, "") and said in refused.err and refused.err.count("\n") == 1
    assert ran(daemon, "agent", "ls", "--all", "--json").json == before


def test_a_token_is_for_its_file_alone(daemon: DaemonProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = ran(daemon, "agent", "run", "--title", "Outside", "--json").json["agentId"]
    printed = ran(daemon, "agent", "token", "Outside")
    assert printed.code == 0 and printed.out.startswith("gps-") and printed.out.count("\n") == 1
    assert ran(daemon, "agent", "token", "Outside", "--json").json["agentId"] == agent

    file = tmp_path / "to ken"
    written = ran(daemon, "agent", "token", "Outside", "--file", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text()
    assert token.startswith("gps-") and token.strip() not in written.out
    assert f"gatepost bridge --url unix:{daemon.home}" in written.out and f"--token-file '{file}'" in written.out
    monkeypatch.chdir(tmp_path)
    shown = ran(daemon, "agent", "token", "Outside", "--file", "second", "--json").json
    assert shown["file"] == str(tmp_path / "second") and shown["url"].endswith(":/mcp/self")

    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for bad, said in (
        (file, "is there already"),
        (tmp_path / "link", "is there already"),
        (tmp_path / "no" / "x", "there is no folder"),
    ):
        refused = ran(daemon, "agent", "token", "Outside", "--file", str(bad))
        assert refused.code == 1 and said in refused.err and "should not happen" not in refused.err
    assert file.read_text() == token and not (tmp_path / "elsewhere").exists()
    assert "no agent named" in ran(daemon, "agent", "token", "nobody", "--file", str(tmp_path / "third")).err
    assert not (tmp_path / "third").exists()


def test_without_a_gateway_everything_says_how_to_start_it(tmp_path: Path) -> None:
    down, shop = DaemonProcess(tmp_path / "h"), repository(tmp_path / "shop")
    every = [("create", "x", "--from", str(shop)), ("ls",), ("trust", "x", "--yes")]
    every += [(each, "x") for each in ("show", "path", "trust", "setup", "save", "archive")]
    for words in every:
        done = worktree(down, *words)
        assert (done.code, done.out) == (1, "") and "`gatepost up` starts it" in done.err, words

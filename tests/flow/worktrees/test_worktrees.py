"""Managed worktrees: real git, in the sandbox kind that has no walls (the walls are seen in tests/flows)."""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gatepost.app import Gateway
from gatepost.core.errors import GatepostError, Invalid, NotFound
from gatepost.core.files import untrusted_files
from gatepost.core.home import Home
from gatepost.flow.worktrees import sandbox_jobs
from gatepost.flow.worktrees.new_worktree import NewWorktree
from gatepost.flow.worktrees.worktrees import SavedBundle
from gatepost.inside.worktree import without_credentials
from gatepost.serve.control.arguments.agents import AgentSpec as NewAgent
from gatepost.store.rights import audit, switches
from gatepost.store.sessions import groups, worktrees
from gatepost.store.sessions.worktrees import Worktree
from gatepost_testing.gateway import running_gateway
from gatepost_testing.repositories import commit, git, repository
from gatepost_testing.waiting import PATIENCE_S

pytestmark = pytest.mark.on_disk

BY = "operator"


async def make(gateway: Gateway, source: Path, name: str = "fix", **more: Any) -> Worktree:
    wanted = {"source": str(source), "folder": "agents", "name": name, **more}
    return await gateway.worktrees.create(NewWorktree(**wanted), BY)


async def until_under_way(gateway: Gateway) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not gateway.worktrees.jobs.running:  # noqa: ASYNC110  it is a set of the product's own
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_new_branch_begins_at_the_base_that_was_named(gateway: Gateway, shop: Path) -> None:
    base = git(shop, "rev-parse", "HEAD")
    git(shop, "checkout", "-q", "-b", "next")
    commit(shop, "later", "not yet")
    made = await make(gateway, shop, base="main")
    place = gateway.worktrees.path(made)

    assert (made.branch, made.base_commit, made.state) == ("fix", base, "ready")
    assert git(place, "rev-parse", "--abbrev-ref", "HEAD") == "fix"
    assert not (place / "later").exists()
    assert place == gateway.home.worktrees / made.project / "fix"


@pytest.mark.slow
async def test_without_a_base_it_begins_where_the_repository_is(gateway: Gateway, shop: Path) -> None:
    git(shop, "checkout", "-q", "-b", "next")
    head = commit(shop, "later", "now")
    assert (await make(gateway, shop)).base_commit == head


@pytest.mark.slow
async def test_what_origin_has_counts_before_what_is_local(gateway: Gateway, shop: Path, tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin")
    head = commit(origin, "published", "yes")
    git(shop, "remote", "add", "origin", f"file://{origin}")
    git(shop, "fetch", "-q", "origin")
    assert (await make(gateway, shop, base="main")).base_commit == head


@pytest.mark.slow
async def test_a_name_that_is_taken_gets_a_number(gateway: Gateway, shop: Path) -> None:
    git(shop, "branch", "fix-1")
    names = [(await make(gateway, shop)).slug for _ in range(3)]
    assert names == ["fix", "fix-2", "fix-3"], "one by the first worktree, one by a branch of the repository"
    branches = [each.branch for each in await gateway.worktrees.every()]
    assert sorted(branches) == sorted(names)


@pytest.mark.slow
async def test_a_branch_that_there_is_can_be_worked_on_once_at_a_time(gateway: Gateway, shop: Path) -> None:
    git(shop, "checkout", "-q", "-b", "Feature_X/2")
    head = commit(shop, "half", "done")
    git(shop, "checkout", "-q", "main")
    made = await make(gateway, shop, name="", branch="Feature_X/2")
    assert (made.slug, made.branch, made.base_commit) == ("feature-x-2", "Feature_X/2", head)
    with pytest.raises(Invalid, match="is on Feature_X/2 already"):
        await make(gateway, shop, name="", branch="Feature_X/2")


@pytest.mark.slow
async def test_a_pull_request_that_the_repository_knows_is_checked_out(gateway: Gateway, shop: Path) -> None:
    git(shop, "checkout", "-q", "--detach")
    head = commit(shop, "proposed", "please")
    git(shop, "update-ref", "refs/pull/7/head", head)
    git(shop, "checkout", "-q", "main")
    made = await make(gateway, shop, name="", pr=7)
    assert (made.slug, made.branch, made.base_commit) == ("pr-7", "pr-7", head)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"name": "Bad_Name"}, "INVALID_BRANCH"),
        ({"base": "nowhere"}, "no branch 'nowhere'"),
        ({"base": "HEAD"}, "not HEAD"),
        ({"base": "--upload-pack=x"}, "baseBranch"),
        ({"name": "", "branch": "nowhere"}, "has a branch 'nowhere'"),
        ({"name": "", "branch": "../../x"}, "branch"),
        ({"name": "", "pr": 9}, "pull request 9"),
        ({"branch": "main", "base": "main"}, "one of them"),
        ({"folder": "ghosts"}, "ghosts"),
    ],
)
async def test_what_cannot_be_made_is_told_and_leaves_nothing(
    gateway: Gateway, shop: Path, wish: dict[str, Any], said: str
) -> None:
    with pytest.raises(GatepostError, match=said):
        await make(gateway, shop, **wish)
    assert await gateway.worktrees.every(archived=True) == []
    assert [path for path in gateway.home.worktrees.rglob("*") if path.name != path.parent.name][1:] == []
    assert not [path for path in gateway.home.sessions.iterdir() if path.name.startswith("job-")]


async def test_only_a_repository_in_an_allowed_folder_is_taken(gateway: Gateway, code: Path, tmp_path: Path) -> None:
    (code / "plain").mkdir()
    with pytest.raises(Invalid, match="no git repository"):
        await make(gateway, code / "plain")
    with pytest.raises(Invalid, match="is not allowed"):
        await make(gateway, repository(tmp_path / "elsewhere"))
    with pytest.raises(Invalid):
        await make(gateway, code / "missing")


@pytest.mark.slow
async def test_nothing_of_the_repository_but_its_history_comes_along(gateway: Gateway, shop: Path) -> None:
    """No hook, no setting, no password of a remote, nothing that was thrown away."""
    git(shop, "remote", "add", "origin", "https://ann:hunter2@example.com/shop.git")
    git(shop, "config", "core.sshCommand", "echo gotcha")
    hook = shop / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch hooked\n")
    hook.chmod(0o755)
    dropped = commit(shop, "secret", "hunter3")
    git(shop, "reset", "-q", "--hard", "HEAD~1")
    made = await make(gateway, shop)
    place = gateway.worktrees.path(made)
    kept = (place / ".git" / "config").read_text()

    assert "https://example.com/shop.git" in kept
    assert "hunter2" not in kept and "gotcha" not in kept
    assert not (place / "hooked").exists() and not (place / ".git" / "hooks" / "post-checkout").exists()
    with pytest.raises(AssertionError):
        git(place, "cat-file", "-e", dropped)
    assert not (place / ".git" / "objects" / "info" / "alternates").exists(), "it shares nothing"


RECIPE = """
[worktree]
setup = ["printf one > made", "test -f made && printf two >> made"]
teardown = "exit 3"
"""


@pytest.mark.slow
async def test_a_setup_runs_only_once_a_person_has_trusted_it(gateway: Gateway, shop: Path) -> None:
    commit(shop, ".gatepost.toml", RECIPE)
    first = await make(gateway, shop)
    place = gateway.worktrees.path(first)
    assert (first.setup_state, (place / "made").exists()) == ("untrusted", False)
    with pytest.raises(Invalid, match="trust"):
        await gateway.worktrees.set_up(first, BY)

    trusted = await gateway.worktrees.trust("fix", BY)
    assert (trusted.setup_state, (place / "made").read_text()) == ("done", "onetwo")
    second = await make(gateway, shop)
    assert second.setup_state == "done", "the same commands of the same project need no second word"
    commit(shop, ".gatepost.toml", RECIPE.replace("one", "other"))
    assert (await make(gateway, shop)).setup_state == "untrusted", "others do"
    record = await gateway.store.read(audit.list_latest, 50)
    assert any("worktree.trust" in row for row in record)


@pytest.mark.slow
async def test_what_is_trusted_is_what_was_read_not_what_an_agent_wrote_since(gateway: Gateway, shop: Path) -> None:
    commit(shop, ".gatepost.toml", RECIPE)
    place = gateway.worktrees.path(await make(gateway, shop))
    (place / ".gatepost.toml").write_text("[worktree]\nsetup = 'touch evil'")
    await gateway.worktrees.trust("fix", BY)
    assert not (place / "evil").exists()


@pytest.mark.slow
async def test_a_setup_that_fails_is_told_and_the_worktree_stays(gateway: Gateway, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = ['echo trying', 'false', 'touch never']")
    await make(gateway, shop)
    failed = await gateway.worktrees.trust("fix", BY)
    assert failed.setup_state == "failed"
    assert "trying" in failed.setup_output and "(it failed: 1)" in failed.setup_output
    assert not (gateway.worktrees.path(failed) / "never").exists()


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["not toml [", "[worktree]\nsetup = 3", "x = 1\nworktree = 'no'", "[" * 30_000])
async def test_a_recipe_that_makes_no_sense_is_told(gateway: Gateway, shop: Path, recipe: str) -> None:
    commit(shop, ".gatepost.toml", recipe)
    made = await make(gateway, shop)
    assert (made.setup, made.setup_state) == ((), "unreadable")
    assert made.setup_output.startswith(".gatepost.toml: ") and len(made.setup_output) < 600
    with pytest.raises(Invalid, match=r"the setup of \S+/fix cannot be read: \.gatepost\.toml"):
        await gateway.worktrees.trust("fix", BY)


@pytest.mark.slow
async def test_what_was_done_is_saved_as_a_bundle_that_git_takes(gateway: Gateway, shop: Path) -> None:
    made = await make(gateway, shop)
    place = gateway.worktrees.path(made)
    assert await gateway.worktrees.save("fix", BY) == (made, SavedBundle()), "nothing was done"
    done = commit(place, "answer", "42")
    (place / "draft").write_text("not yet committed")
    _, saved = await gateway.worktrees.save("fix", BY)
    bundle = saved.bundle
    assert bundle is not None and bundle.stat().st_mode & 0o777 == 0o600
    git(shop, "fetch", "-q", str(bundle), "+refs/*:refs/agents/*")
    assert git(shop, "rev-parse", "refs/agents/heads/fix") == done
    assert git(shop, "show", "refs/agents/gatepost/uncommitted:draft") == "not yet committed"
    assert git(place, "status", "--porcelain") == "?? draft", "and nothing of it is changed"


@pytest.mark.slow
async def test_what_is_on_no_branch_is_saved_too(gateway: Gateway, shop: Path) -> None:
    place = gateway.worktrees.path(await make(gateway, shop))
    (place / "README").write_text("put aside")
    git(place, "stash", "-q")
    (place / "README").write_text("put aside later")
    git(place, "stash", "-q")
    git(place, "checkout", "-q", "--detach")
    detached = commit(place, "answer", "42")
    done = await gateway.worktrees.archive("fix", BY)
    git(shop, "fetch", "-q", "--no-tags", str(done.saved), "+refs/*:refs/agents/*")
    assert git(shop, "rev-parse", "refs/agents/gatepost/head") == detached
    texts = [git(shop, "show", f"refs/agents/gatepost/stash/{number}:README") for number in (0, 1)]
    assert texts == ["put aside later", "put aside"]


@pytest.mark.slow
async def test_what_only_a_tag_reaches_is_saved_and_old_tags_are_not(gateway: Gateway, shop: Path) -> None:
    git(shop, "checkout", "-q", "-b", "release")
    commit(shop, "big", "x" * 10_000)
    git(shop, "tag", "v1")
    git(shop, "tag", "-a", "-m", "words", "v1-signed")
    git(shop, "checkout", "-q", "main")
    made = await make(gateway, shop)
    place = gateway.worktrees.path(made)
    assert (await gateway.worktrees.save("fix", BY))[1] == SavedBundle(), "the operator's tags are nobody's work"
    git(place, "checkout", "-q", "--detach")
    only = commit(place, "answer", "42")
    git(place, "tag", "kept")
    git(place, "tag", "here", made.base_commit)
    git(place, "tag", "-f", "v1", only)
    git(place, "checkout", "-q", "fix")
    done = await gateway.worktrees.archive("fix", BY)
    assert done.contents == "nothing committed, the tag kept, the tag v1"
    before = git(shop, "rev-parse", "v1")
    git(shop, "fetch", "-q", "--no-tags", str(done.saved), "+refs/*:refs/agents/fix/*")
    assert git(shop, "rev-parse", "refs/agents/fix/tags/kept", "refs/agents/fix/tags/v1").split() == [only, only]
    assert git(shop, "rev-parse", "v1") == before
    assert git(shop, "for-each-ref", "--format=%(refname)", "refs/agents").count("\n") == 1


@pytest.mark.slow
async def test_work_without_any_history_is_saved(gateway: Gateway, shop: Path) -> None:
    place = gateway.worktrees.path(await make(gateway, shop))
    git(place, "checkout", "-q", "--orphan", "anew")
    git(place, "config", "--unset", "user.email")
    (place / "answer").write_text("42")
    done = await gateway.worktrees.archive("fix", BY)
    git(shop, "fetch", "-q", "--no-tags", str(done.saved), "+refs/*:refs/agents/*")
    assert git(shop, "show", "refs/agents/gatepost/uncommitted:answer") == "42"


@pytest.mark.slow
@pytest.mark.parametrize("empty", [True, False])
async def test_a_worktree_with_repositories_of_their_own_stays(gateway: Gateway, shop: Path, empty: bool) -> None:
    """git keeps nothing of them but a name."""
    place = gateway.worktrees.path(await make(gateway, shop))
    (place / "answer").write_text("42")
    repository(place / "vendored")
    if empty:
        git(place / "vendored", "update-ref", "-d", "HEAD")
    with pytest.raises(Invalid, match=r"fix stays, because not everything in it can be saved.*vendored.*--discard"):
        await gateway.worktrees.archive("fix", BY)
    _, saved = await gateway.worktrees.save("fix", BY)
    assert saved.bundle is not None and "vendored" in saved.left
    git(shop, "fetch", "-q", "--no-tags", str(saved.bundle), "+refs/*:refs/agents/*")
    assert git(shop, "show", "refs/agents/gatepost/uncommitted:answer") == "42"
    await gateway.worktrees.archive("fix", BY, discard=True)
    assert not place.exists()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://ann:hunter2@example.com/shop.git", "https://example.com/shop.git"),
        ("https://ann:p@ss@example.com/shop.git", "https://example.com/shop.git"),
        ("HTTPS://token@example.com/shop.git", "HTTPS://example.com/shop.git"),
        ("https://example.com/shop.git?private_token=x", "https://example.com/shop.git"),
        ("https://example.com/a@b/shop.git", "https://example.com/a@b/shop.git"),
        ("ssh://git@example.com/shop.git", "ssh://example.com/shop.git"),
        ("git@example.com:shop.git", "git@example.com:shop.git"),
        ("", ""),
    ],
)
def test_the_address_of_a_remote_is_told_without_its_password(url: str, told: str) -> None:
    assert without_credentials(url) == told


@pytest.mark.slow
async def test_an_archive_saves_first_and_no_failing_teardown_holds_it_up(gateway: Gateway, shop: Path) -> None:
    commit(shop, ".gatepost.toml", RECIPE)
    made = await make(gateway, shop)
    await gateway.worktrees.trust("fix", BY)
    done = await gateway.worktrees.archive("fix", BY)
    assert "the teardown failed" in done.trouble and "(it failed: 3)" in done.trouble
    assert done.saved is not None, "what the setup made was not committed"
    assert not gateway.worktrees.path(made).exists()
    assert await gateway.worktrees.every() == []
    assert [each.state for each in await gateway.worktrees.every(archived=True)] == ["archived"]
    with pytest.raises(NotFound):
        await gateway.worktrees.archive("fix", BY)


@pytest.mark.slow
async def test_what_cannot_be_saved_is_only_thrown_away_by_word(gateway: Gateway, shop: Path) -> None:
    place = gateway.worktrees.path(await make(gateway, shop))
    (place / ".git" / "HEAD").write_text("garbage")
    with pytest.raises(Invalid, match="could not be saved"):
        await gateway.worktrees.archive("fix", BY)
    assert place.exists()
    await gateway.worktrees.archive("fix", BY, discard=True)
    assert not place.exists()


@pytest.mark.slow
async def test_what_was_begun_when_the_daemon_was_killed_is_ended_by_the_next(tmp_path: Path, shop: Path) -> None:
    given: dict[str, Any] = {"sandbox__mounts_allowed": (f"{shop.parent}:rw",)}
    async with running_gateway(tmp_path / "h", **given) as gateway:
        await gateway.store.write(worktrees.claim_name, "shop-1", "half", "agents", str(shop), "", 1)
        await gateway.store.write(worktrees.claim_name, "shop-1", "going", "agents", str(shop), "", 1)
        await gateway.store.write(worktrees.set_state, "shop-1", "going", "ending", 1)
        for name in ("half", "going"):
            (gateway.home.worktrees / "shop-1" / name / "deep").mkdir(parents=True)
        (gateway.home.sessions / "job-x").mkdir()
    async with running_gateway(tmp_path / "h", **given) as gateway:
        left = [(each.slug, each.state) for each in await gateway.worktrees.every(archived=True)]
        assert left == [("going", "archived")]
        assert list((gateway.home.worktrees / "shop-1").iterdir()) == []
        assert not (gateway.home.sessions / "job-x").exists()


@pytest.mark.slow
async def test_one_thing_at_a_time_is_done_to_a_worktree(gateway: Gateway, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = 'while test ! -f go; do :; done'")
    made = await make(gateway, shop)
    setting_up = asyncio.create_task(gateway.worktrees.trust("fix", BY))
    await until_under_way(gateway)
    agent = await an_agent(gateway, gateway.worktrees.path(made))
    with pytest.raises(Invalid, match="something else"):
        await gateway.worktrees.rename(agent, "other")
    archiving = asyncio.create_task(gateway.worktrees.archive("fix", BY))
    (gateway.worktrees.path(made) / "go").touch()
    assert (await setting_up).setup_state == "done"
    assert (await archiving).worktree.state == "archived", "the operator only had to wait"


@pytest.mark.slow
async def test_a_worktree_is_for_agents_of_its_own_group_alone(gateway: Gateway, shop: Path) -> None:
    """What lies in it decides what git and the teardown run, in the name of its group."""
    await gateway.store.write(groups.add, "other", "other", "demo", 1)
    place = gateway.worktrees.path(await make(gateway, shop))
    with pytest.raises(Invalid, match="is for agents of the group 'agents', not of 'other'"):
        await gateway.agents.create(NewAgent(folder="other", provider="demo", cwd=str(place)), BY)
    assert await gateway.agents.every() == []


@pytest.mark.slow
async def test_whoever_hangs_up_while_a_worktree_ends_does_not_keep_it(gateway: Gateway, shop: Path) -> None:
    made = await make(gateway, shop)
    archiving = asyncio.create_task(gateway.worktrees.archive("fix", BY, discard=True))
    async with asyncio.timeout(PATIENCE_S):
        while gateway.worktrees.path(made).exists():  # noqa: ASYNC110  a folder rings no bell
            await asyncio.sleep(0)
    archiving.cancel()
    with suppress(asyncio.CancelledError):
        await archiving
    assert [each.state for each in await gateway.worktrees.every(archived=True)] == ["archived"]


@pytest.mark.slow
async def test_an_end_that_was_cut_off_can_be_asked_for_again(gateway: Gateway, shop: Path) -> None:
    made = await make(gateway, shop)
    await gateway.store.write(worktrees.set_state, made.project, made.slug, "ending", 1)
    assert (await gateway.worktrees.archive("fix", BY)).worktree.state == "archived"
    assert not gateway.worktrees.path(made).exists()


async def an_agent(gateway: Gateway, place: Path) -> str:
    return (await gateway.agents.create(NewAgent(folder="agents", provider="demo", cwd=str(place)), BY)).agent_id


@pytest.mark.slow
async def test_no_agent_is_made_where_a_worktree_is_being_put_away(gateway: Gateway, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = 'true'\nteardown = 'while test ! -f go; do :; done'")
    place = gateway.worktrees.path(await make(gateway, shop))
    await gateway.worktrees.trust("fix", BY)
    agent = await an_agent(gateway, place)
    going = asyncio.create_task(gateway.agents.archive_worktree("fix", BY))
    await until_under_way(gateway)
    assert (await gateway.agents.find(agent)).archived_at is not None, "who was there is put away with it"
    (place / "below").mkdir()
    for cwd in (place, place / "below"):
        with pytest.raises(Invalid, match=r"the worktree \S+/fix is being put away"):
            await an_agent(gateway, cwd)
    with pytest.raises(Invalid, match="is being put away"):
        await gateway.agents.prompt(agent, "go on", BY)
    (place / "go").touch()
    assert (await going).worktree.state == "archived"
    with pytest.raises(NotFound):
        await an_agent(gateway, place)
    with pytest.raises(Invalid, match="was put away"):
        await gateway.agents.prompt(agent, "go on", BY)


@pytest.mark.slow
async def test_an_agent_that_is_made_at_the_same_time_is_refused_or_put_away(gateway: Gateway, shop: Path) -> None:
    place = gateway.worktrees.path(await make(gateway, shop))
    making = [asyncio.create_task(an_agent(gateway, place)) for _ in range(5)]
    await gateway.agents.archive_worktree("fix", BY)
    for made in await asyncio.gather(*making, return_exceptions=True):
        assert isinstance(made, GatepostError) or (await gateway.agents.find(str(made))).archived_at is not None


@pytest.mark.slow
async def test_agents_stay_where_something_else_is_being_done(gateway: Gateway, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = 'while test ! -f go; do :; done'")
    place = gateway.worktrees.path(await make(gateway, shop))
    agent = await an_agent(gateway, place)
    setting_up = asyncio.create_task(gateway.worktrees.trust("fix", BY))
    await until_under_way(gateway)
    archiving = asyncio.create_task(gateway.agents.archive_worktree("fix", BY))
    assert (await gateway.agents.find(agent)).archived_at is None
    (place / "go").touch()
    assert (await setting_up).setup_state == "done"
    await archiving
    assert (await gateway.agents.find(agent)).archived_at is not None


@pytest.mark.slow
async def test_a_panic_ends_what_runs_in_worktrees_and_starts_nothing(gateway: Gateway, shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = 'while :; do :; done'")
    await make(gateway, shop)
    setting_up = asyncio.create_task(gateway.worktrees.trust("fix", BY))
    await until_under_way(gateway)
    await gateway.store.write(switches.turn_on, switches.PANIC, "test", BY, gateway.clock.now())
    await gateway.directory.apply_switches()
    assert (await setting_up).setup_state == "failed"
    with pytest.raises(GatepostError, match="stopped"):
        await make(gateway, shop)


def test_git_is_run_by_nobody_but_the_program_inside_and_an_upgrade() -> None:
    """On the host it never runs over an agent's files. An upgrade reads the gateway's own clone."""
    source = Path(sys.modules["gatepost"].__path__[0])
    runs = [
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if '["git"' in path.read_text() and "testing" not in path.parts
    ]
    assert sorted(runs) == ["inside/worktree.py", "serve/upgrades/environments.py"]


def test_a_home_with_many_sessions_is_swept_of_jobs_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is listed without bounds is refused; what is looked for among many is found."""
    home = Home(tmp_path / "h")
    home.prepare()
    for name in ("s-1", "s-2", "s-3", "s-4", "job-1"):
        (home.sessions / name).mkdir()
    monkeypatch.setattr(untrusted_files, "MOST_ENTRIES", 3)
    sandbox_jobs.remove_leftover_jobs(home)
    assert sorted(path.name for path in home.sessions.iterdir()) == ["s-1", "s-2", "s-3", "s-4"]


def test_jobs_of_other_gateways_in_a_shared_folder_go_on(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    here, there = (Home(tmp_path / name, shared=tmp_path / "shared") for name in "ab")
    for home, job in ((here, "job-1"), (there, "job-2")):
        home.prepare()
        for place in (home.session(job), home.mailbox(job)):
            place.mkdir()
    sandbox_jobs.remove_leftover_jobs(here)
    assert [each.name for each in here.sessions.iterdir()] == ["job-2"]
    assert not here.mailbox("job-1").exists() and there.mailbox("job-2").exists()

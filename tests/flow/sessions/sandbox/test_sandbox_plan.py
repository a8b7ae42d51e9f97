"""What a session's sandbox is made of, and which kind it gets."""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatepost.core.errors import Invalid, SetupError, Unavailable
from gatepost.core.home import Home
from gatepost.core.records import replace
from gatepost.core.registry import Registry
from gatepost.core.settings import Config
from gatepost.flow.sessions.sandbox import sandbox_plan
from gatepost.sandboxes.bubblewrap import Bubblewrap, find_bwrap
from gatepost.sandboxes.contract import Sandbox, SandboxPlan
from gatepost.sandboxes.process import ProcessSandboxKind
from gatepost.store.sessions.groups import Group

pytestmark = pytest.mark.on_disk

SESSION = "s-000000000000000001"
CONFIG = Config()
needs_bwrap = pytest.mark.skipif(find_bwrap() is None, reason="bubblewrap is not installed: apt install bubblewrap")


def group(folder: str = "acme", sandbox: str = "") -> Group:
    return Group(folder=folder, name=folder, sandbox=sandbox, created_at=0)


@pytest.fixture
def home() -> Iterator[Home]:
    made = Home(Path(tempfile.mkdtemp(prefix="plan-")))
    made.prepare()
    yield made
    shutil.rmtree(made.path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.geteuid() != 0, reason="the gateway as root")
def test_as_root_the_sandboxs_uid_owns_what_it_writes_and_only_reads_the_rest(home: Home) -> None:
    sandbox_plan.prepare_folders(home, CONFIG, group("acme/eng"), SESSION)
    session, sockets = home.session(SESSION), home.sockets_of(SESSION)

    for path in (session, session / "in", session / "in/files", sockets):
        assert (path.stat().st_uid, path.stat().st_gid, mode(path)) == (0, 64123, 0o750)
    for path in (session / "out", session / "out/files", session / "state", home.group("acme"), home.group("acme/eng")):
        assert (path.stat().st_uid, mode(path)) == (64123, 0o700)
    assert {mode(path) for path in (home.path, home.groups, home.sessions, home.run)} == {0o711}


@pytest.mark.skipif(os.geteuid() == 0, reason="the gateway as an ordinary user")
def test_as_an_ordinary_user_nobody_else_sees_anything(home: Home) -> None:
    sandbox_plan.prepare_folders(home, CONFIG, group(), SESSION)

    for path in (home.path, home.session(SESSION), home.session(SESSION) / "in", home.group("acme")):
        assert mode(path) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_that_the_operator_filled_becomes_the_agents(home: Home) -> None:
    (home.group("acme") / "skills").mkdir(parents=True)
    (home.group("acme") / "skills/a.md").touch()

    sandbox_plan.prepare_folders(home, CONFIG, group(), SESSION)

    assert (home.group("acme") / "skills/a.md").stat().st_uid == 64123


def test_preparing_twice_changes_nothing(home: Home) -> None:
    sandbox_plan.prepare_folders(home, CONFIG, group(), SESSION)
    (home.session(SESSION) / "out/outbound.db").touch()
    sandbox_plan.prepare_folders(home, CONFIG, group(), SESSION)

    assert (home.session(SESSION) / "out/outbound.db").exists()


def test_the_plan_shows_the_session_and_nothing_else_of_the_home(home: Home) -> None:
    sandbox_plan.prepare_folders(home, CONFIG, group("acme/eng"), SESSION)
    made = sandbox_plan.make_sandbox_plan(home, CONFIG, group("acme/eng"), SESSION, provider="scripted")
    writable = {mount.target for mount in made.mounts if mount.writable}
    of_home = {mount.target: mount.source for mount in made.mounts if mount.source.is_relative_to(home.path)}

    assert writable == {"/workspace/out", "/workspace/state", "/workspace/agent"}
    assert of_home == {
        "/workspace": home.session(SESSION),
        "/workspace/in": home.session(SESSION) / "in",
        "/workspace/out": home.session(SESSION) / "out",
        "/workspace/state": home.session(SESSION) / "state",
        "/workspace/agent": home.group("acme/eng"),
        "/run/gatepost": home.sockets_of(SESSION),
        "/opt/gatepost/plugins/providers": home.plugins / "providers",
    }
    assert all(mount.target.startswith(("/workspace", "/run/gatepost", "/opt/gatepost/")) for mount in made.mounts)
    assert made.name.startswith(sandbox_plan.name_prefix(home))
    assert made.env["GATEPOST_PROVIDER"] == "scripted"
    assert not any(str(home.path) in word for word in (*made.command, *made.env.values()))


def test_a_group_folder_that_is_a_link_is_refused(home: Home) -> None:
    sandbox_plan.prepare_folders(home, CONFIG, group("acme"), SESSION)
    (home.group("acme") / "eng").symlink_to("/etc")

    with pytest.raises(Invalid):
        sandbox_plan.make_sandbox_plan(home, CONFIG, group("acme/eng"), SESSION, provider="scripted")


@needs_bwrap
async def test_a_group_folder_that_is_exchanged_while_the_sandbox_starts_is_noticed_inside(home: Home) -> None:
    sandbox_plan.prepare_folders(home, CONFIG, group("acme/eng"), SESSION)
    made = sandbox_plan.make_sandbox_plan(
        home, CONFIG, group("acme/eng"), SESSION, provider="scripted", command=("touch", "ran")
    )
    (home.group("acme") / "eng").rename(home.group("acme") / "away")
    (home.path / "victim").mkdir(mode=0o777)
    (home.path / "victim").chmod(0o777)
    (home.group("acme") / "eng").symlink_to(home.path / "victim")

    started = await Bubblewrap(CONFIG).start(made)

    assert await started.wait() == 1
    assert "was exchanged" in started.last_words
    assert list((home.path / "victim").iterdir()) == []


@needs_bwrap
async def test_a_home_behind_a_closed_folder_is_reached() -> None:
    closed = Path(tempfile.mkdtemp(prefix="plan-"))  # 0700, and ours
    home = Home(closed / "home")
    home.prepare()
    sandbox_plan.prepare_folders(home, CONFIG, group(), SESSION)
    made = sandbox_plan.make_sandbox_plan(
        home, CONFIG, group(), SESSION, provider="demo", command=("touch", "ran", "/workspace/out/ran")
    )

    started = await Bubblewrap(CONFIG).start(made)

    assert await started.wait() == 0, started.last_words
    assert (home.group("acme") / "ran").exists()
    shutil.rmtree(closed)


@needs_bwrap
@pytest.mark.parametrize("kind", [Bubblewrap, ProcessSandboxKind])
async def test_the_runner_can_import_what_it_needs(
    home: Home, kind: type[Bubblewrap] | type[ProcessSandboxKind]
) -> None:
    sandbox_plan.prepare_folders(home, CONFIG, group(), SESSION)
    made = sandbox_plan.make_sandbox_plan(home, CONFIG, group(), SESSION, provider="demo")
    boot = sandbox_plan.BOOT.replace(
        "main()\n", "import asyncio, apsw, msgspec, gatepost.mailbox.runner_frames\nprint(apsw.__file__)\n"
    )
    words = tuple(boot if word == sandbox_plan.BOOT else word for word in made.command)

    started = await kind(CONFIG).start(replace(made, command=words))

    assert await started.wait() == 0, started.last_words
    assert started.last_words.startswith("/opt/gatepost/lib" if kind is Bubblewrap else "/")


@needs_bwrap
async def test_without_a_socket_the_runner_says_so_and_ends(home: Home) -> None:
    sandbox_plan.prepare_folders(home, CONFIG, group(), SESSION)

    started = await Bubblewrap(CONFIG).start(
        sandbox_plan.make_sandbox_plan(home, CONFIG, group(), SESSION, provider="demo")
    )

    assert await started.wait() == 1
    assert "cannot reach the gateway" in started.last_words
    assert "cannot reach the gateway" in (home.logs / f"{SESSION}.log").read_text()


async def test_a_command_that_is_not_there_exits_as_a_shell_would(home: Home) -> None:
    sandbox_plan.prepare_folders(home, CONFIG, group(), SESSION)
    made = sandbox_plan.make_sandbox_plan(home, CONFIG, group(), SESSION, provider="demo", command=("nosuch",))

    started = await ProcessSandboxKind(CONFIG).start(made)

    assert await started.wait() == 127
    assert started.last_words == "nosuch: No such file or directory"


@pytest.mark.skipif(os.geteuid() != 0, reason="the gateway as root")
def test_the_hosts_root_is_no_choice_for_agents() -> None:
    with pytest.raises(SetupError, match=r"sandbox\.uid"):
        sandbox_plan.sandbox_uid(Config({"sandbox.uid": 0}))  # type: ignore[attr-defined]


class Walled:
    isolated = True
    why: str | None = None

    def __init__(self, config: Config) -> None:
        pass

    def trouble(self) -> str | None:
        return self.why

    async def start(self, plan: SandboxPlan) -> Sandbox:
        raise NotImplementedError

    def sweep(self, prefix: str) -> int:
        return 0


class Broken(Walled):
    why = "it is out of order; buy another"


def kinds(**given: type) -> Registry[sandbox_plan.MakeSandboxKind]:
    registry: Registry[sandbox_plan.MakeSandboxKind] = Registry("sandbox")
    for name, cls in given.items():
        registry.add(name, cls, origin="test")
    return registry


def test_bubblewrap_comes_first_where_it_works() -> None:
    registry = kinds(alpha=Walled, bubblewrap=Walled, process=ProcessSandboxKind)

    assert sandbox_plan.choose_sandbox(Config(), group(), "claude", registry)[0] == "bubblewrap"
    assert sandbox_plan.describe_sandbox(Config(), registry) == ("bubblewrap", "")


def test_another_isolated_kind_is_taken_where_it_does_not() -> None:
    registry = kinds(bubblewrap=Broken, podman=Walled, process=ProcessSandboxKind)

    assert sandbox_plan.choose_sandbox(Config(), group(), "claude", registry)[0] == "podman"


def test_without_walls_only_the_demo_runs_until_the_operator_chooses() -> None:
    registry = kinds(bubblewrap=Broken, process=ProcessSandboxKind)

    with pytest.raises(SetupError, match=r"out of order; buy another.*sandbox\.kind"):
        sandbox_plan.choose_sandbox(Config(), group(), "claude", registry)
    assert sandbox_plan.choose_sandbox(Config(), group(), "demo", registry)[0] == "process"
    assert sandbox_plan.describe_sandbox(Config(), registry)[0] == "none"

    chosen = Config({"sandbox.kind": "process"})
    assert sandbox_plan.choose_sandbox(chosen, group(), "claude", registry)[0] == "process"
    assert "no isolation" in sandbox_plan.describe_sandbox(chosen, registry)[1]


class Away(Walled):
    """Its trial start failed for want of descriptors."""

    def trouble(self) -> str | None:
        raise Unavailable("the sandbox", "Too many open files")


def test_stranger_20_a_passing_trouble_of_bubblewrap_never_leads_to_a_weaker_sandbox() -> None:
    registry = kinds(bubblewrap=Away, podman=Walled, process=ProcessSandboxKind)

    for provider in ("claude", "demo"):
        with pytest.raises(Unavailable, match="Too many open files"):
            sandbox_plan.choose_sandbox(Config(), group(), provider, registry)
    assert sandbox_plan.describe_sandbox(Config(), registry) == ("none", "not now: Too many open files")


def test_another_engine_that_is_away_is_passed_over_unless_it_was_chosen() -> None:
    registry = kinds(bubblewrap=Broken, docker=Away, podman=Walled, process=ProcessSandboxKind)

    assert sandbox_plan.choose_sandbox(Config(), group(), "claude", registry)[0] == "podman"
    with pytest.raises(Unavailable):
        sandbox_plan.choose_sandbox(Config(), group(sandbox="docker"), "claude", registry)


def test_a_group_may_have_a_kind_of_its_own_and_a_broken_choice_is_not_replaced() -> None:
    registry = kinds(bubblewrap=Walled, podman=Broken, process=ProcessSandboxKind)

    assert sandbox_plan.choose_sandbox(Config(), group(sandbox="process"), "claude", registry)[0] == "process"
    for provider in ("claude", "demo"):
        with pytest.raises(SetupError, match="podman"):
            sandbox_plan.choose_sandbox(Config(), group(sandbox="podman"), provider, registry)


def with_mounts(*mounts: str, **limits: int) -> Group:
    return replace(group(), mounts=mounts, limits=limits)


@needs_bwrap
async def test_a_groups_mounts_are_seen_inside_and_read_only_means_so(home: Home) -> None:
    place = Path(tempfile.mkdtemp(prefix="plan-"))
    (place / "books").mkdir(mode=0o777)
    (place / "books").chmod(0o777)
    (place / "list").write_text("a book")
    config = Config({"sandbox.mounts_allowed": (str(place),)})
    mine = with_mounts(f"{place}/books:/workspace/extra/books:rw", f"{place}/list:list")
    sandbox_plan.prepare_folders(home, config, mine, SESSION)
    script = "cd /workspace/extra; cat list; touch books/x || touch x || echo >list || exit 7"
    made = sandbox_plan.make_sandbox_plan(home, config, mine, SESSION, provider="demo", command=("sh", "-c", script))
    started = await Bubblewrap(config).start(made)

    assert await started.wait() == 7, started.last_words
    assert started.last_words.startswith("a book")
    assert list((place / "books").iterdir()) == []
    shutil.rmtree(place)


@needs_bwrap
async def test_a_mount_that_is_exchanged_while_the_sandbox_starts_is_noticed_inside(home: Home) -> None:
    place = Path(tempfile.mkdtemp(prefix="plan-"))
    (place / "books").mkdir()
    config = Config({"sandbox.mounts_allowed": (f"{place}:rw",)})
    mine = with_mounts(f"{place}/books:books:rw")
    sandbox_plan.prepare_folders(home, config, mine, SESSION)
    made = sandbox_plan.make_sandbox_plan(
        home, config, mine, SESSION, provider="demo", command=("touch", "/workspace/extra/books/ran")
    )
    (place / "books").rename(place / "away")
    (home.path / "victim").mkdir(mode=0o777)
    (home.path / "victim").chmod(0o777)
    (place / "books").symlink_to(home.path / "victim")

    started = await Bubblewrap(config).start(made)

    assert await started.wait() == 1
    assert "was exchanged" in started.last_words
    assert list((home.path / "victim").iterdir()) == []
    shutil.rmtree(place)


def test_a_mount_that_is_no_longer_allowed_keeps_the_sandbox_from_starting(home: Home) -> None:
    mine = with_mounts("/srv:srv")
    sandbox_plan.prepare_folders(home, CONFIG, mine, SESSION)

    with pytest.raises(Invalid, match=r"sandbox\.mounts_allowed"):
        sandbox_plan.make_sandbox_plan(home, CONFIG, mine, SESSION, provider="demo")


def test_mount_points_of_yesterday_are_gone(home: Home, tmp_path: Path) -> None:
    (tmp_path / "books").mkdir()
    config = Config({"sandbox.mounts_allowed": (str(tmp_path),)})
    for name in ("old", "new"):
        mine = with_mounts(f"{tmp_path}/books:{name}")
        sandbox_plan.prepare_folders(home, config, mine, SESSION)
        sandbox_plan.make_sandbox_plan(home, config, mine, SESSION, provider="demo")

    assert [path.name for path in (home.session(SESSION) / "extra").iterdir()] == ["new"]


def test_the_limits_of_a_group_are_those_of_its_sandbox(home: Home) -> None:
    mine = with_mounts(memory_mb=512, cpu_percent=50, processes=64)
    sandbox_plan.prepare_folders(home, CONFIG, mine, SESSION)
    limits = sandbox_plan.make_sandbox_plan(home, CONFIG, mine, SESSION, provider="demo").limits

    assert (limits.memory_mb, limits.cpu_percent, limits.processes) == (512, 50, 64)


@needs_bwrap
async def test_a_named_program_is_first_on_the_path_inside(home: Home, tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(folder.stat().st_mode | 0o711)
    (tmp_path / "true-1.2").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "true-1.2").chmod(0o755)
    config = Config({"programs": (f"true={tmp_path}/true-1.2",)})
    sandbox_plan.prepare_folders(home, config, group(), SESSION)
    made = sandbox_plan.make_sandbox_plan(home, config, group(), SESSION, provider="demo", command=("true",))

    started = await Bubblewrap(config).start(made)

    assert await started.wait() == 0
    assert started.last_words == "mine"


@needs_bwrap
async def test_a_replay_works_on_its_copy_of_the_groups_folder_and_writes_nothing_else(home: Home) -> None:
    place = Path(tempfile.mkdtemp(prefix="plan-"))
    place.chmod(0o777)
    config = Config({"sandbox.mounts_allowed": (str(place),)})
    mine = with_mounts(f"{place}:/workspace/extra/books:rw")
    sandbox_plan.prepare_folders(home, config, mine, SESSION)
    (home.group("acme") / "AGENTS.md").write_text("as it was")
    copy = home.replay_copy(SESSION)
    copy.mkdir()
    (copy / "AGENTS.md").write_text("changed")
    sandbox_plan.prepare_folders(home, config, mine, SESSION)
    script = "cat AGENTS.md; echo new >AGENTS.md || exit 8; touch /workspace/extra/books/x || exit 7"
    made = sandbox_plan.make_sandbox_plan(
        home, config, mine, SESSION, provider="demo", copy=copy, command=("sh", "-c", script)
    )
    started = await Bubblewrap(config).start(made)

    assert await started.wait() == 7, started.last_words
    assert started.last_words.startswith("changed")
    assert (copy / "AGENTS.md").read_text() == "new\n"
    assert (home.group("acme") / "AGENTS.md").read_text() == "as it was"
    assert list(place.iterdir()) == []
    shutil.rmtree(place)


OF_THE_GATEWAY = ("LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "GATEPOST_HOME")


@needs_bwrap
async def test_git_commits_in_the_agents_name_unless_it_says_otherwise(home: Home) -> None:
    sre = replace(group("acme/SRE team"), name='SRE "on [call]\\\n')
    sandbox_plan.prepare_folders(home, CONFIG, sre, SESSION)
    commit = "git commit -q --allow-empty -m x && git log -1 --format='%an <%ae>'"
    steps = f"git init -q r && cd r && {commit} && git config --global user.name Ada && {commit}"
    made = sandbox_plan.make_sandbox_plan(home, CONFIG, sre, SESSION, provider="demo", command=("sh", "-ec", steps))

    started = await Bubblewrap(CONFIG).start(made)

    assert await started.wait() == 0, started.last_words
    assert started.last_words.splitlines()[-2:] == [
        "SRE on call <acme-sre-team@agents.invalid>",
        "Ada <acme-sre-team@agents.invalid>",
    ]


@needs_bwrap
async def test_programs_inside_see_no_variable_of_the_gateway_or_of_its_interpreter(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in OF_THE_GATEWAY:
        monkeypatch.setenv(name, "/what-only-the-gateway-has")
    sandbox_plan.prepare_folders(home, CONFIG, group(), SESSION)
    plain = sandbox_plan.make_sandbox_plan(home, CONFIG, group(), SESSION, provider="demo", command=("env",))
    wrapped = sandbox_plan.wrap_with_forwarder(("env",))
    behind = sandbox_plan.make_sandbox_plan(home, CONFIG, group(), SESSION, provider="demo", command=wrapped)
    runner = sandbox_plan.make_sandbox_plan(home, CONFIG, group(), SESSION, provider="demo")
    inside = "import subprocess\nfrom gatepost.inside import bridge\nsubprocess.run(['env'])\n"
    inside += "print(subprocess.run(bridge.command('/run/nobody'), stdin=-3, stderr=-1, text=True).stderr)\n"
    boot = sandbox_plan.BOOT.replace("main()\n", inside)
    words = tuple(boot if word == sandbox_plan.BOOT else word for word in runner.command)

    for each in (plain, behind, replace(runner, command=words)):
        started = await Bubblewrap(CONFIG).start(each)
        await started.wait()
        found = dict(line.split("=", 1) for line in started.last_words.splitlines() if "=" in line)
        assert found["HOME"] == "/workspace/state/home" and not set(OF_THE_GATEWAY) & set(found)
        assert "/what-only-the-gateway-has" not in started.last_words
    assert "gatepost bridge:" in started.last_words and "shared librar" not in started.last_words

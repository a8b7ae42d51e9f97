"""What an agent leaves in its worktree for the operator to step on: nothing of it runs on the host, none of it reaches
the operator's repository, and whatever cannot be saved is told and stays until somebody throws it away.

Every attempt is made by an agent in bubblewrap. What it plants writes down where it was run: in the agent's own sandbox
and in jobs it may, as long as they do not see the operator's repository.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatepost.core.errors import GatepostError
from gatepost.store.rights import audit
from gatepost_testing.clients.management_client import ManagementClient
from gatepost_testing.repositories import commit, git

from .worktree_desk import BY, a_gateway, left_behind, needs_bwrap, run, shell, shop

__all__ = ["shop"]  # a fixture

pytestmark = [needs_bwrap, pytest.mark.slow]

PAGE = Path(__file__).parents[2] / "docs" / "security.md"

# Wherever this runs: a mark on the host, if that is where it is; else a line on what it sees.
PAYLOAD = """#!/bin/sh
touch HOST/marker 2>/dev/null
if test -e /workspace/extra/source || test -e SHOP; then echo source; else echo nothing; fi >> /workspace/agent/ran
cat 2>/dev/null
"""
BEFORE = """import pathlib, stat, shutil
tree, dot = pathlib.Path("/workspace/project"), pathlib.Path("/workspace/project/.git")
evil = pathlib.Path("/workspace/project/evil.sh")
evil.write_text(PAYLOAD)
evil.chmod(0o755)
answer = "planted"
"""

SETTINGS = """
config = dot / "config"
keys = ("core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.gitProxy", "core.askPass",
        "core.alternateRefsCommand", "diff.external", "filter.x.clean", "filter.x.smudge", "filter.x.process",
        "diff.x.textconv", "diff.x.command", "merge.x.driver", "gpg.program", "credential.helper", "sequence.editor",
        "pager.log", "trailer.x.command", "uploadpack.packObjectsHook", "remote.origin.uploadpack",
        "remote.origin.receivepack", "remote.origin.vcs", "interactive.diffFilter")
for key in keys:
    subprocess.run(["git", "config", key, str(evil)], check=True)
for key, value in (("core.hooksPath", "/workspace/project/hooks"), ("commit.gpgSign", "true"), ("tag.gpgSign", "true"),
                   ("gc.auto", "1"), ("protocol.ext.allow", "always"), ("core.alternateRefsPrefixes", "refs"),
                   ("url.ext::sh -c /workspace/project/evil.sh.insteadOf", "http")):
    subprocess.run(["git", "config", key, value], check=True)
for name in ("rev-parse", "read-tree", "add", "write-tree", "branch", "bundle", "rev-list", "symbolic-ref", "status"):
    subprocess.run(["git", "config", f"alias.{name}", "!" + str(evil)], check=True)
(tree / ".gitattributes").write_text("* filter=x diff=x merge=x\\n")
(dot / "info").mkdir(exist_ok=True)
(dot / "info" / "attributes").write_text("* filter=x diff=x merge=x\\n")
"""
HOOKS = """
names = ("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg",
         "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update",
         "proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc",
         "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "post-index-change", "p4-pre-submit")
for folder in (dot / "hooks", tree / "hooks"):
    folder.mkdir(exist_ok=True)
    for name in names:
        shutil.copy(evil, folder / name)
(tree / "x").write_text("x")
subprocess.run(["git", "add", "x"]), subprocess.run(["git", "commit", "-qm", "x"])
"""


@dataclass(frozen=True)
class Attempt:
    name: str
    program: str
    saved: bool | None = True  # whether its work can be saved all the same; None: as it happens


EVERY_DAY = 4  # one in so many is tried in `make test`, all of them in `make test-all`
ATTEMPTS = (
    Attempt("settings that name programs", SETTINGS),
    Attempt("hooks of every kind", HOOKS),
    Attempt("settings that include others", """
(dot / "config").open("a").write("[include]\\npath = SHOP/.git/config\\n")
"""),
    Attempt("a work tree elsewhere", 'subprocess.run(["git", "config", "core.worktree", "/workspace/agent"])'),
    Attempt(".git is a file that names the operator's", """
shutil.rmtree(dot)
dot.write_text("gitdir: SHOP/.git\\n")
""", False),
    Attempt(".git is a link to the operator's", 'shutil.rmtree(dot); dot.symlink_to("SHOP/.git")', False),
    Attempt(".git is a link to a place of one's own", """
shutil.move(dot, "/workspace/agent/dot")
dot.symlink_to("/workspace/agent/dot")
""", False),
    Attempt("no .git at all", "shutil.rmtree(dot)", False),
    Attempt("objects of the operator's", '(dot / "objects/info/alternates").write_text("SHOP/.git/objects\\n")'),
    Attempt("objects are a link", """
shutil.rmtree(dot / "objects")
(dot / "objects").symlink_to("SHOP/.git/objects")
""", False),
    Attempt("refs are a link", 'shutil.rmtree(dot / "refs"); (dot / "refs").symlink_to("SHOP/.git/refs")', False),
    Attempt("HEAD is garbage", '(dot / "HEAD").write_bytes(os.urandom(500))', False),
    Attempt("the index is garbage", '(dot / "index").write_bytes(os.urandom(5000))'),
    Attempt("settings are garbage", '(dot / "config").write_bytes(b"[" * 5000)', False),
    Attempt("a folder that is 200 deep", 'os.makedirs("/".join(["d"] * 200)); open("d/" * 200 + "x", "w").close()'),
    Attempt("FIFOs, sockets and links among the files", """
import socket
os.mkfifo(tree / "fifo"), socket.socket(socket.AF_UNIX).bind(str(tree / "sock"))
for name, target in (("secret", "HOST/secret"), ("host", "HOST"), ("zero", "/dev/zero"), ("loop", "loop")):
    (tree / name).symlink_to(target)
"""),
    Attempt("a recipe that is a link", """
(tree / ".gatepost.toml").unlink()
(tree / ".gatepost.toml").symlink_to("HOST/secret")
"""),
    Attempt("answers that are links", """
(tree / "swap.sh").write_text('''#!/bin/sh
cat
for each in answer.json work.bundle index; do
  rm -rf /workspace/out/$each; ln -s HOST/secret /workspace/out/$each
done
cd /workspace/out
(while :; do ln -sfn HOST/secret work.bundle; ln -sfn HOST/secret answer.json; done) >/dev/null 2>&1 &
''')
(tree / "swap.sh").chmod(0o755)
subprocess.run(["git", "config", "filter.y.clean", str(tree / "swap.sh")], check=True)
(tree / ".gitattributes").write_text("new filter=y\\n")
(tree / "new").write_text("new")
""", None),
    Attempt("answers that are FIFOs and folders", """
(tree / "swap.sh").write_text('''#!/bin/sh
cat
cd /workspace/out; rm -rf answer.json work.bundle; mkfifo work.bundle; mkdir answer.json; touch answer.json/x
''')
(tree / "swap.sh").chmod(0o755)
subprocess.run(["git", "config", "filter.y.clean", str(tree / "swap.sh")], check=True)
(tree / ".gitattributes").write_text("new filter=y\\n")
(tree / "new").write_text("new")
""", False),
)  # fmt: skip


def state_of(folder: Path) -> str:
    """Everything in it, by name, mode and content."""
    told = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        told.update(f"{path} {path.lstat().st_mode} {path.lstat().st_uid}".encode())
        told.update(path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
    return told.hexdigest()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder of the operator's own, with nothing in it for agents."""
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "secret").write_text("[worktree]\nsetup = 'echo very secret'\n")
    return tmp_path / "host"


async def plant(desk: ManagementClient, agent: str, host: Path, shop: Path, program: str) -> None:
    program = BEFORE.replace("PAYLOAD", repr(PAYLOAD)) + program
    told = await run(desk, agent, program.replace("HOST", str(host)).replace("SHOP", str(shop)))
    assert told == "planted", told


async def step_on_it(desk: ManagementClient, agent: str) -> dict[str, str]:
    """All that an operator does with a worktree; '' for what went well."""
    worktrees, told = desk.gateway.worktrees, {}

    async def attempt(name: str, act: object) -> None:
        try:
            await act  # type: ignore[misc]
            told[name] = ""
        except GatepostError as error:
            told[name] = str(error)

    await attempt("list", desk("list_worktrees"))
    await attempt("show", worktrees.find("task"))
    await attempt("rename", worktrees.rename(agent, "renamed"))
    await attempt("trust", worktrees.trust("task", BY))
    await attempt("save", worktrees.save("task", BY))
    (made,) = [each for each in await worktrees.every() if each.slug == "task"]
    await attempt("another", desk("create_worktree", cwd=made.source, name="another"))
    await attempt("archive", desk.gateway.agents.archive_worktree("task", BY))
    if told["archive"]:
        await attempt("discard", desk.gateway.agents.archive_worktree("task", BY, discard=True))
    return told


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(each, id=each.name, marks=() if place % EVERY_DAY == 0 else pytest.mark.slow)
        for place, each in enumerate(ATTEMPTS)
    ],
)
async def test_what_is_planted_in_a_worktree_stays_there(attempt: Attempt, shop: Path, host: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = 'echo set up'\n")
    before = state_of(shop), state_of(host)
    async with a_gateway(shop) as desk:
        home = desk.gateway.home
        made = await desk("create_agent", cwd=str(shop), worktreeName="task", baseBranch="main", title="A")
        agent, place = made["agentId"], Path(made["cwd"])
        await shell(desk, agent, "echo 42 > answer; git add -A; git commit -qm done")
        kept = (await desk.gateway.worktrees.save("task", BY))[1].bundle
        assert kept is not None
        first = kept.read_bytes()
        await plant(desk, agent, host, shop, attempt.program)
        told = await step_on_it(desk, agent)

        assert not place.exists() and place.parent.is_dir()
        assert (told["list"], told["show"], told["another"]) == ("", "", ""), told
        assert attempt.saved in (None, told["archive"] == ""), told
        assert "Traceback" not in str(told), told
        assert told.get("discard", "") == "", told
        assert (state_of(shop), state_of(host)) == before, "neither a mark nor a change"
        ran = home.group("agents") / "ran"
        assert "source" not in (ran.read_text() if ran.exists() else "")
        assert b"very secret" not in kept.read_bytes()
        assert not told["archive"] or kept.read_bytes() == first, "what was saved before is not lost"
        git(shop, "bundle", "verify", "-q", str(kept))
        assert sorted(path.name for path in place.parent.iterdir()) == ["another", "task.bundle"]
        assert left_behind(desk.gateway) == []
        rows = [row for row in await desk.gateway.store.read(audit.list_latest, 99) if row[3] == "worktree.archive"]
        assert [json.loads(row[5])["worktree"] for row in rows] == [f"{place.parent.name}/task"]


def test_the_page_lists_what_was_planted() -> None:
    _, _, section = PAGE.read_text().partition("## What was planted in worktrees")
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section.partition("\n## ")[0], re.MULTILINE)
    told = {True: "saved", False: "told that it cannot be saved", None: "either"}
    assert rows[1:] == [(each.name, told[each.saved]) for each in ATTEMPTS]


async def test_hooks_and_filters_would_run_where_they_may(shop: Path, host: Path) -> None:
    """Else what is held above would mean nothing."""
    async with a_gateway(shop) as desk:
        agent = (await desk("create_agent", cwd=str(shop), worktreeName="task", baseBranch="main"))["agentId"]
        await plant(desk, agent, host, shop, SETTINGS + HOOKS)
        assert "nothing" in (desk.gateway.home.group("agents") / "ran").read_text()


@pytest.mark.slow
async def test_a_fifo_in_the_place_of_a_setting_is_waited_for_no_longer_than_allowed(shop: Path, host: Path) -> None:
    async with a_gateway(shop) as desk:
        agent = (await desk("create_agent", cwd=str(shop), worktreeName="task", baseBranch="main"))["agentId"]
        await plant(desk, agent, host, shop, '(dot / "HEAD").unlink(); os.mkfifo(dot / "HEAD")')
    async with a_gateway(shop, worktrees__limit_s=3.0) as desk:
        told = await step_on_it(desk, agent)
        assert "longer than 3 s" in told["archive"] or "could not be saved" in told["archive"]
        assert told["discard"] == ""
        assert left_behind(desk.gateway) == []

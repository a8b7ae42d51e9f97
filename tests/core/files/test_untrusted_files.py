"""Whatever a sandbox plants, the host reads nothing of its own, waits for nothing, and follows nothing."""

import ast
import os
import re
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import gatepost
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.files.untrusted_files import (
    DEEPEST,
    MOST_ENTRIES,
    STEP,
    UntrustedFolder,
    open_untrusted,
    write_synced,
)

SECRET = b"the host's own"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "groups" / "acme"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def root(tree: Path) -> Iterator[UntrustedFolder]:
    with open_untrusted(tree) as opened:
        yield opened


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    return path


def test_what_is_written_is_read_again(root: UntrustedFolder, tree: Path) -> None:
    root.make_dir("a/b", 0o750)
    root.write_bytes("a/b/c.md", b"one", mode=0o640)
    root.write_bytes("a/b/c.md", b"two", mode=0o640)

    assert root.read_bytes("a/b/c.md", 10) == b"two"
    assert root.list("a/b") == ["c.md"]
    assert (tree / "a/b/c.md").stat().st_mode & 0o777 == 0o640
    assert root.exists("a/b/c.md")
    assert not root.exists("a/x/c.md")


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../secret", "a/../../secret", "a//b", ".", "a/./b", "a\0b"])
def test_a_path_that_leads_out_is_refused(root: UntrustedFolder, path: str) -> None:
    with pytest.raises(Invalid):
        root.read_bytes(path, 100)
    with pytest.raises(Invalid):
        root.write_bytes(path, b"")


def test_a_planted_link_is_not_read_written_or_copied(
    root: UntrustedFolder, tree: Path, secret: Path, tmp_path: Path
) -> None:
    (tree / "work.md").symlink_to(secret)

    with pytest.raises(Invalid):
        root.read_bytes("work.md", 100)
    with pytest.raises(Invalid):
        root.write_bytes("work.md", b"overwritten")
    with pytest.raises(Invalid):
        root.copy_out("work.md", tmp_path / "copy", 100)

    assert secret.read_bytes() == SECRET
    assert not (tmp_path / "copy").exists()
    assert root.exists("work.md")


def test_a_link_in_the_middle_of_a_path_is_not_followed(root: UntrustedFolder, tree: Path, secret: Path) -> None:
    (tree / "skills").symlink_to(secret.parent)

    with pytest.raises(Invalid):
        root.read_bytes("skills/secret", 100)
    with pytest.raises(Invalid):
        root.write_bytes("skills/planted", b"")
    with pytest.raises(Invalid):
        root.make_dir("skills/planted", 0o700)
    with pytest.raises(Invalid):
        root.list("skills")
    with pytest.raises(Invalid):
        root.remove_tree("skills/secret")

    assert secret.read_bytes() == SECRET


def test_a_childs_folder_that_its_parent_made_a_link_is_not_opened(tree: Path, secret: Path) -> None:
    (tree / "eng").symlink_to(secret.parent)

    with pytest.raises(Invalid):
        open_untrusted(tree / "eng")


def test_the_operators_own_link_to_the_home_is_followed(tmp_path: Path, tree: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(tmp_path)

    with open_untrusted(tmp_path / "elsewhere" / "groups" / "acme") as opened:
        opened.write_bytes("work.md", b"fine")

    assert (tree / "work.md").read_bytes() == b"fine"


def test_a_fifo_and_a_socket_neither_block_nor_are_read(root: UntrustedFolder, tree: Path, tmp_path: Path) -> None:
    os.mkfifo(tree / "work.md")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.getcwd()
        os.chdir(tree)  # a socket's path is short
        try:
            listening.bind("sock")
        finally:
            os.chdir(here)

        for name in ("work.md", "sock"):
            with pytest.raises(Invalid):
                root.read_bytes(name, 100)
            with pytest.raises(Invalid):
                root.write_bytes(name, b"")
            with pytest.raises(Invalid):
                root.copy_out(name, tmp_path / "copy", 100)


def test_a_folder_where_a_file_should_be_is_refused(root: UntrustedFolder, tree: Path) -> None:
    (tree / "work.md").mkdir()

    with pytest.raises(Invalid):
        root.read_bytes("work.md", 100)
    with pytest.raises(Invalid):
        root.write_bytes("work.md", b"")


def test_what_is_missing_is_said_to_be_missing(root: UntrustedFolder, tree: Path) -> None:
    with pytest.raises(NotFound):
        root.read_bytes("work.md", 100)
    with pytest.raises(NotFound):
        open_untrusted(tree / "nobody")
    root.remove_tree("work.md")


def test_a_file_above_the_limit_is_refused_before_it_is_read(root: UntrustedFolder, tree: Path, tmp_path: Path) -> None:
    with (tree / "huge").open("wb") as file:
        file.truncate(10**12)  # sparse

    with pytest.raises(Invalid, match="larger"):
        root.read_bytes("huge", 1000)
    with pytest.raises(Invalid, match="larger"):
        root.copy_out("huge", tmp_path / "copy", 1000)
    assert not (tmp_path / "copy").exists()


def test_a_copy_is_the_hosts_own_and_replaces_nothing(root: UntrustedFolder, tmp_path: Path) -> None:
    root.write_bytes("report.pdf", b"pdf")
    target = tmp_path / "copy"

    assert root.copy_out("report.pdf", target, 3) == 3
    assert target.read_bytes() == b"pdf"
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Invalid):
        root.copy_out("report.pdf", target, 3)
    assert target.read_bytes() == b"pdf"


def test_a_tree_is_removed_without_touching_what_its_links_lead_to(
    root: UntrustedFolder, tree: Path, secret: Path
) -> None:
    (tree / "out/deep").mkdir(parents=True)
    (tree / "out/link").symlink_to(secret)
    (tree / "out/folder-link").symlink_to(secret.parent)
    os.mkfifo(tree / "out/deep/fifo")

    root.remove_tree("out")

    assert os.listdir(tree) == []
    assert secret.read_bytes() == SECRET


@pytest.mark.slow
def test_a_tree_deeper_than_any_path_is_removed_and_counts_as_too_large(root: UntrustedFolder, tree: Path) -> None:
    fd = os.open(tree, os.O_RDONLY)
    for _ in range(DEEPEST * 20):
        os.mkdir("d" * 100, dir_fd=fd)
        below = os.open("d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)

    assert root.size(10**9) > 10**9
    root.remove_tree("d" * 100)

    assert os.listdir(tree) == []


@pytest.mark.slow
def test_a_folder_with_endless_names_is_not_listed(root: UntrustedFolder, tree: Path) -> None:
    (tree / "many").mkdir()
    for number in range(MOST_ENTRIES + 1):
        os.mknod(tree / "many" / str(number))

    with pytest.raises(Invalid, match="more than"):
        root.list("many")
    assert root.size(10**9) >= MOST_ENTRIES * 256
    assert root.size(1000) > 1000


def test_a_link_is_made_only_to_a_neighbour(root: UntrustedFolder, tree: Path) -> None:
    root.write_bytes("AGENTS.md", b"me")
    root.make_link("CLAUDE.md", "AGENTS.md")

    assert (tree / "CLAUDE.md").read_bytes() == b"me"
    with pytest.raises(Invalid):
        root.make_link("x", "../secret")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_giving_a_tree_away_stops_at_what_is_the_others_already(
    root: UntrustedFolder, tree: Path, secret: Path
) -> None:
    (tree / "skills").mkdir()
    (tree / "skills/a.md").touch()
    (tree / "link").symlink_to(secret)

    with open_untrusted(tree.parent) as groups:
        groups.give("acme", 64123)
        (tree / "late").touch()
        groups.give("acme", 64123)

    assert {path.lstat().st_uid for path in (tree, tree / "skills", tree / "skills/a.md", tree / "link")} == {64123}
    assert secret.stat().st_uid == 0
    assert (tree / "late").stat().st_uid == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_writes_into_an_agents_folder_is_the_agents(root: UntrustedFolder, tree: Path) -> None:
    os.chown(tree, 64123, 64123)
    root.write_bytes("work.md", b"")
    root.write_bytes("other.md", b"", uid=64124)

    assert ((tree / "work.md").stat().st_uid, (tree / "other.md").stat().st_uid) == (64123, 64124)


def test_stranger_06_files_are_counted_and_a_file_with_two_names_once(root: UntrustedFolder, tree: Path) -> None:
    (tree / "eng").mkdir()
    (tree / "eng/child").write_bytes(bytes(1 << 20))
    (tree / "a").write_bytes(bytes(1 << 20))
    os.link(tree / "a", tree / "b")

    whole, own = root.measure(10**9), root.measure(10**9, skip=["eng"])

    assert (whole.files, own.files) == (4, 2)
    assert own.size < 1.5 * (1 << 20) < whole.size
    assert root.measure(10**9, 2).files > 2


def _closed_as_its_owner(place: str, mode: int) -> str:
    """Return what is found closed in a tree by its owner, an ordinary user. A child of this process: a program of that
    user's could not read the interpreter everywhere."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(64123)
                os.setuid(64123)
            closed = Path(place) / "closed"
            closed.mkdir()
            (closed / "large").write_bytes(bytes(1 << 20))
            closed.chmod(mode)
            with open_untrusted(Path(place)) as root:
                os.write(writes, str(root.measure(10**9).closed).encode())
        finally:
            os._exit(0)
    os.close(writes)
    with open(reads) as told:
        found = told.read()
    os.waitpid(pid, 0)
    return found


@pytest.mark.parametrize("mode", [0, 0o400, 0o100])
def test_stranger_06_a_folder_that_its_owner_closed_is_named(mode: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        if os.geteuid() == 0:
            os.chown(place, 64123, 64123)
        found = _closed_as_its_owner(place, mode)
        (Path(place) / "closed").chmod(0o700)
    assert found == "closed"


def _move_as_its_owner(place: Path) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(64123)
                os.setuid(64123)
            (place / "a" / "closed" / "below").mkdir(parents=True)
            (place / "b").mkdir()
            (place / "a" / "closed").chmod(0o500)
            with open_untrusted(place) as root:
                root.move("a/closed", "b/closed")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def test_a_folder_that_its_owner_closed_is_moved_as_it_is() -> None:
    """An agent must not stop the start of the gateway, which puts back what was begun, or a move to another one."""
    with tempfile.TemporaryDirectory() as place:
        if os.geteuid() == 0:
            os.chown(place, 64123, 64123)
        _move_as_its_owner(Path(place))
        moved = Path(place) / "b" / "closed"
        assert moved.is_dir() and stat.S_IMODE(moved.stat().st_mode) == 0o500
        moved.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_stranger_22_giving_a_tree_away_takes_files_of_anybody_and_is_taken_up_again(
    root: UntrustedFolder, tree: Path, secret: Path
) -> None:
    (tree / "a").mkdir()
    for name in ("a/of root", "a/of another", "of the new one"):
        (tree / name).touch()
    os.chown(tree / "a/of another", 64999, 64999)
    os.chown(tree / "of the new one", 64123, 64123)
    os.chown(tree / "a", 64123, 64123)  # as an interrupted walk leaves it: some are done, the top is not
    (tree / "link").symlink_to(secret)
    os.link(secret, tree / "second name")

    with open_untrusted(tree.parent) as groups:
        groups.give("acme", 64123)

    assert {path.lstat().st_uid for path in tree.rglob("*") if path.name != "second name"} == {64123}
    assert tree.stat().st_uid == 64123
    assert secret.stat().st_uid == 0


# The rule: nobody else touches these trees.

EXEMPT = (
    "core/files/untrusted_files.py",
    "core/home.py",
    "flow/sessions/sandbox/sandbox_plan.py",
    "mailbox/",
    "sandboxes/",
)
OPENERS = {"open", "Path", "copy", "copytree", "copyfile", "move", "rmtree", "FileIO"}
HARMLESS = {"lstat", "fspath"}  # of os
NAMED = re.compile(r"\.\s*(groups?|sessions?)\b")  # where none stands, no tree needs to be read
HOSTS_OWN = "in"  # sessions/<id>/in is mounted read-only: nothing in it is a sandbox's


def misuses(source: str) -> list[int]:
    """Lines where a path into groups/ or sessions/ is opened, asked or joined. It may be handed on, whole, to whoever
    opens it as a root."""
    if not NAMED.search(source):
        return []
    tree = ast.parse(source)
    touched = {each for node in ast.walk(tree) for each in _touched_by(node)}
    found = {node.lineno for node in touched if _is_tree(node)}
    for scope in _scopes(tree):
        kept = {name for node in ast.walk(scope) for name in _kept_by(node)}
        names = {node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id in kept}
        found |= {node.lineno for node in names & touched}
    return sorted(found)


def _touched_by(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Attribute):
        return [node.value]
    if isinstance(node, ast.BinOp):
        hosts_own = isinstance(node.right, ast.Constant) and node.right.value == HOSTS_OWN
        return [] if hosts_own else [node.left]
    if isinstance(node, ast.Call):
        name, of = _last_name(node.func), _last_name(getattr(node.func, "value", node))
        if name in OPENERS or (of in ("os", "shutil") and name not in HARMLESS):
            return [*node.args, *(keyword.value for keyword in node.keywords)]
    return []


def _kept_by(node: ast.AST) -> list[str]:
    """Names that hold a path of these trees from here on."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_tree(node.value):
        return [node.targets[0].id]
    if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and isinstance(node.iter, ast.Tuple):
        return [node.target.id] if any(_is_tree(each) for each in node.iter.elts) else []
    return []


def _scopes(tree: ast.Module) -> list[ast.AST]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return list(functions) or [tree]


def _last_name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_tree(node: ast.AST) -> bool:
    """`home.groups`, `home.sessions`, `home.group(…)`, `home.session(…)`, `home.worktree(…)`, whatever leads to it."""
    names = {"groups", "sessions"}
    if isinstance(node, ast.Call):
        node, names = node.func, {"group", "session", "worktree"}
    return isinstance(node, ast.Attribute) and node.attr in names and _last_name(node.value).strip("_") == "home"


NAMED = re.compile(r"home_*\s*\.\s*(group|session|worktree)")


def test_no_other_module_touches_the_trees_that_sandboxes_write() -> None:
    package = Path(gatepost.__file__).parent
    found = [
        f"{path.relative_to(package)}:{line}"
        for path in sorted(package.rglob("*.py"))
        if not str(path.relative_to(package)).startswith(EXEMPT)
        if NAMED.search(text := path.read_text(encoding="utf-8"))  # the others need not be parsed
        for line in misuses(text)
    ]
    assert found == [], "go through core/files/untrusted_files.py: open_root(home.group(…)), then its methods"


@pytest.mark.parametrize(
    "snippet",
    [
        "(home.group(folder) / 'work.md').read_text()",
        "open(home.session(id) / 'out' / 'x')",
        "path = self.home.groups / folder",
        "shutil.rmtree(parts.home.session(session_id))",
        "for each in office.home.sessions.iterdir(): pass",
        "os.listdir(self._home.groups)",
        "place = home.group(folder); place.exists()",
        "place = home.group(folder); shutil.copy(place, x)",
        "for place in (home.group(folder), home.session(id)): os.listdir(place)",
        "open(str(home.group(folder) / 'work.md'))",
    ],
)
def test_the_rule_sees_an_offender(snippet: str) -> None:
    assert misuses(snippet) == [1]


@pytest.mark.parametrize(
    "snippet",
    [
        "with open_root(home.group(folder)) as root: root.list()",
        "Mount(source=home.group(folder), target='/workspace/agent')",
        "project(home.session(id) / 'in' / 'inbound.db', rows)",
        "groups.group(folder)",
        "place = home.group(folder); open_root(place)",
        "for place in (home.group(folder), home.session(id)): measure(place, limit)",
        "print(f'it is in {home.group(folder)}')",
    ],
)
def test_the_rule_lets_the_right_way_pass(snippet: str) -> None:
    assert misuses(snippet) == []


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of the file at each time that it was written to the disk."""
    sizes: list[int] = []
    real = os.fdatasync

    def fdatasync(fd: int) -> None:
        sizes.append(os.fstat(fd).st_size)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", fdatasync)
    return sizes


def test_all_parts_are_written_and_counted(tmp_path: Path) -> None:
    with (tmp_path / "copy").open("wb") as file:
        assert write_synced(file.fileno(), [b"ab", b"", b"cde"]) == 5
    assert (tmp_path / "copy").read_bytes() == b"abcde"


def test_stranger_04_a_copy_is_on_the_disk_step_by_step(tmp_path: Path, flushed: list[int]) -> None:
    with (tmp_path / "copy").open("wb") as file:
        write_synced(file.fileno(), [bytes(STEP // 4)] * 10)

    assert flushed == [STEP, 2 * STEP]


def test_stranger_04_a_sparse_file_of_a_sandbox_is_copied_step_by_step(tmp_path: Path, flushed: list[int]) -> None:
    (tmp_path / "tree").mkdir()
    with (tmp_path / "tree" / "big.bin").open("wb") as file:
        file.truncate(3 * STEP)
    with open_untrusted(tmp_path / "tree") as root:
        assert root.copy_out("big.bin", tmp_path / "copy", 3 * STEP) == 3 * STEP

    assert flushed == [STEP, 2 * STEP, 3 * STEP]

"""Git's work on a worktree, in a sandbox. An agent could have written these files, so git must not run over them
anywhere else. It is a program of its own and uses the standard library alone.

    python -I -S worktree.py /workspace /workspace/project [/workspace/extra/source]

The host writes the job into `in/job.json`, and reads the answer from `out/answer.json` without trusting it. A worktree
here is a whole clone. It shares no object, hook or setting with the repository that it came from, so nothing done to it
reaches that one.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

LONGEST = 64 * 1024  # characters of what commands say
NAME, EMAIL = "Gatepost agent", "agent@gatepost.invalid"
LINGER_S = 1.0  # for the last words of a command that has ended, if what it left running still holds its output
SAVED = "refs/gatepost"  # what is in no branch, when it is saved
THEIRS = "refs/source/tags"  # the tags that came along
MOST_TOLD = 50  # of the refs in a bundle
# Whatever a repository's own settings say: here it starts nothing and asks nobody.
PLAIN = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never")
ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_ADVICE": "0", "LC_ALL": "C.UTF-8"}

Job = Mapping[str, Any]


class WorktreeJobError(Exception):
    """It cannot be done: `code` says to programs what the text says to people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def git(folder: Path, *words: str, env: Mapping[str, str] | None = None, given: str = "") -> str:
    """Return what it says, without the last newline. Raises Failed with its complaint."""
    done = subprocess.run(
        ["git", *PLAIN, *words],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(folder.parent), **(env or {})},
        input=given,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise WorktreeJobError("GIT", f"git {words[0]}: {done.stderr.strip()[:2000] or 'it failed without a word'}")
    return done.stdout.rstrip("\n")


def try_git(folder: Path, *words: str) -> str:
    """The same, and '' if git says no."""
    try:
        return git(folder, *words)
    except WorktreeJobError:
        return ""


# Making one.


def clone(job: Job, project: Path, source: Path) -> dict[str, Any]:
    """A clone in the empty folder `project`, on the branch that was asked for."""
    if not os.access(source, os.R_OK | os.X_OK):
        raise WorktreeJobError(
            "NOT_READABLE",
            "agents run as a user of their own (sandbox.uid), who may not read it: let others read that folder",
        )
    if not try_git(source, "rev-parse", "--git-dir"):
        raise WorktreeJobError(
            "NOT_GIT_REPO", "it is no git repository, or one whose .git lies elsewhere (name the main one)"
        )
    git(project, "init", "-q", "--template=", "-b", "gatepost")
    git(
        project,
        *("fetch", "-q", "--no-tags", str(source)),
        *("+refs/heads/*:refs/remotes/source/*", "+refs/remotes/origin/*:refs/remotes/origin/*"),
        *("+refs/tags/*:refs/tags/*", f"+refs/tags/*:{THEIRS}/*", "+refs/pull/*:refs/gatepost/pull/*"),
    )
    origin = without_credentials(try_git(source, "config", "--get", "remote.origin.url"))
    branch, base, commit = _find(job, project, source, origin)
    git(project, "checkout", "-q", "--no-track", "-b", branch, commit)
    _configure(project, source, origin)
    return {"branch": branch, "base": base, "commit": commit}


def _find(job: Job, project: Path, source: Path, origin: str) -> tuple[str, str, str]:
    """(the branch to make, what it comes from, its commit)."""
    if job.get("pr"):
        number = int(job["pr"])
        near = (f"refs/gatepost/pull/{number}/head", f"refs/remotes/origin/pr/{number}")
        far = (f"refs/pull/{number}/head", f"refs/merge-requests/{number}/head")
        how = f"pull/{number}/head:refs/pull/{number}/head"
        commit = _first(project, near) or _fetch_from_origin(project, origin, far, f"the pull request {number}", how)
        return str(job["name"]), f"pull request {number}", commit
    if job.get("branch"):
        branch = str(job["branch"])
        near = (f"refs/remotes/source/{branch}", f"refs/remotes/origin/{branch}")
        how = f"{shlex.quote(branch)}:{shlex.quote(f'refs/remotes/origin/{branch}')}"
        commit = _first(project, near) or _fetch_from_origin(
            project, origin, (f"refs/heads/{branch}",), f"a branch {branch!r}", how
        )
        return branch, branch, commit
    base = str(job.get("base") or "") or try_git(source, "symbolic-ref", "--short", "-q", "HEAD")
    if not base:
        raise WorktreeJobError("NOT_FOUND", "the repository is on no branch; say from which one to begin")
    name = str(job["name"])
    if _first(project, (f"refs/remotes/source/{name}", f"refs/remotes/origin/{name}")):
        raise WorktreeJobError("TAKEN", f"there is a branch {name!r} already")
    named = (f"refs/remotes/origin/{base}", f"refs/remotes/source/{base}", f"refs/tags/{base}")
    commit = _first(project, named) or (_first(project, (base,)) if re.fullmatch("[0-9a-f]{7,64}", base) else "")
    if not commit:
        raise WorktreeJobError("NOT_FOUND", f"the repository has no branch {base!r} to begin from")
    return name, base, commit


def _first(project: Path, names: tuple[str, ...]) -> str:
    found = (try_git(project, "rev-parse", "-q", "--verify", f"{name}^{{commit}}") for name in names)
    return next((each for each in found if each), "")


def _fetch_from_origin(project: Path, origin: str, refs: tuple[str, ...], what: str, how: str) -> str:
    """Over the network, as far as the group's rules let it. `how` it is fetched by whoever may."""
    if not origin:
        raise WorktreeJobError("NOT_FOUND", f"neither the repository has {what}, nor an origin to ask for it")
    if not origin.lower().startswith(("http://", "https://")):
        raise WorktreeJobError(
            "NOT_FOUND",
            f"the repository does not have {what}; its origin {origin} is no http(s) address, so it was not asked;"
            f" fetch it there yourself: git fetch origin {how}",
        )
    output = ""
    for ref in refs:
        try:
            git(project, "fetch", "-q", "--no-tags", origin, f"+{ref}:refs/gatepost/fetched")
            return git(project, "rev-parse", "--verify", "refs/gatepost/fetched^{commit}")
        except WorktreeJobError as failed:
            output = str(failed)
    if "couldn't find remote ref" in output:
        raise WorktreeJobError("NOT_FOUND", f"neither the repository nor its origin has {what}")
    raise WorktreeJobError(
        "ORIGIN",
        f"the origin {origin} could not be asked: {output}; may this group reach it? `gatepost egress log` tells",
    )


def without_credentials(url: str) -> str:
    """A remote's address as agents may see it: no name, no password."""
    return re.sub(r"^([a-z+]+://)[^/?#]*@", r"\1", url.partition("?")[0], flags=re.IGNORECASE)


def _configure(project: Path, source: Path, origin: str) -> None:
    """Its own settings: who commits, and where it would push to."""
    _forget_saved(project)
    for name, usual in (("user.name", NAME), ("user.email", EMAIL)):
        git(project, "config", name, try_git(source, "config", "--get", name) or usual)
    if origin:
        git(project, "remote", "add", "origin", origin)


def _forget_saved(project: Path) -> None:
    for ref in _refs(project, "%(refname)", SAVED):
        git(project, "update-ref", "-d", ref)


def _refs(project: Path, form: str, *which: str) -> list[str]:
    return [each for each in git(project, "for-each-ref", f"--format={form}", *which).split("\n") if each]


# Working with one.


def rename(job: Job, project: Path, source: Path) -> dict[str, Any]:
    """Its branch, once: as long as it is called as it was at `first`."""
    current = try_git(project, "symbolic-ref", "--short", "-q", "HEAD")
    if not current:
        raise WorktreeJobError("NOT_GIT_REPO", "the worktree is on no branch")
    if current != job["first"]:
        raise WorktreeJobError(
            "NOT_ALLOWED", f"the branch was named already: it is {current}. Use git for any further renaming"
        )
    git(project, "branch", "-m", current, str(job["name"]))
    now = try_git(project, "symbolic-ref", "--short", "-q", "HEAD")
    if now != job["name"]:
        raise WorktreeJobError("GIT", f"git says that the branch is {now!r} now")
    return {"branch": now}


def save(job: Job, project: Path, source: Path) -> dict[str, Any]:
    """Everything that was done since it was made, committed or not, as a bundle; `left`: what is not in it."""
    out, since = Path(job["out"]), str(job["since"])
    if not try_git(project, "rev-parse", "--git-dir"):
        raise WorktreeJobError("NOT_GIT_REPO", "git finds no repository in it any more")
    _forget_saved(project)
    head = try_git(project, "rev-parse", "-q", "--verify", "HEAD^{commit}")
    tree, left = _tree_of_files(project, out / "index", head)
    if not head or tree != git(project, "rev-parse", f"{head}^{{tree}}"):
        parent = ["-p", head] if head else []
        commit = git(project, "commit-tree", tree, *parent, "-m", "What was not committed", env=_author_env(project))
        git(project, "update-ref", f"{SAVED}/uncommitted", commit)
    branch = try_git(project, "symbolic-ref", "--short", "-q", "HEAD")
    if head and not branch:
        git(project, "update-ref", f"{SAVED}/head", head)
    for number, stashed in enumerate(try_git(project, "stash", "list", "--format=%H").split()):
        git(project, "update-ref", f"{SAVED}/stash/{number}", stashed)
    refs = _list_new_refs(project, since)
    if refs:
        what = ("--stdin", "--not", *_known(project, since))
        git(project, "bundle", "create", "-q", str(out / "work.bundle"), *what, given="\n".join(refs))
    listed = [{"name": ref.removeprefix("refs/"), "commits": _new(project, ref, since)} for ref in refs[:MOST_TOLD]]
    return {"refs": listed, "many": len(refs), "branch": branch, "left": left}


def _list_new_refs(project: Path, since: str) -> list[str]:
    """Refs of what was done: those with commits of their own, and new tags, which may have words."""
    tags = [
        each.split(" ", 2) for each in _refs(project, "%(objecttype) %(objectname) %(refname)", "refs/tags", THEIRS)
    ]
    theirs = {(name.removeprefix(THEIRS), which) for _, which, name in tags if name.startswith(f"{THEIRS}/")}
    mine = [each for each in tags if each[2].startswith("refs/tags/")]
    new = [(kind, name) for kind, which, name in mine if (name.removeprefix("refs/tags"), which) not in theirs]
    heads = _refs(project, "%(refname)", f"--no-merged={since}", SAVED, "refs/heads")
    return heads + [name for kind, name in new if kind != "commit" or _new(project, name, since)]


def _new(project: Path, ref: str, since: str) -> int:
    return int(git(project, "rev-list", "--count", ref, "--not", since))


def _tree_of_files(project: Path, index: Path, head: str) -> tuple[str, str]:
    """(the files as they lie there, what could not be taken). The worktree's own index is not touched."""
    with_index, left = {"GIT_INDEX_FILE": str(index)}, ""
    git(project, "read-tree", head or "--empty", env=with_index)
    try:
        git(project, "add", "-A", "--ignore-errors", env=with_index)
    except WorktreeJobError as failed:
        left = str(failed)
    tree = git(project, "write-tree", env=with_index)
    nested = sorted(_repositories(project, tree) - (_repositories(project, head) if head else set()))
    return tree, left or (f"repositories of their own: {', '.join(nested)[:500]}" if nested else "")


def _repositories(project: Path, tree: str) -> set[str]:
    """Those inside it, of which git keeps a commit's name and nothing else."""
    listed = git(project, "ls-tree", "-r", "-z", tree).split("\0")
    return {line.partition("\t")[2] for line in listed if line.startswith("160000 ")}


def _author_env(project: Path) -> dict[str, str]:
    """Return variables that give a commit an author, even if the repository's settings name none."""
    name, email = (try_git(project, "config", "--get", f"user.{each}") for each in ("name", "email"))
    return {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", name or NAME), ("EMAIL", email or EMAIL))
    }


def _known(project: Path, since: str) -> list[str]:
    """Return what the operator's repository has already. A pull request that came over the network it may not have."""
    places = ("refs/remotes/source", "refs/remotes/origin", THEIRS)
    found = try_git(project, "for-each-ref", "--count=1", "--contains", since, *places)
    return [since] if found else ["--remotes=source", "--remotes=origin"]


def run(job: Job, project: Path, source: Path) -> dict[str, Any]:
    """The commands of a setup or teardown, in order, until one fails."""
    said: list[str] = []
    for command in job["commands"]:
        said.append(f"$ {command}")
        code, words = _run(command, project)
        said.append(words)
        if code != 0:
            said.append(f"(it failed: {code})")
            return {"ok": False, "output": "\n".join(said)[-LONGEST:]}
    return {"ok": True, "output": "\n".join(said)[-LONGEST:]}


def _run(command: str, project: Path) -> tuple[int, str]:
    """Run a command, and return its exit code and the end of its output. Processes that it leaves running are not
    waited for."""
    said = bytearray()

    def listen() -> None:
        with open(reads, "rb", buffering=0) as words:
            while part := words.read(LONGEST):
                said.extend(part)
                del said[: -2 * LONGEST]

    reads, writes = os.pipe()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=writes,
        stderr=writes,
    )
    os.close(writes)
    listening = threading.Thread(target=listen, daemon=True)
    listening.start()
    code = process.wait()
    listening.join(LINGER_S)
    return code, bytes(said).decode(errors="replace").rstrip("\n")[-LONGEST:]


TASKS: dict[str, Callable[[Job, Path, Path], dict[str, Any]]] = {
    "clone": clone,
    "rename": rename,
    "save": save,
    "run": run,
}


def main(workspace: str, project: str, source: str = "") -> None:
    os.environ.pop("LD_LIBRARY_PATH", None)  # for our own interpreter
    job = json.loads((Path(workspace) / "in" / "job.json").read_bytes())
    # Whoever owns what is looked at: here are nobody's settings or rights to be had by it.
    (Path(os.environ["HOME"]) / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
    out = Path(workspace) / "out"
    try:
        answer = TASKS[job["task"]]({**job, "out": str(out)}, Path(project), Path(source))
    except WorktreeJobError as failed:
        answer = {"code": failed.code, "error": str(failed)}
    except OSError as error:
        answer = {"code": "FAILED", "error": f"{error.filename or ''}: {error.strerror}".lstrip(": ")}
    _write_answer(out, answer)


def _write_answer(out: Path, answer: dict[str, Any]) -> None:
    """Write the answer, and replace any file that was put in its place meanwhile."""
    try:
        with tempfile.NamedTemporaryFile("w", dir=out, delete=False) as draft:
            draft.write(json.dumps(answer))
        os.replace(draft.name, out / "answer.json")
    except OSError as error:
        sys.exit(f"the answer cannot be written: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])

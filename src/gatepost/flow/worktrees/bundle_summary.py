"""The contents of a bundle, in words, and the commands by which an operator takes it in and looks at it. Pure.

Its refs come under the worktree's own name, so that two bundles never meet; none of what an agent has named gets into a
command.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gatepost.messages.text import one_line

MOST, LONGEST = 8, 100
_STASH = re.compile(r"gatepost/stash/\d+")


class BundleRef(msgspec.Struct, frozen=True):
    """A ref of a bundle, without its `refs/`, and how many commits it adds."""

    name: str
    commits: int = 0


def render_contents(held: Sequence[BundleRef], many: int) -> str:
    """`many`: how many refs there are, of which some may not have been told."""
    every = [_one(each) for each in held if not _STASH.fullmatch(each.name)]
    stashes = sum(bool(_STASH.fullmatch(each.name)) for each in held)
    if stashes:
        every.append(_count(stashes, "stash", "stashes"))
    if not any(each.name.startswith("heads/") or each.name == "gatepost/head" for each in held):
        every.insert(0, "nothing committed")
    more = len(every[MOST:]) + max(many - len(held), 0)
    return ", ".join([*every[:MOST], *([f"{more} more"] if more else [])])


def _one(each: BundleRef) -> str:
    kind, _, name = each.name.partition("/")
    if each.name == "gatepost/uncommitted":
        return "uncommitted changes"
    if each.name == "gatepost/head":
        return f"{_count(each.commits, 'commit', 'commits')} on no branch"
    shown = one_line(name)[:LONGEST]
    if kind == "tags":
        return f"the tag {shown}"
    return f"{_count(each.commits, 'commit', 'commits')} on {shown}"


def _count(many: int, one: str, several: str) -> str:
    return f"{many} {one if many == 1 else several}"


def fetch_command(bundle: Path, slug: str) -> str:
    """Without tags, which would be taken for the operator's own; what was there of an earlier bundle goes."""
    return f"git fetch --no-tags --prune {shlex.quote(str(bundle))} '+refs/*:refs/agents/{slug}/*'"


def log_command(slug: str, since: str) -> str:
    """Everything in it, however it was kept: commits, merges, what was not committed."""
    return f"git log -p --cc --glob=refs/agents/{slug} --not {shlex.quote(since[:12])}"

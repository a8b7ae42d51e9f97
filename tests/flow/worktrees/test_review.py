"""What a bundle holds, in words; and commands that nothing which an agent has named gets into."""

import shlex
from pathlib import Path

import pytest

from gatepost.flow.worktrees.review import MOST, Held, fetch_command, in_words, look_command


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ([Held("heads/fix", 1)], "1 commit on fix"),
        ([Held("heads/fix", 2), Held("heads/a/b", 1)], "2 commits on fix, 1 commit on a/b"),
        ([Held("gatepost/uncommitted", 1)], "nothing committed, uncommitted changes"),
        ([Held("gatepost/head", 3)], "3 commits on no branch"),
        ([Held("gatepost/stash/0", 2)], "nothing committed, 1 stash"),
        (
            [Held("gatepost/stash/0", 2), Held("gatepost/stash/1", 2), Held("heads/fix", 1)],
            "1 commit on fix, 2 stashes",
        ),
        ([Held("heads/fix", 1), Held("tags/v1")], "1 commit on fix, the tag v1"),
        ([Held("heads/\x1b[2Jx\ny", 1)], "1 commit on [2Jx y"),
    ],
)
def test_what_is_in_it_is_said_in_words(held: list[Held], told: str) -> None:
    assert in_words(held, len(held)) == told


def test_what_is_too_much_to_be_said_is_counted() -> None:
    held = [Held(f"heads/{number}", 1) for number in range(50)]
    assert in_words(held, 1000).endswith(f"1 commit on {MOST - 1}, {1000 - MOST} more")


def test_the_commands_are_whole_words_for_a_shell() -> None:
    fetch = shlex.split(fetch_command(Path("/a b/$(x)/fix.bundle"), "fix"))
    assert fetch == ["git", "fetch", "--no-tags", "--prune", "/a b/$(x)/fix.bundle", "+refs/*:refs/agents/fix/*"]
    assert look_command("fix", "0123456789abcdef").endswith("--glob=refs/agents/fix --not 0123456789ab")

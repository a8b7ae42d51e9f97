"""What a job's sandbox sees: the worktree, and nothing that the group owns. What lies in a worktree decides what
git runs there, so an agent of one group must gain nothing by having it run for another."""

from pathlib import Path

import pytest

from gatepost_testing.repositories import commit

from .worktree_desk import BY, a_gateway, make, needs_bwrap, shop

__all__ = ["shop"]  # a fixture

FILTER = """[filter "x"]
\tclean = "ls -A /workspace/agent /run/gatepost > seen; echo mine > /workspace/agent/planted; cat"
"""


@needs_bwrap
async def test_what_git_runs_in_a_worktree_reaches_nothing_of_its_group(shop: Path) -> None:
    async with a_gateway(shop) as desk:
        made = await make(desk.gateway, shop)
        place, group = desk.gateway.worktrees.path(made), desk.gateway.home.group("agents")
        (group / "diary").write_text("the group's own")
        with (place / ".git" / "config").open("a") as config:
            config.write(FILTER)
        (place / ".gitattributes").write_text("* filter=x\n")
        (place / "new").write_text("something to clean")
        await desk.gateway.worktrees.save(made.name, BY)
        assert (place / "seen").read_text().split() == ["/run/gatepost:", "/workspace/agent:"], (
            "it ran, and saw nothing"
        )
        assert not (group / "planted").exists()


@pytest.mark.slow
@needs_bwrap
async def test_nor_does_a_setup(shop: Path) -> None:
    commit(shop, ".gatepost.toml", "[worktree]\nsetup = ['ls -A /workspace/agent', 'echo x > /workspace/agent/y']")
    async with a_gateway(shop) as desk:
        made = await make(desk.gateway, shop)
        (desk.gateway.home.group("agents") / "diary").write_text("the group's own")
        told = await desk.gateway.worktrees.trust(made.name, BY)
        assert told.setup_state == "failed" and "diary" not in told.setup_output
        assert not (desk.gateway.home.group("agents") / "y").exists()

"""Copies of repositories that agents work in."""

from gatepost.core.settings import setting

LIMIT_S = setting("worktrees.limit_s", 600.0, help="How long git or a setup may take in a worktree, in seconds.")

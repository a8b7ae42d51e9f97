"""The slash commands of an app on Slack. Its manifest names them, so that people give them; no API call does."""

import json
from collections.abc import Iterable

from gatepost.channels.contract import NativeCommand
from gatepost.channels.kit.native_commands import CommandRules, ShownCommand, fit_commands

# Slack's own commands: slack.com/help, "Use built-in slash commands". An app's command of such a name
# would never be reached, or would hide Slack's.
_BUILT_IN = (
    "active apps archive away call canvas collapse close dm dnd expand feed feedback huddle invite join kick leave list"
    " me msg mute open part prefs remind remove rename search share shortcuts shrug star status topic who"
)
RULES = CommandRules(
    name=r"[a-z0-9_-]{1,31}",  # 32 with the slash
    longest_help=2000,
    most=50,
    reserved=frozenset(_BUILT_IN.split()),
    prefix="agent-",
)


def fit_slash_commands(commands: Iterable[NativeCommand]) -> tuple[ShownCommand, ...]:
    return fit_commands(commands, RULES)


def make_slash_commands(commands: Iterable[NativeCommand]) -> list[dict[str, object]]:
    """Return `features.slash_commands` of the manifest. `should_escape` is off: people and rooms stay as typed."""
    return [
        {
            "command": f"/{each.shown}",
            "description": each.help,
            **({"usage_hint": each.usage} if each.usage else {}),
            "should_escape": False,
        }
        for each in fit_slash_commands(commands)
    ]


def render_slash_commands(commands: Iterable[NativeCommand]) -> str:
    """The same as YAML, a line for each."""
    return "".join(f"    - {json.dumps(each, ensure_ascii=False)}\n" for each in make_slash_commands(commands))

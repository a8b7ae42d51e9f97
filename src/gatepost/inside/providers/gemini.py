"""gemini: Google's Gemini CLI, through the Agent Client Protocol. It is a Node program, and asks Google's own API."""

import glob
from collections.abc import Mapping
from typing import ClassVar

from gatepost.inside.acp.agent import AcpAgent
from gatepost.inside.providers.contract import Mode, provider

SETTINGS = b'{"privacy": {"usageStatisticsEnabled": false}}'  # it would call its maker with each turn
NEVER = "1970-01-01T00-00"  # a minute in which no program starts


@provider(
    "gemini",
    title="Gemini CLI",
    programs=("gemini", "node"),
    env={
        "GEMINI_CLI_NO_RELAUNCH": "true",  # else its end leaves a child behind
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    },
    modes=(Mode("allow", "Allow", "Never asks; the sandbox is the wall."), Mode("ask", "Ask", "Asks before it acts.")),
    options=("mode", "own_mcp", "outage", "command", "agent", "env", "permissions", "instructions", "auth", "patience"),
    mode_option="permissions",
    media={"image": "block", "audio": "both"},
    mcp_client={"file": ".gemini/settings.json"},
    vendor="google",
    model="gemini-3.8-flash",
    package="@google/gemini-cli",
)
class Gemini(AcpAgent):
    REPLAY_PAUSE: ClassVar[float] = 0.3

    def _get_command(self) -> str:
        return "gemini --acp"

    def _get_variables(self, egress: Mapping[str, str]) -> dict[str, str]:
        settings = self._home / ".gemini" / "system.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_bytes(SETTINGS)
        return {
            "GEMINI_MODEL": self._place.model or self.spec.model,
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(settings),
        }

    def _prepare_to_load(self, conversation: str) -> None:
        """Rename the stored conversation.

        A start of the program begins a file that is named by the minute and the conversation, before it loads the one
        that there is. In one minute both have the same name, and the conversation is lost.
        """
        files = [*self._home.glob(f".gemini/tmp/*/chats/session-*-{glob.escape(conversation[:8])}.jsonl")]
        if files:
            stored = max(files, key=lambda each: each.stat().st_size)
            kept = stored.with_name(f"session-{NEVER}-{conversation[:8]}.jsonl")
            if not kept.exists():
                stored.rename(kept)

"""acp: any agent that speaks the Agent Client Protocol on its stdin and stdout, started by a command of the group's."""

from gatepost.inside.acp.agent import AcpAgent
from gatepost.inside.providers.contract import Mode, provider

READERS = frozenset({"opencode"})  # they read AGENTS.md where they are started


@provider(
    "acp",
    title="any agent that speaks ACP",
    modes=(Mode("allow", "Allow", "Never asks; the sandbox is the wall."), Mode("ask", "Ask", "Asks before it acts.")),
    mode_option="permissions",
    media={"image": "block", "audio": "both"},  # the agent says which blocks it takes
    vendor="anthropic",
    any_vendor=True,
    command_options=("command",),
)
class Acp(AcpAgent):
    def _reads_agents_file(self) -> bool:
        return self._program in READERS

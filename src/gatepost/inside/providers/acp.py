"""acp: any agent that speaks the Agent Client Protocol on its stdin and stdout, by its command or by its name."""

from gatepost.inside.acp.agent import AcpAgent
from gatepost.inside.providers.contract import Misconfigured, Mode, provider

READERS = frozenset({"opencode"})  # they read AGENTS.md where they are started
# By their names in the ACP registry (github.com/agentclientprotocol/registry): how an installed one is started.
AGENTS = {
    "auggie": "auggie --acp",
    "claude-acp": "claude-agent-acp",
    "codex-acp": "codex-acp",
    "cursor": "cursor-agent acp",
    "gemini": "gemini --acp",
    "github-copilot-cli": "copilot --acp",
    "goose": "goose acp",
    "kimi": "kimi acp",
    "mistral-vibe": "vibe-acp",
    "opencode": "opencode acp",
    "qwen-code": "qwen --acp",
}
NO_COMMAND = (
    "the provider acp has no agent: name the command that starts one,"
    ' `gatepost group set FOLDER options.command="opencode acp"`, or `options.agent=NAME`'
)


@provider(
    "acp",
    title="any agent that speaks ACP",
    modes=(Mode("allow", "Allow", "Never asks; the sandbox is the wall."), Mode("ask", "Ask", "Asks before it acts.")),
    options=("mode", "own_mcp", "outage", "command", "agent", "env", "permissions", "instructions", "auth", "patience"),
    mode_option="permissions",
    media={"image": "block", "audio": "both"},  # the agent says which blocks it takes
    vendor="anthropic",
    any_vendor=True,
    command_options=("command", "agent"),
)
class Acp(AcpAgent):
    def _get_command(self) -> str:
        name = self._options.agent
        if not name:
            raise Misconfigured(NO_COMMAND)
        if name not in AGENTS:
            raise Misconfigured(f"no agent {name!r} is known; give its command, or one of {', '.join(AGENTS)}")
        return AGENTS[name]

    def _reads_agents_file(self) -> bool:
        return self._program in READERS

"""gemini: Google's Gemini CLI, through the Agent Client Protocol.

Google is no vendor of the way out: the operator allows the host and binds the key to it. Budgets do not see its cost.
"""

from collections.abc import Mapping

from gatepost.inside.acp.agent import AcpAgent
from gatepost.inside.providers.contract import Mode, provider

HOST = "generativelanguage.googleapis.com"


@provider(
    "gemini",
    title="Gemini CLI",
    programs=("gemini",),
    env={
        "GEMINI_API_KEY": "gatepost",  # a placeholder: the way out adds the real one
        "GEMINI_CLI_NO_RELAUNCH": "true",  # else its end leaves a child behind
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    },
    modes=(Mode("allow", "Allow", "Never asks; the sandbox is the wall."), Mode("ask", "Ask", "Asks before it acts.")),
    options=("mode", "own_mcp", "outage", "command", "agent", "env", "permissions", "instructions", "auth", "patience"),
    mode_option="permissions",
    media={"image": "block", "audio": "both"},
    mcp_client={"file": ".gemini/settings.json"},
)
class Gemini(AcpAgent):
    def _get_command(self) -> str:
        return "gemini --acp"

    def _get_variables(self, egress: Mapping[str, str]) -> dict[str, str]:
        model = {"GEMINI_MODEL": self._place.model} if self._place.model else {}
        return {"GOOGLE_GEMINI_BASE_URL": f"{egress.get('GATEPOST_TO', 'https:/')}/{HOST}", **model}

"""goose: the open source agent, through the Agent Client Protocol. It asks the endpoint that its model's name says."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from gatepost.inside.acp.agent import AcpAgent
from gatepost.inside.providers.contract import Mode, provider


@provider(
    "goose",
    title="goose",
    programs=("goose",),
    env={"GOOSE_DISABLE_KEYRING": "1", "CONTEXT_FILE_NAMES": '[".goosehints"]'},  # AGENTS.md is told to it
    modes=(Mode("allow", "Allow", "Never asks; the sandbox is the wall."), Mode("ask", "Ask", "Asks before it acts.")),
    options=("mode", "own_mcp", "outage", "command", "agent", "env", "permissions", "instructions", "auth", "patience"),
    mode_option="permissions",
    media={"image": "block", "audio": "both"},
    vendor="openai",
    any_vendor=True,
    model="gpt-5-mini",
)
class Goose(AcpAgent):
    def _get_command(self) -> str:
        return "goose acp"

    def _get_variables(self, egress: Mapping[str, str]) -> dict[str, str]:
        model = self._place.model or self.spec.model
        base = urlsplit(egress.get("OPENAI_BASE_URL", ""))
        return {
            "GOOSE_PROVIDER": "anthropic" if model.startswith("claude") else "openai",
            "GOOSE_MODEL": model,
            "GOOSE_MODE": "auto" if self._options.permissions == "allow" else "approve",
            "ANTHROPIC_HOST": egress.get("ANTHROPIC_BASE_URL", ""),
            "OPENAI_HOST": f"{base.scheme}://{base.netloc}",
            "OPENAI_BASE_PATH": f"{base.path.strip('/')}/chat/completions",
        }

"""Matrix for tests with a Synapse of its own, to which the bot comes by TLS and with its password."""

from typing import Any

from gatepost_testing.certificates import ThrowawayAuthority
from gatepost_testing.servers.matrix_server import PASSWORD, MatrixServer
from gatepost_testing.servers.synapse import SERVER_NAME, Synapse, is_installed

__all__ = ["SynapsePlatform", "is_installed"]
HOST = "localhost"


class SynapsePlatform(MatrixServer):
    """Nothing stands between the bot and the server: of the faults there is only `crash`."""

    def __init__(self, authority: ThrowawayAuthority) -> None:
        super().__init__()
        self._authority = authority
        self._synapse: Synapse | None = None

    @property
    def synapse(self) -> Synapse:
        assert self._synapse is not None
        return self._synapse

    def find_homeserver(self) -> str:
        if self._synapse is None:
            self._synapse = Synapse(self._authority.sign(HOST))
        return self.synapse.url

    def stop(self) -> None:
        super().stop()
        self.synapse.stop()

    def get_settings(self) -> dict[str, Any]:
        return {
            **super().get_settings(),
            "api_url": f"https://{HOST}:{self.synapse.tls_port}",
            "user": f"@bot-{self._mark}:{SERVER_NAME}",
            "ca_file": str(self._authority.ca_file),
        }

    def get_secrets(self) -> dict[str, str]:
        return {"password": PASSWORD}

    def crash(self) -> None:
        self.synapse.kill()

    def come_back(self) -> None:
        self.synapse.start_again()
        self.synapse.wait_until_up()

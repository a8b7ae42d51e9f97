"""A real Prometheus on loopback: Debian's package. It keeps what it scrapes in a folder that goes with it."""

import json
import urllib.error
import urllib.parse
import urllib.request
from types import TracebackType
from typing import Any

from gatepost_testing.servers.server_process import ServerProcess, find_ports, find_server
from gatepost_testing.waiting import PATIENCE_S

PACKAGE = "prometheus"

Series = list[tuple[dict[str, str], float]]  # labels and value


def find_prometheus() -> str | None:
    return find_server("prometheus")


def find_promtool() -> str | None:
    return find_server("promtool")


class PrometheusServer(ServerProcess):
    """`with PrometheusServer(config) as prometheus: prometheus.query("up")`. `config`: as its file has it."""

    def __init__(self, config: str) -> None:
        super().__init__("Prometheus")
        (self.folder / "prometheus.yml").write_text(config, encoding="utf-8")
        (self.port,) = find_ports(1)

    def __enter__(self) -> "PrometheusServer":
        program = find_prometheus()
        assert program is not None
        self.launch(
            [
                program,
                f"--config.file={self.folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self.folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            [self.port],
        )
        self.wait_until_up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def query(self, expression: str) -> Series:
        """Ask for the value of an expression now. Raise AssertionError with the reason if it is none."""
        found = self.ask("query", query=expression)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def ask(self, path: str, **given: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(given)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{given}: {error.read().decode(errors='replace')}") from None

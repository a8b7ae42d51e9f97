"""The doctor's question to the receiver of traces: is it there, and does it take spans? It is sent none."""

from collections.abc import Iterator

from gatepost.core.errors import SetupError
from gatepost.core.settings import Config
from gatepost.serve.health.findings import Finding
from gatepost.serve.telemetry import otlp
from gatepost.serve.telemetry.otlp import ENDPOINT, ExportOutcome, OtlpClient

PROBE_S = 5.0


def check_telemetry(config: Config) -> Iterator[Finding]:
    """Nothing, if traces are off."""
    try:
        url = otlp.get_url(config)
        if not url:
            return
        otlp.check_installed()
    except SetupError as error:
        yield Finding("fail", "telemetry", str(error), f"mend it, or unset {ENDPOINT.name}")
        return
    result = OtlpClient(url, otlp.read_headers(), PROBE_S).send([])
    if result.outcome is ExportOutcome.SENT:
        yield Finding("ok", "telemetry", f"{url} takes traces")
        return
    remedy = f"start it, or mend {ENDPOINT.name}; meanwhile messages go on, and traces wait"
    yield Finding("warn", "telemetry", f"{url} takes no traces: {result.reason}", remedy)

"""The doctor by operation: what it prints is read within bounds, and one run serves everybody."""

import asyncio
import json

import pytest

from gatepost.core.errors import Unavailable
from gatepost.core.home import Home
from gatepost.serve.control.operations.gateways import DoctorRuns, parse_report
from gatepost_testing.clock import FixedClock


def test_the_worst_comes_first() -> None:
    found = [{"level": level, "subject": level, "text": "x"} for level in ("ok", "warn", "fail", "note")]
    report = parse_report(json.dumps({"ok": False, "findings": found}).encode())
    assert [each.level for each in report.findings] == ["fail", "warn", "note", "ok"]


@pytest.mark.parametrize(
    "printed", [b"", b"Traceback", b'{"ok": true}', b'{"ok": true, "findings": [{"level": "odd"}]}']
)
def test_what_is_no_report_says_what_to_do(printed: bytes) -> None:
    with pytest.raises(Unavailable, match="run `gatepost doctor`"):
        parse_report(printed)


@pytest.mark.slow
async def test_one_run_of_the_real_command_serves_everybody_who_asks(home: Home) -> None:
    runs = DoctorRuns(home, FixedClock())
    first, second = await asyncio.gather(runs.get_report(False), runs.get_report(True))
    assert first is second and {"python", "settings", "sandbox"} <= {each.subject for each in first.findings}
    assert await runs.get_report(False) is first

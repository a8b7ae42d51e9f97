"""Nothing gets out: a table of attempts, all made by an agent in a session of a whole gateway, with the gateway as root
and as an ordinary user, in bubblewrap; and the same table in a container.

In `escapes/`: the table, what runs inside, and the gateway around it. One gateway is started for each kind.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatepost.core.settings import Config
from gatepost.sandboxes.bubblewrap import find_bwrap
from gatepost.sandboxes.contract import trouble_of
from gatepost.sandboxes.podman import Podman

from .escapes.attempt import Attempt
from .escapes.table import ATTEMPTS, OPEN
from .test_walls import ORDINARY, opened_for

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "security.md"
NUMBERED = [(number, each.name, each.program) for number, each in enumerate(ATTEMPTS)]
# The open ways first: what is planted later may close them.
PROGRAMS = [*((1000 + number, *each) for number, each in enumerate(OPEN.items())), *NUMBERED]


@pytest.fixture(
    scope="module",
    params=[
        "root in bubblewrap",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("ordinary in bubblewrap", "root in podman")),
    ],
)
def found(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    who, _, kind = str(request.param).split(" ")
    _skip_unless_possible(who, kind)
    uid = os.geteuid() if who == "root" or os.geteuid() != 0 else ORDINARY
    home = Path(tempfile.mkdtemp(prefix="escapes-"))
    home.chmod(0o711)
    os.chown(home, uid, uid)
    given = {
        "home": str(home / "h"),
        "kind": kind,
        "inside": (HERE / "escapes" / "inside.py").read_text(),
        "attempts": PROGRAMS,
        "abstract": f"gatepost-escape-{os.getpid()}-{who}-{kind}",
    }
    prefix = opened_for(uid) if uid == ORDINARY and os.geteuid() == 0 else []
    try:
        ran = subprocess.run(
            [*prefix, sys.executable, "-c", (HERE / "escapes" / "host.py").read_text()],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
            cwd="/",
            env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        )
        assert ran.returncode == 0, ran.stderr[-4000:]
        report: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        assert "broken" not in report["attempts"], report["attempts"]
        yield report | {"kind": kind}
    finally:
        shutil.rmtree(home)


def _skip_unless_possible(who: str, kind: str) -> None:
    if who == "root" and os.geteuid() != 0:
        pytest.skip("the gateway as root: these tests do not run as root")
    if kind == "bubblewrap" and find_bwrap() is None:
        pytest.skip("bubblewrap is not installed: apt install bubblewrap")
    if kind == "podman" and (trouble := trouble_of(Podman(Config()))) is not None:
        pytest.skip(f"podman: {trouble}")


def test_nothing_gets_out(found: dict[str, Any]) -> None:
    """One test, so that everything is tried once however many processes share the tests; -s shows every verdict."""
    wrong = {}
    for number, attempt in enumerate(ATTEMPTS):
        verdict = judge(found, number, attempt)
        wrong |= {attempt.name: verdict} if verdict else {}
        met = verdict or found["attempts"][attempt.name]["met"][:100]
        print("OUT " if verdict else "held", f"{attempt.name}: {met}")  # noqa: T201
    assert wrong == {}
    assert [name for name in OPEN if not found["attempts"][name]["got"]] == [], "else what is held means nothing"
    assert found["told"] == found["said"] == [], "the key and the secrets are told to nobody"
    assert found["put_in"] == [True, False] and found["sent_files"] > 0
    check_the_hosts_places(found)
    assert found["unaccounted"] == 0


def judge(found: dict[str, Any], number: int, attempt: Attempt) -> str:
    """Return what is wrong; '' if the attempt was held, and recorded where it must be."""
    if found["kind"] == "podman" and not attempt.containers:
        return ""
    came = found["attempts"][attempt.name]
    mark = f"mark-{number}-{found['run']}"
    seen = [place for place, heard in found["heard"].items() if mark in heard]
    if "broken" in came or came["got"] or seen:
        return f"{came.get('broken', '')} {came['got']} {seen}".strip()
    unwritten = set(came["reasons"]) - set(found["denied"])
    return f"not recorded: {unwritten}" if unwritten or (attempt.recorded and not came["reasons"]) else ""


def check_the_hosts_places(found: dict[str, Any]) -> None:
    """Nobody came where nobody may, and what is the host's own is as it was."""
    assert found["heard"]["denied"] == found["abstract"] == ""
    paths = set(re.findall(r"^(?:GET|POST) (\S+) HTTP", found["heard"]["vendor"], re.MULTILINE))
    assert paths == {"/v1/messages", "/v1/chat/completions", "/v1/responses"}
    assert not {"denied.test", "nobody.test"} & set(found["looked_up"])
    before, after = found["own"]
    assert before == after, "also no marker, which only a program run by the host could leave"
    assert found["setuid"] == []
    assert found["kid"] and not any("echo" in text for text in found["kid"]), "told, and not run in the host's folder"
    assert found["audited"] == len(found["denied"])


def test_the_page_lists_what_was_tried() -> None:
    text = PAGE.read_text()
    _, _, section = text.partition("## What was tried")
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section.partition("\n## ")[0], re.MULTILINE)
    assert rows[1:] == [(each.name, each.held_by) for each in ATTEMPTS]

"""The grades of every channel that has an emulator: a fresh run of the suite is as `docs/channel-grades.json` says, and
what the suite found is what the channel declares."""

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from gatepost.channels.contract import CHANNELS
from gatepost.core import registry
from gatepost.messages.inbound import Verb
from gatepost.messages.outbound import Feature
from gatepost_testing.channel_suite import GradeState, list_checks, list_failures, run_suite
from gatepost_testing.emulation import SERVERS, TOY, list_emulators, make_platform
from gatepost_testing.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]
WRITTEN: dict[str, dict[str, str]] = json.loads((ROOT / "docs" / "channel-grades.json").read_text(encoding="utf-8"))
STORED = {  # without the notes
    kind: {check: state.partition(":")[0] for check, state in grades.items()} for kind, grades in WRITTEN.items()
}
AT_ONCE = 3
registry.load_package("gatepost.channels")
KINDS = [kind for kind in list_emulators() if kind != TOY]
GRADED = sorted(STORED)
# The check that shows a feature or a verb. Others are no single thing: KEYED and LOOKUP, what is passed on.
FEATURES = {
    Feature.EDIT: "edits out",
    Feature.DELETE: "deletes out",
    Feature.REACT: "reactions out",
    Feature.REPLY: "replies out",
    Feature.FILES: "files out",
    Feature.THREADS: "threads out",
    Feature.TYPING: "typing",
    Feature.PIN: "pins",
    Feature.UNPIN_ALL: "all pins removed",
    Feature.CARDS: "cards",
    Feature.POST: "posts",
    Feature.VOICE: "voice",
    Feature.PANE: "panes",
    Feature.DIRECT: "direct rooms",
    Feature.HISTORY: "history",
    Feature.SUBSCRIBE: "subscribing",
}
VERBS = {
    Verb.EDIT: "edits in",
    Verb.DELETE: "deletes in",
    Verb.LIKE: "reactions in",
    Verb.JOIN: "joins",
    Verb.MENTION: "mentions",
}


def test_every_emulated_channel_has_its_grades() -> None:
    assert set(KINDS) <= set(STORED) <= {*KINDS, *SERVERS}
    names = {name for _, name, _ in list_checks()}
    assert all(set(grades) == names for grades in STORED.values())


@pytest.mark.parametrize("kind", GRADED)
def test_nothing_failed(kind: str) -> None:
    assert [check for check, state in STORED[kind].items() if state == GradeState.FAIL] == []


@pytest.mark.parametrize("kind", GRADED)
def test_what_is_declared_is_what_the_suite_found(kind: str) -> None:
    grades, declared = STORED[kind], CHANNELS[kind]
    passed = {feature for feature, check in FEATURES.items() if grades[check] == GradeState.PASS}
    untried = {feature for feature, check in FEATURES.items() if grades[check] == GradeState.NOT_TRIED}
    assert passed | untried >= declared.features & set(FEATURES) >= passed
    received = {verb for verb, check in VERBS.items() if grades[check] == GradeState.PASS}
    untried_verbs = {verb for verb, check in VERBS.items() if grades[check] == GradeState.NOT_TRIED}
    assert received | untried_verbs >= declared.verbs & set(VERBS) >= received


@pytest.mark.slow
@pytest.mark.timeout(900)  # more than fifty checks, each with people of its own on a real server
@pytest.mark.parametrize("kind", GRADED)
def test_a_fresh_run_is_as_written_down(kind: str, figures: Callable[[str], None]) -> None:
    grades = asyncio.run(run_suite(lambda: make_platform(kind), patience=PATIENCE_S, at_once=AT_ONCE))
    counts = Counter(each.state for each in grades)
    figures(f"{kind}: " + ", ".join(f"{counts[state]} {state}" for state in GradeState if counts[state]))
    assert list_failures(grades) == []
    assert {each.check: each.state for each in grades} == STORED[kind], "make grades writes them down anew"


@pytest.mark.slow
def test_the_grade_table_is_shown(figures: Callable[[str], None]) -> None:
    """The test above compares it with a fresh run."""
    page = (ROOT / "docs" / "channels.md").read_text(encoding="utf-8")
    table = page.partition("<!-- grades: ")[2].partition("<!-- end of grades")[0].splitlines()[1:]
    for line in table:
        figures(line)
    assert len(table) > len(list_checks())


@pytest.mark.slow
def test_the_documented_test_of_the_toy_passes_as_it_is_printed(tmp_path: Path) -> None:
    for name in ("toy.py", "test_toy.py"):
        text = (ROOT / "docs" / "extend" / "examples" / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(tmp_path), "test_toy.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=2 * PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr

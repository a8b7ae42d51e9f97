"""The suite that grades any channel, by an emulated platform (or a real one that looks like it to a test).

    grades = await run_suite(ToyPlatform)
    assert list_failures(grades) == []

A check is a function `check_…` of a file in `checks/`, with a sentence for a docstring; the folder is listed. Each
check gets a platform and a channel of its own. Send nothing else to a platform while it runs.
"""

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from gatepost.core.errors import NotFound
from gatepost_testing.channel_suite import checks
from gatepost_testing.channel_suite.trial import PATIENCE_S, trying
from gatepost_testing.grading import (
    Grade,
    GradeState,
    SuiteCheck,
    grade_check,
    is_noted,
    list_failures,
    load_checks,
    render_notes,
    render_table,
)
from gatepost_testing.platforms.base import EmulatedPlatform

__all__ = [
    "Grade",
    "GradeState",
    "is_noted",
    "list_checks",
    "list_failures",
    "render_notes",
    "render_table",
    "run_suite",
]

AT_ONCE = 6  # checks mostly wait


def list_checks() -> list[tuple[str, str, SuiteCheck]]:
    """(area, name, function), in the order of files and of lines."""
    return load_checks(checks)


async def run_suite(
    make_platform: Callable[[], EmulatedPlatform],
    *,
    only: Collection[str] = (),
    patience: float = PATIENCE_S,
    at_once: int = AT_ONCE,
) -> list[Grade]:
    """Grade the channel of this platform's kind. `only`: names of checks. `patience`: how long one step of a check may
    take. `at_once`: how many checks run beside each other; 1 for a server that all of them share."""
    wanted = [each for each in list_checks() if not only or each[1] in only]
    unknown = set(only) - {name for _, name, _ in wanted}
    if unknown:
        raise NotFound("check", ", ".join(sorted(unknown)), "`list_checks` lists them")
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(at_once, "suite") as pool:
        jobs = [loop.run_in_executor(pool, _run, *each, make_platform, patience) for each in wanted]
        return list(await asyncio.gather(*jobs))


def _run(
    area: str, name: str, check: SuiteCheck, make_platform: Callable[[], EmulatedPlatform], patience: float
) -> Grade:
    """In a loop of its own, so that the tasks of one check are known from those of another."""
    return asyncio.run(grade_check(area, name, _try(check, make_platform, patience)))


async def _try(check: SuiteCheck, make_platform: Callable[[], EmulatedPlatform], patience: float) -> str:
    """Return the note to its pass."""
    async with trying(make_platform, patience) as trial:
        await check(trial)
        return trial.note

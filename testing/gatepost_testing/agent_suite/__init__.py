"""The suite that grades any provider: the real program in a real sandbox, with a model that plays a script.

    grades = await run_agent_suite(COLUMNS["claude"])
    assert list_failures(grades) == []

A check is a function `check_…` of a file in `checks/`, as `gatepost_testing.grading` says. Each gets an endpoint and a
home of its own.
"""

import asyncio
from collections.abc import Collection, Mapping

from gatepost.core.errors import NotFound
from gatepost_testing.agent_profiles import AGENTS, WHY, AgentProfile
from gatepost_testing.agent_suite import checks
from gatepost_testing.agent_suite.trial import try_agent
from gatepost_testing.grading import CheckImpossible, Grade, SuiteCheck, grade_check, load_checks

# What is graded: every agent, a small local model, and a program that the other tests leave out.
COLUMNS: Mapping[str, AgentProfile] = {
    **AGENTS,
    "openai 8k": AgentProfile("openai", "plum-7b", other_model="pear-7b", window=8192),
    "gemini": AgentProfile(
        "gemini",
        "gemini-2.5-flash",
        ("run_shell_command", "command", WHY),
        other_model="gemini-2.5-pro",
        pushes=False,
        program="gemini",
        slow=True,
        tool="mcp_gatepost_{}",
        short_patience={"outage": 3.0},
        shortens=False,
    ),
}
AT_ONCE = 2  # checks run programs, and wait


def list_checks() -> list[tuple[str, str, SuiteCheck]]:
    """(area, name, function), in the order of files and of lines."""
    return load_checks(checks)


async def run_agent_suite(agent: AgentProfile, *, only: Collection[str] = (), at_once: int = AT_ONCE) -> list[Grade]:
    """Grade a provider. `only`: names of checks; `at_once`: how many run beside each other."""
    wanted = [each for each in list_checks() if not only or each[1] in only]
    unknown = set(only) - {name for _, name, _ in wanted}
    if unknown:
        raise NotFound("check", ", ".join(sorted(unknown)), "`list_checks` lists them")
    places = asyncio.Semaphore(at_once)

    async def run(area: str, name: str, check: SuiteCheck) -> Grade:
        async with places:
            return await grade_check(area, name, _try(agent, check))

    return list(await asyncio.gather(*(run(*each) for each in wanted)))


async def _try(agent: AgentProfile, check: SuiteCheck) -> str:
    """Return the note to its pass."""
    if agent.missing:
        raise CheckImpossible(agent.missing)
    async with try_agent(agent) as trial:
        await check(trial)
        return trial.note

"""Running the measuring client, and the shape of a figure."""

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gatepost.core.records import asdict

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Figure:
    """`limit` is what the bare machine does in the same run (or a fixed bound), `ratio` how far we are from it; `goal`
    is what we set out to reach, as a value or as a ratio."""

    name: str
    value: float
    unit: str
    limit: float
    ratio: float
    goal: str
    reached: bool

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def at_most(name: str, value: float, unit: str, limit: float, goal: float) -> Figure:
    """Good if the value is small enough."""
    return Figure(
        name, round(value, 3), unit, round(limit, 3), round(value / limit, 2), f"≤ {goal:g} {unit}", value <= goal
    )


def at_least(name: str, value: float, unit: str, limit: float, goal: float) -> Figure:
    """Good if the value is large enough."""
    return Figure(
        name, round(value, 2), unit, round(limit, 2), round(value / limit, 3), f"≥ {goal:g} {unit}", value >= goal
    )


def within(name: str, value: float, unit: str, limit: float, times: float) -> Figure:
    """Good if it is not more than so many times the bare limit."""
    return Figure(
        name,
        round(value, 1),
        unit,
        round(limit, 1),
        round(value / limit, 2),
        f"≤ {times:g} × limit",
        value <= limit * times,
    )


def all_of(name: str, value: int, wanted: int) -> Figure:
    """Good if none is missing."""
    return Figure(name, value, "", wanted, value / wanted, f"= {wanted}", value == wanted)


def table(found: list[Figure]) -> str:
    """Each figure with its goal and the verdict, and a line that counts."""
    head = f"{'figure':<24}{'value':>12} {'unit':<4}{'bare limit':>12}{'ratio':>9}   {'goal':<14}verdict"
    lines = [head, "-" * len(head)]
    for each in found:
        numbers = f"{each.value:>12,.2f} {each.unit:<4}{each.limit:>12,.2f}{each.ratio:>9.2f}"
        lines.append(f"{each.name:<24}{numbers}   {each.goal:<14}{'✓' if each.reached else '✗ not reached'}")
    missed = [each.name for each in found if not each.reached]
    lines.append(
        f"{len(found) - len(missed)} of {len(found)} goals are reached" + "".join(f"; not {each}" for each in missed)
    )
    return "\n".join(lines)


async def client(target: list[str], before: list[str], message: str, calls: int) -> dict[str, float]:
    """Run the client in a process of its own while this loop serves."""
    order = json.dumps({"target": target, "before": before, "message": message, "calls": calls})
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", str(HERE / "client.py"), order, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await child.communicate()
    if child.returncode != 0:
        raise RuntimeError("the measuring client failed")
    answer: dict[str, float] = json.loads(printed)
    return answer

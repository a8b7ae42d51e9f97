"""dice: a tool for games. Put this file into `plugins/tools/` of the home; every group has it from the next start."""

import secrets
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from gatepost.access.tiers import Tier
from gatepost.tools.call import ToolCall
from gatepost.tools.contract import tool


@dataclass(frozen=True, slots=True)
class Rolled:
    faces: list[int]
    total: int


@tool(tier=Tier.WORKER, group="games", read_only=True)
async def roll_dice(
    call: ToolCall,
    dice: Annotated[int, Meta(ge=1, le=100, description="How many dice.")] = 1,
    sides: Annotated[int, Meta(ge=2, le=1000, description="How many sides each of them has.")] = 6,
) -> Rolled:
    """Roll dice and tell the faces: whenever chance must decide and everybody should trust the result.

    You cannot make up a fair number yourself. To choose among things, roll one die with as many sides.
    """
    faces = [secrets.randbelow(sides) + 1 for _ in range(dice)]
    return Rolled(faces, sum(faces))

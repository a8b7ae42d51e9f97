"""Costs that a declared tool adds to a model call beyond its bytes. One is the vendor's own text about the tool. If the
vendor runs it, each use has a fee and adds text to the prompt, which is read again.

The bound is what may be billed, not what is likely. A tool that the vendor runs and that is not listed here, nor priced
in the operator's file (`prices.file`, under `["tool:its_type"]`), is refused: nobody could say what it spends.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from gatepost.egress.prompt_sizes import WINDOW

MICRO = 1_000_000
ANY_TOOL = 1_000  # tokens that vendors say about tools as such, once


class ToolCost(Struct, frozen=True, kw_only=True):
    """Fees in millionths of a USD."""

    declared: int = 0  # tokens of the vendor's text about it
    use: int = 0  # fee of one use
    once: int = 0  # fee of a call in which it may be used, such as for a container
    uses: int = 0  # at most in one call; 0: it runs with the agent
    tokens: int = 0  # that one use brings into the prompt


ToolCosts = Callable[[str], ToolCost | None]

# As vendors list them, the higher one where accounts differ (checked on 2026-11-15); what no list says is estimated.
SHIPPED: Mapping[str, ToolCost] = {
    # They run with the agent.
    "bash": ToolCost(declared=1_000),
    "text_editor": ToolCost(declared=2_000),
    "computer": ToolCost(declared=3_000),
    "memory": ToolCost(declared=2_000),
    "tool_search_tool": ToolCost(declared=2_000),
    "local_shell": ToolCost(declared=1_000),
    "apply_patch": ToolCost(declared=2_000),
    "tool_search": ToolCost(declared=2_000),
    # The vendor runs them.
    "web_search": ToolCost(declared=3_000, use=MICRO // 40, uses=5, tokens=25_000),
    "web_search_options": ToolCost(declared=3_000, use=MICRO // 20, uses=1, tokens=25_000),
    "web_fetch": ToolCost(declared=3_000, uses=5, tokens=25_000),
    "code_execution": ToolCost(declared=5_000, once=MICRO // 20, uses=10, tokens=10_000),
    "code_interpreter": ToolCost(declared=3_000, once=MICRO * 3 // 100, uses=10, tokens=10_000),
    "file_search": ToolCost(declared=3_000, use=MICRO // 400, uses=5, tokens=25_000),
    "image_generation": ToolCost(declared=3_000, use=MICRO // 2, uses=1, tokens=10_000),
    "mcp": ToolCost(declared=10_000, uses=10, tokens=25_000),
}


def find_family(kind: str, known: Iterable[str]) -> str:
    """The listed name of a tool's type, which may have a date or a version behind it; '' if there is none."""
    return max((name for name in known if f"{kind}_".startswith(f"{name}_")), key=len, default="")


def find_shipped_cost(kind: str) -> ToolCost | None:
    return SHIPPED.get(find_family(kind, SHIPPED))


class DeclaredTool(Struct, frozen=True):
    """A tool in a body. `uses`: what it was clamped to."""

    family: str
    cost: ToolCost
    uses: int = 0


class Surcharge(Struct, frozen=True):
    """The sum that all declared tools of a call add."""

    tools: tuple[DeclaredTool, ...] = ()

    def tokens(self, prompt: int) -> int:
        """Beyond the prompt: each use adds to it, and the model reads all of it anew after each."""
        if not self.tools:
            return 0
        read = prompt + ANY_TOOL + sum(each.cost.declared for each in self.tools)
        uses = sum(each.uses for each in self.tools)
        most = max(each.cost.tokens for each in self.tools)
        window = max(read, WINDOW)
        fit = min((window - read) // most, uses) if most else uses  # uses after which everything still fits
        return (fit + 1) * read + most * fit * (fit + 1) // 2 + (uses - fit) * window - prompt

    @property
    def fee(self) -> int:
        return sum(each.cost.use * each.uses + each.cost.once for each in self.tools)

    def fee_of(self, used: Mapping[str, int] | None) -> int:
        """By what the vendor says was used, by family; None: it does not say, so all of it."""
        if used is None:
            return self.fee
        fees = {each.family: each.cost.use for each in self.tools}
        return sum(fee * used.get(family, 0) for family, fee in fees.items()) + sum(
            each.cost.once for each in self.tools
        )

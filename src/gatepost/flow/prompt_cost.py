"""The cost of a turn before a word is said: the system prompt and the tools, by part.

The prompt is made by the same code as in the sandbox, from copies of the group's files. Additions of a coding agent
(its prompt, its tools) are not ours and not counted. Tokens are estimated from bytes; the bill counts differently.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from gatepost.access.policy import GroupPolicy
from gatepost.core.errors import Invalid, NotFound
from gatepost.core.files.untrusted_files import open_untrusted
from gatepost.core.home import Home
from gatepost.flow.reports import PromptCost, PromptCostPart, PromptSection
from gatepost.flow.skills.skill_folders import list_shown
from gatepost.gate.policies import starts_small
from gatepost.gate.tool_list import render_listed_tool, render_short_tool
from gatepost.inside.local_tools import describe_tools, list_local_tools
from gatepost.inside.prompts import system_prompt
from gatepost.inside.providers.contract import ProviderContext
from gatepost.mailbox.runner_frames import SkillLine
from gatepost.store.sessions.groups import Group
from gatepost.store.sessions.skills import EffectiveSkill
from gatepost.tools.contract import Tool

API_PROVIDERS = frozenset({"anthropic", "openai"})  # which ask a model themselves; the others drive a program that does
BYTES_PER_TOKEN = {"anthropic": 3.6, "claude": 3.6}  # an estimate, as is the usual one
USUAL_BYTES = 4.0
LONG_FILE, LONG_SKILLS, MANY_TOOLS = 6_000, 4_000, 20_000  # bytes, above which a hint is given
SERVER = "mcp__gatepost__"  # how Claude Code begins the names of our tools


def measure_prompt(
    home: Home,
    group: Group,
    rules: str,
    skills: Sequence[EffectiveSkill],
    tools: Iterable[Tool],
    policy: GroupPolicy,
) -> PromptCost:
    """Blocks: call it in a thread. `group`: with everything that it goes by. `rules`: as they are pinned. `skills` and
    `tools`: all that the group has and may call."""
    folder, provider = group.folder, group.provider
    shell = group.options.get("shell") != "off"
    described = describe_tools(shell=shell) if provider in API_PROVIDERS else ""
    sizes = [
        *_measure_system_prompt(home, folder, group.name, rules, skills, described),
        *_measure_tools(provider, tools, policy, shell=shell),
    ]
    per_token = BYTES_PER_TOKEN.get(provider, USUAL_BYTES)
    parts = [PromptCostPart(section, part, size, round(size / per_token)) for section, part, size in sizes if size]
    whole = sum(each.size for each in parts)
    return PromptCost(
        folder=folder,
        provider=provider,
        size=whole,
        tokens=round(whole / per_token),
        own=provider not in API_PROVIDERS,
        parts=parts,
        hints=_list_hints(folder, parts, policy),
    )


def _measure_system_prompt(
    home: Home, folder: str, name: str, rules: str, skills: Sequence[EffectiveSkill], tools: str
) -> list[tuple[PromptSection, str, int]]:
    render = partial(system_prompt.system_prompt, tools=tools)
    with tempfile.TemporaryDirectory() as copy:
        place = _make_context(Path(copy), folder, name)
        plain = len(render(place).encode())
        found = []
        for file, data in _read_files(home, folder):
            (place.agent / file).write_bytes(data)
            found.append((PromptSection.FILE, file, len(data.decode(errors="replace").strip().encode())))
        alone = len(render(place).encode())
        listed = list_shown(skills)
        lines = tuple(SkillLine(each.name, each.description) for each in listed)
        skilled_place = msgspec.structs.replace(place, skill_lines=lines, more_skills=len(skills) - len(listed))
        skilled = len(render(skilled_place).encode())
        pinned = msgspec.structs.replace(skilled_place, rules=rules)
        whole = len(render(pinned).encode())
    files = sum(size for _, _, size in found)
    return [
        *found,
        (PromptSection.SKILLS, "skills/", skilled - alone),
        (PromptSection.MANNERS, "how messages travel", alone - files if found else plain),
        (PromptSection.RULES, "pinned rules", whole - skilled),
    ]


def _make_context(copy: Path, folder: str, name: str) -> ProviderContext:
    agent = copy / "agent"
    agent.mkdir()
    return ProviderContext(
        workspace=copy,
        agent=agent,
        start=agent,
        state=copy / "state",
        router=copy / "router.sock",
        folder=folder,
        name=name,
        model="",
        timezone="UTC",
    )


def _read_files(home: Home, folder: str) -> list[tuple[str, bytes]]:
    with open_untrusted(home.groups) as root:
        return [
            (file, data)
            for file in system_prompt.FILES
            if (data := _read(partial(root.read_bytes, f"{folder}/{file}", system_prompt.LARGEST)))
        ]


def _read(read: Callable[[], bytes]) -> bytes:
    """A link, or a file that is too large, is none."""
    with suppress(Invalid, NotFound):
        return read()
    return b""


def _measure_tools(
    provider: str, tools: Iterable[Tool], policy: GroupPolicy, *, shell: bool
) -> list[tuple[PromptSection, str, int]]:
    """As models get them: results have no shape there."""
    known = list(tools)
    cut = starts_small(policy, [each.name for each in known])
    shown_tools = [each for each in known if each.core or not cut]
    listed = [
        render_short_tool(each, policy, known) if cut else render_listed_tool(each, policy) for each in shown_tools
    ]
    sizes = [(str(each["name"]), _measure_tool(provider, each)) for each in listed]
    if provider in API_PROVIDERS:
        for own in list_local_tools(shell=shell):
            offered = {"name": own.name, "description": own.description, "inputSchema": own.input_schema}
            sizes.append((own.name, _measure_tool(provider, offered)))
    return [(PromptSection.TOOL, name, size) for name, size in sorted(sizes, key=lambda each: -each[1])]


def _measure_tool(provider: str, listed: Mapping[str, object]) -> int:
    name = listed["name"] if provider in API_PROVIDERS else f"{SERVER}{listed['name']}"
    offered = {"name": name, "description": listed["description"], "input_schema": listed["inputSchema"]}
    return len(msgspec.json.encode(offered))


def _list_hints(folder: str, parts: Sequence[PromptCostPart], policy: GroupPolicy) -> list[str]:
    hints = [
        f"{each.name} is long: move what is not needed in every turn into a skill"
        for each in parts
        if each.section is PromptSection.FILE and each.size > LONG_FILE
    ]
    if sum(each.size for each in parts if each.section is PromptSection.SKILLS) > LONG_SKILLS:
        hints.append(f"the lines of its skills are long; `gatepost skill list {folder}` shows which can go")
    tools = [each for each in parts if each.section is PromptSection.TOOL]
    if sum(each.size for each in tools) > MANY_TOOLS:
        unset = f"unset the option tool_groups of {folder}, or the setting tools.groups, to start with the core"
        hints.append(f"{len(tools)} tools are listed from the start: {unset}")
    return hints

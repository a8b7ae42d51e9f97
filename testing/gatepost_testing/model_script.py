"""Words of a scripted model: the script's format, and the reply to one request. A reply is a function of the request:
it follows from the newest words of a person and from how often the model has answered since. So a client that asks
again, or in another process, is answered alike. Only faults are counted. Described in docs/extend/models.md."""

import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from gatepost.core.registry import load_package
from gatepost.gate.aliases import ALIASES
from gatepost.tools.contract import TOOLS


class ModelScriptCall(msgspec.Struct, forbid_unknown_fields=True):
    """One tool call. The name is the gateway's; a client that offers it under a longer one is understood."""

    call: str
    arguments: dict[str, Any] = field(default_factory=dict, name="with")


class ModelScriptReply(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One answer of the model: words, tool calls or both, and what goes wrong before it comes."""

    say: str = ""
    call: str = ""
    arguments: dict[str, Any] = field(default_factory=dict, name="with")
    calls: list[ModelScriptCall] = []
    fault: int | str = ""  # an HTTP status, cut, malformed, credit or hang
    times: int = 1  # how often, for one message; negative: always
    retry_after: float | None = None
    error: str = ""  # the fault's words
    hold: bool = False  # wait until the test lets go
    hold_within: bool = False  # the same in the middle of a stream
    pause: float = 0.0  # seconds before each piece of a stream
    usage: dict[str, int] | None = None  # input, output, cache_read, cache_write; {}: none is reported
    stop: str = ""  # why it ends, in the words of the Messages API

    def uses(self) -> list[ModelScriptCall]:
        return [ModelScriptCall(self.call, self.arguments), *self.calls] if self.call else self.calls


class ModelScriptTurn(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How words of a person are answered: one reply after another, the last one again and again."""

    do: list[ModelScriptReply]
    when: str = ""
    recall: str = ""  # found in what people said before, its groups are words, too


class ModelScript(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    turns: list[ModelScriptTurn] = []
    default: list[ModelScriptReply] = field(default_factory=lambda: [ModelScriptReply(say="echo: {text}")])
    side: str = "A conversation"  # to requests without tools, where the script says that there are tools
    side_lines: str = ""  # what matches in a side request stands behind the answer to it, each on a line with a dash
    heard: str = "what was said"  # the transcript of every recording
    alike: list[list[str]] = []  # words that mean the same to the model for embeddings
    unreadable: str = ""  # what stands in a text of which it makes no embedding
    embedding_tokens: int = 0  # that it says embeddings took; 0: as many as they do
    tools: bool = False  # clients bring tools; a request without any is a side request

    def json(self) -> str:
        return json.dumps(msgspec.to_builtins(self), indent=1, ensure_ascii=False)


def parse_script(data: bytes | str) -> ModelScript:
    """Raises ValueError that names what is wrong, and where."""
    return msgspec.json.decode(data, type=ModelScript)


def load_script(path: Path) -> ModelScript:
    return parse_script(path.read_bytes())


class ModelScriptMessage(Struct, frozen=True):
    """One message of a conversation, as a script sees it."""

    role: str  # user | assistant | tool | system
    text: str


class OfferedTool(Struct, frozen=True):
    """A tool of a request; `namespace` where the client groups its tools."""

    name: str
    namespace: str = ""


class ModelToolCall(Struct, frozen=True):
    name: str
    arguments: dict[str, Any]
    namespace: str = ""


class ModelScriptAnswer(Struct, frozen=True):
    """A reply with everything filled in. `key` names the place in the script and the words it answers."""

    key: str
    reply: ModelScriptReply
    text: str
    calls: tuple[ModelToolCall, ...] = msgspec.field(default=())


def make_answer(script: ModelScript, lines: list[ModelScriptMessage], offered: list[OfferedTool]) -> ModelScriptAnswer:
    """Return what the model says next."""
    if script.tools and not offered:
        asked = "\n".join(line.text for line in lines)
        matching: list[str] = re.findall(script.side_lines, asked) if script.side_lines else []
        said = "\n".join([script.side, *(f"- {each}" for each in dict.fromkeys(matching))])
        return ModelScriptAnswer("side", ModelScriptReply(say=said), said)
    at = max((index for index, line in enumerate(lines) if line.role == "user"), default=-1)
    text = _newest(lines, at)
    later = [line.role for line in lines[max(at, 0) :]]
    since = [role for before, role in pairwise(later) if role == "assistant" != before]
    results = [line.text for line in lines[at + 1 :] if line.role == "tool"]
    index, do, words = _choose(script, text, [line.text for line in lines[: at + 1] if line.role == "user"])
    if not do:
        return ModelScriptAnswer(f"{index}", ModelScriptReply(), "")
    step = min(len(since), len(do) - 1)
    reply = do[step]
    words |= {"text": text, "result": results[-1] if results else ""}
    said, calls = _fill(reply.say, words), []
    for use in reply.uses():
        found, arguments = find_tool(use.call, offered), _fill_all(use.arguments, words)
        if found is None and use.call in _load_tools() and (found := find_tool("call_tool", offered)) is not None:
            arguments = {"name": use.call, "arguments": arguments}  # as a model does that knows a tool from before
        if found is None:
            said = f"I have no tool {use.call}."
        else:
            calls.append(ModelToolCall(found.name, arguments, found.namespace))
    return ModelScriptAnswer(f"{index}.{step}:{text}", reply, said, tuple(calls))


@cache
def _load_tools() -> frozenset[str]:
    load_package("gatepost.tools")
    return frozenset((*TOOLS, *ALIASES))


def find_tool(name: str, offered: list[OfferedTool]) -> OfferedTool | None:
    """By its own name, or by one that a client made of server and name (`mcp__gatepost__send`)."""
    exact = [tool for tool in offered if tool.name == name]
    longer = [tool for tool in offered if tool.name.endswith(f"_{name}")]
    return next(iter([*exact, *longer]), None)


def _newest(lines: list[ModelScriptMessage], at: int) -> str:
    """The words of a person that the model is to answer: all that came in one go."""
    first = at
    while first > 0 and lines[first - 1].role == "user":
        first -= 1
    return "\n".join(line.text for line in lines[max(first, 0) : at + 1])


def _choose(script: ModelScript, text: str, said: list[str]) -> tuple[int, list[ModelScriptReply], dict[str, str]]:
    for index, turn in enumerate(script.turns):
        found = re.search(turn.when, text, re.DOTALL)
        if found is None:
            continue
        words = _groups(found)
        if turn.recall:
            before = [each for line in said if (each := re.search(turn.recall, line, re.DOTALL))]
            if not before:
                continue
            words = _groups(before[-1])
        return index, turn.do, words
    return -1, script.default, {}


def _groups(found: re.Match[str]) -> dict[str, str]:
    return {str(number): group or "" for number, group in enumerate(found.groups(), 1)}


def _fill(text: str, words: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)((?:\.\w+)*)\}", lambda found: _word(words, found), text)


def _word(words: dict[str, str], found: re.Match[str]) -> str:
    """Return a word, or a value in it if it is JSON (`{result.permission.id}`). A name without a value stays as it
    is."""
    name, path = found.groups()
    if not path:
        return words.get(name, found[0])
    try:
        value = json.loads(words[name])
        for part in path[1:].split("."):
            value = value[int(part) if isinstance(value, list) else part]
    except (ValueError, LookupError, TypeError):
        return found[0]
    return value if isinstance(value, str) else json.dumps(value)


def _fill_all(value: Any, words: dict[str, str]) -> Any:
    if isinstance(value, str):
        return _fill(value, words)
    if isinstance(value, dict):
        return {key: _fill_all(inner, words) for key, inner in value.items()}
    return [_fill_all(inner, words) for inner in value] if isinstance(value, list) else value

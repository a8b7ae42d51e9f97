"""The three shapes of a model's endpoint: Anthropic Messages, OpenAI chat completions, OpenAI Responses. Pure: from a
request's body to lines and tools, from a reply to a body, or to the events of a stream.
"""

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from gatepost_testing.model_script import ModelScriptAnswer, ModelScriptMessage, OfferedTool

PICTURES = ('<system event="pictures">', "Attached media from tool result:")  # as we say it, and as opencode does
Body = dict[str, Any]
Event = tuple[str, Body]  # its name ("" if the shape has none) and its data

_numbers = itertools.count(1)


def _new(prefix: str) -> str:
    return f"{prefix}_{next(_numbers):06d}"


class ModelApiFormat(Struct, frozen=True):
    name: str
    lines: Callable[[Body], list[ModelScriptMessage]]
    tools: Callable[[Body], list[OfferedTool]]
    whole: Callable[[Body, ModelScriptAnswer, dict[str, int]], Body]
    stream: Callable[[Body, ModelScriptAnswer, dict[str, int]], Iterator[Event]]
    error: Callable[[int, str], Body]
    overflow: Callable[[int, int, int], Body]  # tokens of the prompt, of the answer at most, of the window
    credit: tuple[int, Body]  # status and error of an account that has no money left
    last: str = ""  # what stands behind the last event


def count_tokens(size: int) -> int:
    """Return the tokens of a request of so many bytes."""
    return size // 4 + 1


def count_usage(spoken: ModelScriptAnswer, size: int) -> dict[str, int]:
    """The numbers of a reply; {}: it reports none."""
    if spoken.reply.usage is not None:
        return spoken.reply.usage
    written = len(spoken.text) + sum(len(json.dumps(call.arguments)) for call in spoken.calls)
    return {"input": count_tokens(size), "output": written // 4 + 1}


def make_embedding(text: str, alike: Sequence[Sequence[str]], model: str, length: int) -> list[float]:
    """Return the sum of a direction for each word. Words of one meaning have the same direction."""
    meanings = {word: words[0] for words in alike for word in words}
    total = [0.0] * length
    for word in re.findall(r"\w+", text.lower()):
        drawn = random.Random(f"{model} {meanings.get(word, word)}")
        total = [each + drawn.gauss(0, 1) for each in total]
    return total


def _text(content: Any, kinds: tuple[str, ...] = ("text",)) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(
        str(part.get("text", "")) for part in parts if isinstance(part, dict) and part.get("type") in kinds
    )


# Anthropic Messages.


def _message_lines(body: Body) -> list[ModelScriptMessage]:
    lines = []
    for message in body.get("messages", []):
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        lines += [
            ModelScriptMessage("tool", _text(part.get("content")))
            for part in parts
            if part.get("type") == "tool_result"
        ]
        text = _text(content)
        if text or message["role"] == "assistant":
            lines.append(ModelScriptMessage(message["role"], text))
    return lines


def _message_tools(body: Body) -> list[OfferedTool]:
    return [OfferedTool(tool["name"]) for tool in body.get("tools") or []]


def _message_usage(numbers: dict[str, int]) -> Body:
    return {
        "input_tokens": numbers.get("input", 0),
        "output_tokens": numbers.get("output", 0),
        "cache_read_input_tokens": numbers.get("cache_read", 0),
        "cache_creation_input_tokens": numbers.get("cache_write", 0),
    }


def _message_blocks(spoken: ModelScriptAnswer) -> list[Body]:
    blocks: list[Body] = [{"type": "text", "text": spoken.text}] if spoken.text else []
    uses = [
        {"type": "tool_use", "id": _new("toolu"), "name": each.name, "input": each.arguments} for each in spoken.calls
    ]
    return [*blocks, *uses]


def _message_stop(spoken: ModelScriptAnswer) -> str:
    return spoken.reply.stop or ("tool_use" if spoken.calls else "end_turn")


def _message_whole(body: Body, spoken: ModelScriptAnswer, numbers: dict[str, int]) -> Body:
    return {
        "id": _new("msg"),
        "type": "message",
        "role": "assistant",
        "model": body.get("model", ""),
        "content": _message_blocks(spoken),
        "stop_reason": _message_stop(spoken),
        "stop_sequence": None,
        **({"usage": _message_usage(numbers)} if numbers else {}),
    }


def _message_stream(body: Body, spoken: ModelScriptAnswer, numbers: dict[str, int]) -> Iterator[Event]:
    whole = _message_whole(body, spoken, {**numbers, "output": 1} if numbers else {})
    blocks, whole["content"], whole["stop_reason"] = whole["content"], [], None
    yield "message_start", {"type": "message_start", "message": whole}
    for index, block in enumerate(blocks):
        empty: Body
        if block["type"] == "text":
            empty, deltas = {"type": "text", "text": ""}, [("text_delta", "text", part) for part in _cut(block["text"])]
        else:
            empty = {**block, "input": {}}
            deltas = [("input_json_delta", "partial_json", part) for part in _cut(json.dumps(block["input"]))]
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": empty}
        for kind, key, part in deltas:
            delta = {"type": kind, key: part}
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": index}
    end: Body = {"type": "message_delta", "delta": {"stop_reason": _message_stop(spoken), "stop_sequence": None}}
    if numbers:
        end["usage"] = {"output_tokens": numbers.get("output", 0)}
    yield "message_delta", end
    yield "message_stop", {"type": "message_stop"}


_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _message_error(status: int, text: str) -> Body:
    return {"type": "error", "error": {"type": _ANTHROPIC_KINDS.get(status, "api_error"), "message": text}}


def _message_overflow(prompt: int, longest: int, window: int) -> Body:
    if prompt > window:
        return _message_error(400, f"prompt is too long: {prompt} tokens > {window} maximum")
    both = f"{prompt} + {longest} > {window}"
    return _message_error(
        400,
        f"input length and `max_tokens` exceed context limit: {both}, decrease input length or `max_tokens` and try"
        " again",
    )


_ANTHROPIC_CREDIT = _message_error(
    400,
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase"
    " credits.",
)


# OpenAI chat completions.


def _chat_lines(body: Body) -> list[ModelScriptMessage]:
    roles = {"developer": "system"}
    lines: list[ModelScriptMessage] = []
    for message in body.get("messages", []):
        if lines and lines[-1].role == "tool" and _has_pictures(message):
            continue  # what tools gave: their own messages can hold none
        role = roles.get(message["role"], message["role"])
        lines.append(ModelScriptMessage(role, _text(message.get("content"))))
    return lines


def _has_pictures(message: Body) -> bool:
    return _text(message.get("content")).startswith(PICTURES)


def _chat_tools(body: Body) -> list[OfferedTool]:
    return [OfferedTool(tool["function"]["name"]) for tool in body.get("tools") or [] if tool.get("type") == "function"]


def _chat_usage(numbers: dict[str, int]) -> Body:
    asked, told = numbers.get("input", 0), numbers.get("output", 0)
    return {
        "prompt_tokens": asked,
        "completion_tokens": told,
        "total_tokens": asked + told,
        "prompt_tokens_details": {"cached_tokens": numbers.get("cache_read", 0)},
    }


def _chat_calls(spoken: ModelScriptAnswer) -> list[Body]:
    return [
        {
            "id": _new("call"),
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
        }
        for call in spoken.calls
    ]


def _chat_stop(spoken: ModelScriptAnswer) -> str:
    known = {"max_tokens": "length", "end_turn": "stop", "refusal": "content_filter"}
    return known.get(spoken.reply.stop, spoken.reply.stop) or ("tool_calls" if spoken.calls else "stop")


def _chat_whole(body: Body, spoken: ModelScriptAnswer, numbers: dict[str, int]) -> Body:
    message: Body = {"role": "assistant", "content": spoken.text or None}
    if spoken.calls:
        message["tool_calls"] = _chat_calls(spoken)
    return {
        "id": _new("chatcmpl"),
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": _chat_stop(spoken)}],
        **({"usage": _chat_usage(numbers)} if numbers else {}),
    }


def _chat_stream(body: Body, spoken: ModelScriptAnswer, numbers: dict[str, int]) -> Iterator[Event]:
    head: Body = {
        "id": _new("chatcmpl"),
        "object": "chat.completion.chunk",
        "created": 1,
        "model": body.get("model", ""),
    }

    def chunk(delta: Body, reason: str | None = None) -> Event:
        return "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    for part in _cut(spoken.text):
        yield chunk({"content": part})
    for index, call in enumerate(_chat_calls(spoken)):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {"name": name, "arguments": ""}}]})
        for part in _cut(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, _chat_stop(spoken))
    if numbers and (body.get("stream_options") or {}).get("include_usage"):
        yield "", {**head, "choices": [], "usage": _chat_usage(numbers)}


def _openai_error(status: int, text: str) -> Body:
    code = {401: "invalid_api_key", 429: "rate_limit_exceeded"}.get(status)
    return {"error": {"message": text, "type": "error", "param": None, "code": code}}


def _openai_overflow(prompt: int, longest: int, window: int) -> Body:
    said = (
        f"This model's maximum context length is {window} tokens. However, you requested {prompt + longest} tokens"
        f" ({prompt} in the messages, {longest} in the completion). Please reduce the length of the messages or"
        " completion."
    )
    about = {"type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}
    return {"error": {"message": said, **about}}


_OPENAI_CREDIT: Body = {
    "error": {
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "type": "insufficient_quota",
        "param": None,
        "code": "insufficient_quota",
    }
}


# OpenAI Responses.


def _response_overflow(prompt: int, longest: int, window: int) -> Body:
    said = "Your input exceeds the context window of this model. Please adjust your input and try again."
    about = {"id": _new("resp"), "object": "response", "created_at": 1, "status": "failed", "output": []}
    return {**about, "error": {"code": "context_length_exceeded", "message": said}, "usage": None}


def _response_lines(body: Body) -> list[ModelScriptMessage]:
    given = body.get("input", [])
    if isinstance(given, str):
        return [ModelScriptMessage("user", given)]
    lines = []
    for item in given:
        kind = item.get("type", "message")
        if kind == "message":
            role = "system" if item["role"] == "developer" else item["role"]
            lines.append(ModelScriptMessage(role, _text(item.get("content"), ("input_text", "output_text", "text"))))
        elif kind == "function_call":
            lines.append(ModelScriptMessage("assistant", ""))
        elif kind == "function_call_output":
            lines.append(ModelScriptMessage("tool", _text(item.get("output"), ("input_text", "output_text", "text"))))
    return lines


def _response_tools(body: Body) -> list[OfferedTool]:
    found = []
    for tool in body.get("tools") or []:
        if tool.get("type") == "function":
            found.append(OfferedTool(tool["name"]))
        elif tool.get("type") == "namespace":
            found += [OfferedTool(inner["name"], tool["name"]) for inner in tool.get("tools", [])]
    return found


def _response_usage(numbers: dict[str, int]) -> Body:
    asked, told = numbers.get("input", 0), numbers.get("output", 0)
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": numbers.get("cache_read", 0)},
        "output_tokens": told,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + told,
    }


def _response_items(spoken: ModelScriptAnswer) -> list[Body]:
    items: list[Body] = []
    if spoken.text:
        part = {"type": "output_text", "text": spoken.text, "annotations": []}
        items.append(
            {"type": "message", "id": _new("msg"), "status": "completed", "role": "assistant", "content": [part]}
        )
    for call in spoken.calls:
        item = {
            "type": "function_call",
            "id": _new("fc"),
            "call_id": _new("call"),
            "status": "completed",
            "name": call.name,
            "arguments": json.dumps(call.arguments),
        }
        items.append({**item, "namespace": call.namespace} if call.namespace else item)
    return items


def _response_whole(body: Body, spoken: ModelScriptAnswer, numbers: dict[str, int]) -> Body:
    why = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}.get(spoken.reply.stop)
    return {
        "id": _new("resp"),
        "object": "response",
        "created_at": 1,
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "model": body.get("model", ""),
        "output": _response_items(spoken),
        **({"usage": _response_usage(numbers)} if numbers else {}),
    }


def _response_stream(body: Body, spoken: ModelScriptAnswer, numbers: dict[str, int]) -> Iterator[Event]:
    whole = _response_whole(body, spoken, numbers)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    count = itertools.count()

    def event(kind: str, **data: Any) -> Event:
        return kind, {"type": kind, "sequence_number": next(count), **data}

    yield event("response.created", response=begun)
    for index, item in enumerate(whole["output"]):
        yield event("response.output_item.added", output_index=index, item={**item, "status": "in_progress"})
        if item["type"] == "message":
            place = {"item_id": item["id"], "output_index": index, "content_index": 0}
            for part in _cut(item["content"][0]["text"]):
                yield event("response.output_text.delta", **place, delta=part)
            yield event("response.output_text.done", **place, text=item["content"][0]["text"])
        else:
            place = {"item_id": item["id"], "output_index": index}
            yield event("response.function_call_arguments.delta", **place, delta=item["arguments"])
            yield event("response.function_call_arguments.done", **place, arguments=item["arguments"])
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.incomplete" if whole["status"] == "incomplete" else "response.completed", response=whole)


def _cut(text: str, size: int = 12) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


# Google's generateContent.


def _google_lines(body: Body) -> list[ModelScriptMessage]:
    lines = []
    for content in body.get("contents", []):
        parts = content.get("parts", [])
        lines += [
            ModelScriptMessage("tool", _google_result(part["functionResponse"].get("response")))
            for part in parts
            if "functionResponse" in part
        ]
        text = "\n".join(str(part["text"]) for part in parts if part.get("text") and not part.get("thought"))
        role = "assistant" if content.get("role") == "model" else "user"
        if role == "assistant" or (text and not any("functionResponse" in part for part in parts)):
            lines.append(ModelScriptMessage(role, text))
    return lines


def _google_result(said: Any) -> str:
    """The text that a client puts into the response of a function, however it wraps it."""
    if not isinstance(said, dict):
        return str(said or "")
    found = said.get("output", said.get("error", said))
    if isinstance(found, dict) and "content" in found:
        found = _text(found["content"])
    return found if isinstance(found, str) else json.dumps(found)


def _google_tools(body: Body) -> list[OfferedTool]:
    declared = [each for tool in body.get("tools") or [] for each in tool.get("functionDeclarations", [])]
    return [OfferedTool(each["name"]) for each in declared]


def _google_stop(spoken: ModelScriptAnswer) -> str:
    known = {"max_tokens": "MAX_TOKENS", "end_turn": "STOP", "refusal": "SAFETY"}
    return known.get(spoken.reply.stop, spoken.reply.stop) or "STOP"


def _google_parts(spoken: ModelScriptAnswer) -> list[Body]:
    said: list[Body] = [{"text": part} for part in _cut(spoken.text)]
    return [*said, *({"functionCall": {"name": each.name, "args": each.arguments}} for each in spoken.calls)]


def _google_answer(body: Body, parts: list[Body], stop: str, numbers: dict[str, int]) -> Body:
    candidate: Body = {"content": {"role": "model", "parts": parts}, "index": 0}
    answer: Body = {"candidates": [candidate | ({"finishReason": stop} if stop else {})]}
    if numbers:
        asked, told = numbers.get("input", 0), numbers.get("output", 0)
        answer["usageMetadata"] = {
            "promptTokenCount": asked,
            "candidatesTokenCount": told,
            "cachedContentTokenCount": numbers.get("cache_read", 0),
            "totalTokenCount": asked + told,
        }
    return answer | {"modelVersion": body.get("model", ""), "responseId": _new("google")}


def _google_whole(body: Body, spoken: ModelScriptAnswer, numbers: dict[str, int]) -> Body:
    return _google_answer(body, _google_parts(spoken), _google_stop(spoken), numbers)


def _google_stream(body: Body, spoken: ModelScriptAnswer, numbers: dict[str, int]) -> Iterator[Event]:
    """As Google streams it, each piece counts what there is so far; the last one has the reason."""
    for part in _google_parts(spoken):
        yield "", _google_answer(body, [part], "", {**numbers, "output": 1} if numbers else {})
    yield "", _google_answer(body, [{"text": ""}], _google_stop(spoken), numbers)


_GOOGLE_STATES = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    529: "UNAVAILABLE",
}


def _google_error(status: int, text: str) -> Body:
    """A key that is none is an invalid argument to Google."""
    if status == 401:
        reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
        said = {"code": 400, "message": "API key not valid. Please pass a valid API key.", "details": [reason]}
        return {"error": {**said, "status": "INVALID_ARGUMENT"}}
    return {"error": {"code": status, "message": text, "status": _GOOGLE_STATES.get(status, "UNKNOWN")}}


def _google_overflow(prompt: int, longest: int, window: int) -> Body:
    return _google_error(
        400, f"The input token count ({prompt}) exceeds the maximum number of tokens allowed ({window})."
    )


_GOOGLE_CREDIT = _google_error(
    429,
    "Your prepayment credits are depleted. Please go to AI Studio at https://ai.studio/projects to manage your project"
    " and billing.",
)


MESSAGES = ModelApiFormat(
    "messages",
    _message_lines,
    _message_tools,
    _message_whole,
    _message_stream,
    _message_error,
    _message_overflow,
    (400, _ANTHROPIC_CREDIT),
)
CHAT = ModelApiFormat(
    "chat",
    _chat_lines,
    _chat_tools,
    _chat_whole,
    _chat_stream,
    _openai_error,
    _openai_overflow,
    (429, _OPENAI_CREDIT),
    "[DONE]",
)
RESPONSES = ModelApiFormat(
    "responses",
    _response_lines,
    _response_tools,
    _response_whole,
    _response_stream,
    _openai_error,
    _response_overflow,
    (429, _OPENAI_CREDIT),
)
GENERATE = ModelApiFormat(
    "generate",
    _google_lines,
    _google_tools,
    _google_whole,
    _google_stream,
    _google_error,
    _google_overflow,
    (429, _GOOGLE_CREDIT),
)

"""Requests of Google's Gemini API, judged and written anew as `request_bodies` does it for the other vendors.

The model, and whether the answer is streamed, stand in the path. Google reads a field by two names (`fileData` and
`file_data`); only the first is known here. An unknown field is left out where a request has settings, and refused where
it has content: it could make the vendor fetch, run or look up something.
"""

import re
import time
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from gatepost.egress import prompt_sizes
from gatepost.egress.http import HttpRefusal, HttpRequestHead
from gatepost.egress.prices import CacheWrite
from gatepost.egress.prompt_sizes import NO_MEDIA, MediaTokens
from gatepost.egress.request_bodies import (
    DEEPEST,
    FEW_VALUES,
    LEAST_OUTPUT,
    REST_S,
    CheckedBody,
    encode,
    make_type_refusal,
)
from gatepost.egress.token_usage import SOUND_WEIGHT

VENDOR = "google"
FIELDS = ("tools", "toolConfig", "systemInstruction", "contents", "safetySettings")
# Of `generationConfig`. Left out: what makes it speak, draw or answer more than once, and what is logged.
CONFIG = frozenset(
    (
        "temperature",
        "topP",
        "topK",
        "seed",
        "stopSequences",
        "presencePenalty",
        "frequencyPenalty",
        "maxOutputTokens",
        "responseMimeType",
        "responseSchema",
        "responseJsonSchema",
        "thinkingConfig",
        "mediaResolution",
    )
)
# Parts of content and the fields beside them; each part is one of these.
_PARTS = frozenset(["text", "inlineData", "functionCall", "functionResponse"])
_BESIDE = frozenset(("thought", "thoughtSignature"))
_CONTENT = frozenset(("role", "parts"))
_BLOB = frozenset(("mimeType", "data", "displayName"))
_RESPONSE = frozenset(["id", "name", "response", "parts", "willContinue", "scheduling"])
_PATH = re.compile(
    r"/google/v1beta/models/([A-Za-z0-9][A-Za-z0-9._-]{0,99}):(streamGenerateContent|generateContent|countTokens)\Z"
)
_QUERIES = {"streamGenerateContent": ("alt=sse",), "generateContent": ("",), "countTokens": ("",)}


class GoogleCall(Struct, frozen=True):
    """Return what a path asks for."""

    model: str
    method: str

    @property
    def stream(self) -> bool:
        return self.method == "streamGenerateContent"

    @property
    def counts(self) -> bool:
        return self.method == "countTokens"

    @property
    def count_path(self) -> str:
        return f"/models/{self.model}:countTokens"

    @property
    def path(self) -> str:
        return f"/models/{self.model}:{self.method}{'?alt=sse' if self.stream else ''}"


def read_call(head: HttpRequestHead) -> GoogleCall | None:
    """By the exact bytes of the path; None if it is none of Google's. Raises Refusal."""
    path, _, query = head.target.partition("?")
    found = _PATH.match(path)
    if head.method != "POST" or found is None:
        return None
    if query not in _QUERIES[found[2]]:
        raise HttpRefusal(400, "of Google's models a stream is asked for with ?alt=sse, all else without a query", path)
    return GoogleCall(found[1], found[2])


def check_body(call: GoogleCall, given: dict[str, Any], most_output: int, origin: str = "") -> CheckedBody:
    """Return the part of a body that is sent, and how much it may come to. Raises Refusal."""
    if given.get("cachedContent"):
        raise HttpRefusal(400, "cachedContent: a prompt that is kept at the vendor's is not passed on to it")
    body = {name: given[name] for name in FIELDS if given.get(name) is not None}
    _check_tools(body)
    config = given.get("generationConfig") or {}
    if not isinstance(config, dict):
        raise HttpRefusal(400, "generationConfig: is an object")
    if config.get("candidateCount") not in (None, 1):
        raise HttpRefusal(400, "candidateCount: one answer a call")
    asked = config.get("maxOutputTokens")
    if asked is not None and (not isinstance(asked, int) or isinstance(asked, bool) or asked < 1):
        raise HttpRefusal(400, "maxOutputTokens: is a whole number above 0")
    body["generationConfig"] = {name: config[name] for name in CONFIG if config.get(name) is not None}
    pieces = [*_list_pieces(body, prompt_sizes.get_picture_tokens(call.model))]
    parts = prompt_sizes.make_parts(f"{origin} {call.model}", pieces)
    return CheckedBody(
        body=body,
        model=call.model,
        stream=call.stream,
        prompt=prompt_sizes.bound_by_bytes(parts),
        output=min(asked or most_output, most_output),
        adds_usage=False,
        parts=parts,
        writes_cache=CacheWrite.SHORT,
    )


def render_clamped_body(asked: CheckedBody, output: int) -> bytes:
    """The body as it is sent: the answer is at most `output` tokens long, its thoughts included."""
    config = {**asked.body["generationConfig"], "maxOutputTokens": output}
    thinking = config.get("thinkingConfig")
    budget = thinking.get("thinkingBudget") if isinstance(thinking, dict) else None
    if isinstance(thinking, dict) and isinstance(budget, int) and budget > output - LEAST_OUTPUT:
        config["thinkingConfig"] = {**thinking, "thinkingBudget": max(output - LEAST_OUTPUT, 128)}
    return encode({**asked.body, "generationConfig": config})


def check_count_body(call: GoogleCall, given: dict[str, Any]) -> bytes:
    """A request that only counts, as it is sent: the same walls, and no money."""
    held = given.get("generateContentRequest")
    if held is None:
        body = check_body(call, given, 1).body
        return encode({name: value for name, value in body.items() if name == "contents"})
    if not isinstance(held, dict):
        raise HttpRefusal(400, "generateContentRequest: is an object")
    return _render_count(call.model, check_body(call, held, 1))


def render_count_body(asked: CheckedBody) -> bytes:
    """A body that passed, as the question how many tokens it has."""
    return _render_count(asked.model, asked)


def _render_count(model: str, asked: CheckedBody) -> bytes:
    kept = {name: value for name, value in asked.body.items() if name not in ("generationConfig", "safetySettings")}
    return encode({"generateContentRequest": {"model": f"models/{model}", **kept}})


def _check_tools(body: dict[str, Any]) -> None:
    """Tools that run with the agent. All others run at the vendor's, and have no price here."""
    tools = body.get("tools", [])
    for tool in tools if isinstance(tools, list) else [None]:
        if not isinstance(tool, dict):
            raise HttpRefusal(400, "tools: is a list of objects")
        other = next((name for name in tool if name != "functionDeclarations"), "")
        if other:
            raise HttpRefusal(
                400, f"the tool {other[:60]!r}, which the vendor would run, is not passed on to the model's vendor"
            )


def _list_pieces(body: dict[str, Any], picture: int) -> Iterator[tuple[bytes, MediaTokens]]:
    """The tools and settings first, then the words of the system, then each message."""
    config = body["generationConfig"]
    said = {name: config[name] for name in ("responseSchema", "responseJsonSchema") if name in config}
    yield encode([body.get("tools"), body.get("toolConfig"), said]), NO_MEDIA
    walk = _PartWalk(picture)
    if (system := body.get("systemInstruction")) is not None:
        yield encode(system), walk.check_content(system)
    contents = body.get("contents", [])
    for content in contents if isinstance(contents, list) else [contents]:
        yield encode(content), walk.check_content(content)


class _PartWalk(Struct):
    picture: int  # tokens of one at most
    parts: int = 0  # that were checked

    def check_content(self, content: object) -> MediaTokens:
        if isinstance(content, str):
            return NO_MEDIA
        if not isinstance(content, dict) or not content.keys() <= _CONTENT:
            raise HttpRefusal(400, "contents: each has a role and parts, and nothing else")
        return self._check_parts(content.get("parts"), 1)

    def _check_parts(self, parts: object, depth: int) -> MediaTokens:
        found = NO_MEDIA
        if depth > DEEPEST or not isinstance(parts, list | None):
            raise HttpRefusal(400, f"parts: is a list, nested at most {DEEPEST} deep")
        for part in parts or ():
            self.parts += 1
            if self.parts % FEW_VALUES == 0:
                time.sleep(REST_S)  # as `request_bodies` does: all threads share one interpreter
            if not isinstance(part, dict):
                raise HttpRefusal(400, "parts: each is an object")
            if other := next((name for name in part if name not in _PARTS | _BESIDE), ""):
                raise make_type_refusal("url" if other in ("fileData", "file_data") else other[:60])
            if (blob := part.get("inlineData")) is not None:
                found += measure_blob(blob, self.picture)
            if (said := part.get("functionResponse")) is not None:
                if not isinstance(said, dict) or not said.keys() <= _RESPONSE:
                    raise HttpRefusal(400, "functionResponse: has an id, a name, a response and parts")
                found += self._check_parts(said.get("parts"), depth + 1)
        return found


def measure_blob(blob: object, picture: int) -> MediaTokens:
    """Return the tokens of a picture, a recording, a film or a document at most."""
    if not isinstance(blob, dict) or not blob.keys() <= _BLOB:
        raise HttpRefusal(400, "inlineData: has a mimeType and data")
    data, kind = blob.get("data"), str(blob.get("mimeType", ""))
    size = len(data) if isinstance(data, str) else 0
    if kind.startswith("image/"):
        return MediaTokens(picture, size)
    if kind.startswith("audio/"):
        return MediaTokens(SOUND_WEIGHT * prompt_sizes.bound_sound(size), size)
    if kind.startswith("video/") or kind == "application/pdf":
        return MediaTokens(prompt_sizes.WINDOW, size)
    return NO_MEDIA

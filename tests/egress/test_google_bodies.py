"""Calls of Google's Gemini API over the real socket: what is asked of it, what is refused, and what is booked."""

import json
from typing import Any

import pytest

from gatepost.egress import google_bodies
from gatepost.egress.google_bodies import GoogleCall
from gatepost.egress.http import HttpRefusal
from gatepost.egress.token_usage import SOUND_WEIGHT
from gatepost.store.money.costs import TokenCounts

KEY = "AIza-the-real-key-0123456789"
BASE = "/google/v1beta/models"
STREAM = f"{BASE}/known-1:streamGenerateContent?alt=sse"
ASK: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
CALL = GoogleCall("known-1", "streamGenerateContent")


def event(text: str, stop: str = "", **usage: int) -> str:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, **({"finishReason": stop} if stop else {})}
    return f"data: {json.dumps({'candidates': [candidate], 'usageMetadata': usage})}\r\n\r\n"


EVENTS = event("hel", promptTokenCount=50, candidatesTokenCount=1) + event(
    "lo", "STOP", promptTokenCount=50, cachedContentTokenCount=20, candidatesTokenCount=4, thoughtsTokenCount=3
)


def http(body: str, kind: str = "application/json", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()


@pytest.fixture
def google(way: Any) -> Any:
    way.keys.keys = {"GEMINI_API_KEY": KEY}
    way.vendor.reply = http(EVENTS, "text/event-stream")
    return way


async def test_a_stream_goes_out_with_the_key_and_is_booked_with_its_thoughts(google: Any) -> None:
    answer = await google.post(STREAM, ASK, "x-goog-api-key: gatepost\r\nx-goog-user-project: mine\r\n")

    assert (answer.status, answer.text) == (200, EVENTS)
    head = google.vendor.heads[0].lower()
    assert head.startswith("post /v1beta/models/known-1:streamgeneratecontent?alt=sse http/1.1")
    assert f"x-goog-api-key: {KEY}".lower() in head and "gatepost\r\n" not in head.replace("user-agent: gatepost", "")
    assert "user-project" not in head
    assert google.vendor.asked["generationConfig"] == {"maxOutputTokens": 16_000}
    assert google.purse.booked == [(30 * 3 + 20 * 3 // 10 + 7 * 15, TokenCounts(input=30, output=7, cache_read=20))]


async def test_an_answer_in_one_piece_is_booked_too(google: Any) -> None:
    google.vendor.reply = http(EVENTS.partition("\r\n\r\n")[2].removeprefix("data: ").strip())
    answer = await google.post(f"{BASE}/known-1:generateContent", ASK)
    assert answer.status == 200 and google.purse.booked[0][1] == TokenCounts(input=30, output=7, cache_read=20)


async def test_a_stream_without_its_reason_to_end_is_booked_by_what_it_said(google: Any) -> None:
    google.vendor.reply = http(EVENTS.partition("\r\n\r\n")[0] + "\r\n\r\n", "text/event-stream")
    await google.post(STREAM, ASK)
    [(_, usage)] = google.purse.booked
    assert usage.input == 50 and usage.output >= len("hel") and google.purse.estimated == [True]


async def test_sound_is_booked_as_several_tokens_of_text(google: Any) -> None:
    said = json.loads(event("hello", "STOP", promptTokenCount=50, candidatesTokenCount=4).removeprefix("data: "))
    said["usageMetadata"]["promptTokensDetails"] = [{"modality": "AUDIO", "tokenCount": 32}]
    google.vendor.reply = http(json.dumps(said))
    await google.post(f"{BASE}/known-1:generateContent", ASK)
    assert google.purse.booked[0][1].input == 50 + (SOUND_WEIGHT - 1) * 32


async def test_the_answer_is_clamped_to_the_budget_and_its_thoughts_with_it(google: Any) -> None:
    google.purse.left = 10_000
    body = ASK | {"generationConfig": {"maxOutputTokens": 9000, "thinkingConfig": {"thinkingBudget": 8000}}}
    google.vendor.reply = http(json.dumps({"totalTokens": 5}))  # it is asked for a count first
    await google.post(STREAM, body)
    sent = json.loads(google.vendor.bodies[-1])["generationConfig"]
    assert 256 <= sent["maxOutputTokens"] < 700
    assert sent["thinkingConfig"]["thinkingBudget"] == sent["maxOutputTokens"] - 256


async def test_a_count_goes_out_and_costs_nothing(google: Any) -> None:
    google.vendor.reply = http('{"totalTokens": 3}')
    answer = await google.post(f"{BASE}/known-1:countTokens", ASK | {"systemInstruction": "not taken there"})
    assert answer.text == '{"totalTokens": 3}' and google.vendor.asked == ASK and google.purse.booked == []


async def test_a_key_that_google_takes_for_none_is_said_to_be_the_operators_matter(google: Any) -> None:
    google.vendor.reply = http('{"error": {"code": 400, "reason": "API_KEY_INVALID"}}', status="400 Bad Request")
    answer = await google.post(STREAM, ASK)
    assert answer.status == 401 and "refuses the gateway's key" in json.loads(answer.text)["error"]["message"]


async def test_a_refusal_has_the_form_that_googles_clients_show(google: Any) -> None:
    answer = await google.post(f"{BASE}/dear-1:streamGenerateContent?alt=sse", ASK)
    error = json.loads(answer.text)["error"]
    assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT") and "has no price" in error["message"]
    assert google.vendor.heads == []


@pytest.mark.parametrize(
    "path",
    [
        f"{BASE}/known-1:embedContent",
        f"{BASE}/known-1:streamGenerateContent",
        f"{BASE}/known-1:generateContent?key=mine",
        f"{BASE}/../known-1:generateContent",
        f"{BASE}/known%2d1:generateContent",
        "/google/v1beta/cachedContents",
        "/google/v1alpha/models/known-1:generateContent",
        "/google/upload/v1beta/files",
    ],
)
async def test_other_paths_and_queries_are_refused(google: Any, path: str) -> None:
    answer = await google.post(path, ASK)
    assert answer.status in (400, 404) and google.vendor.heads == []


def part(**given: object) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [given]}]}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (part(fileData={"fileUri": "https://x.example/a"}), "source that the vendor would fetch"),
        (part(file_data={"file_uri": "https://x.example/a"}), "source that the vendor would fetch"),
        (part(executableCode={"code": "1"}), "executableCode"),
        (part(inline_data={"data": "x"}), "inline_data"),
        (part(inlineData={"mimeType": "image/png", "data": "x", "fileUri": "u"}), "inlineData"),
        (part(functionResponse={"name": "f", "response": {}, "parts": [{"fileData": {}}]}), "would fetch"),
        ({"contents": [{"role": "user", "parts": "hi"}]}, "parts: is a list"),
        ({"contents": [{"role": "user", "pieces": []}]}, "contents"),
        (ASK | {"cachedContent": "cachedContents/1"}, "kept at the vendor's"),
        (ASK | {"tools": [{"googleSearch": {}}]}, "googleSearch"),
        (ASK | {"tools": [{"functionDeclarations": [], "url_context": {}}]}, "url_context"),
        (ASK | {"tools": {"codeExecution": {}}}, "tools"),
        (ASK | {"generationConfig": {"candidateCount": 3}}, "one answer a call"),
        (ASK | {"generationConfig": {"maxOutputTokens": True}}, "maxOutputTokens"),
        (ASK | {"generationConfig": "x"}, "is an object"),
    ],
)
def test_what_would_make_the_vendor_fetch_run_or_look_up_something_is_refused(body: dict[str, Any], why: str) -> None:
    with pytest.raises(HttpRefusal, match=why):
        google_bodies.check_body(CALL, body, 1000)


def test_settings_that_cost_something_else_are_left_out() -> None:
    config = {"temperature": 0, "responseModalities": ["AUDIO"], "speechConfig": {}, "candidate_count": 9}
    asked = google_bodies.check_body(
        CALL, ASK | {"generationConfig": config, "cached_content": "x", "labels": {}}, 1000
    )
    assert asked.body == {**ASK, "generationConfig": {"temperature": 0}}


def test_pictures_sound_and_documents_are_bounded_by_what_they_are() -> None:
    def bound(kind: str, size: int) -> int:
        return google_bodies.check_body(CALL, part(inlineData={"mimeType": kind, "data": "x" * size}), 1000).prompt

    assert bound("image/png", 300_000) < 60_000 and bound("application/pdf", 100) > 1_000_000
    assert bound("text/plain", 300_000) > 300_000
    assert bound("audio/ogg", 4000) == bound("audio/ogg", 100) < bound("audio/ogg", 400_000)

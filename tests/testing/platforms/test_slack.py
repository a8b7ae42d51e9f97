"""The emulated Slack, judged by slack-sdk."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from gatepost_testing.platforms.base import GivenFile, PlatformFault
from gatepost_testing.platforms.slack import APP_TOKEN, BOT_TOKEN, SlackPlatform
from gatepost_testing.platforms.wire.slack_text import read_mrkdwn
from gatepost_testing.waiting import PATIENCE_S


@pytest.fixture
def platform() -> Iterator[SlackPlatform]:
    with SlackPlatform() as started:
        assert isinstance(started, SlackPlatform)
        yield started


@pytest.fixture
async def web(platform: SlackPlatform) -> AsyncIterator[Any]:
    client = pytest.importorskip("slack_sdk.web.async_client")
    yield client.AsyncWebClient(token=BOT_TOKEN, base_url=f"{platform.url}/api/")


@pytest.mark.slow
async def test_the_library_can_do_what_the_channel_does(platform: SlackPlatform, web: Any) -> None:
    room = platform.find_channel("team")
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": "*Sure?*"}},
        {
            "type": "actions",
            "elements": [
                {"type": "button", "action_id": "b0", "value": "t:0", "text": {"type": "plain_text", "text": "Yes"}}
            ],
        },
    ]
    metadata = {"event_type": "test", "event_payload": {"key": "k1"}}
    made = await web.chat_postMessage(channel=room, text="Sure?", blocks=blocks, metadata=metadata)
    shown = platform.find(made["ts"])
    assert (shown.text, shown.buttons, shown.key) == ("Sure?", ["Yes"], "k1")

    await web.chat_update(channel=room, ts=made["ts"], text="done", blocks=[])
    await web.reactions_add(channel=room, timestamp=made["ts"], name="eyes")
    await web.pins_add(channel=room, timestamp=made["ts"])
    answer = await web.chat_postMessage(channel=room, text="below", thread_ts=made["ts"])
    assert (platform.find(made["ts"]).text, platform.find(made["ts"]).pinned) == ("done", True)
    assert platform.find(answer["ts"]).thread == made["ts"]

    history = await web.conversations_history(channel=room, include_all_metadata=True)
    assert [each["metadata"]["event_payload"]["key"] for each in history["messages"]] == ["k1"]
    replies = await web.conversations_replies(channel=room, ts=made["ts"])
    assert [each["text"] for each in replies["messages"]] == ["done", "below"]
    pins = await web.pins_list(channel=room)
    assert [each["message"]["ts"] for each in pins["items"]] == [made["ts"]]
    await web.chat_delete(channel=room, ts=answer["ts"])
    assert platform.find(answer["ts"]).deleted
    direct = await web.conversations_open(users=platform.find_person("ann"))
    assert direct["channel"]["id"] == platform.find_channel("direct:ann")


@pytest.mark.slow
async def test_the_library_uploads_a_file(platform: SlackPlatform, web: Any) -> None:
    room = platform.find_channel("team")
    await web.files_upload_v2(channel=room, content="data", filename="a.txt", initial_comment="see")
    (shown,) = platform.list_shown("team")
    assert shown.text == "see" and [(each.name, each.data) for each in shown.files] == [("a.txt", b"data")]


@pytest.mark.slow
async def test_the_library_uses_the_pane(platform: SlackPlatform, web: Any) -> None:
    thread, room = platform.open_pane("ann"), platform.find_channel("direct:ann")
    await web.assistant_threads_setTitle(channel_id=room, thread_ts=thread, title="T")
    await web.assistant_threads_setStatus(channel_id=room, thread_ts=thread, status="is thinking…")
    prompts = [{"title": "P", "message": "say it"}]
    await web.assistant_threads_setSuggestedPrompts(channel_id=room, thread_ts=thread, prompts=prompts)
    assert (platform.titles, platform.get_typing()) == ({thread: "T"}, ["direct:ann"])
    assert platform.prompts == {thread: prompts}


@pytest.mark.slow
async def test_the_library_listens_by_a_socket_and_acknowledges(platform: SlackPlatform, web: Any) -> None:
    aiohttp_client = pytest.importorskip("slack_sdk.socket_mode.aiohttp")
    responses = pytest.importorskip("slack_sdk.socket_mode.response")
    seen: asyncio.Queue[Any] = asyncio.Queue()

    async def listen(client: Any, request: Any) -> None:
        await client.send_socket_mode_response(responses.SocketModeResponse(envelope_id=request.envelope_id))
        await seen.put(request)

    client = aiohttp_client.SocketModeClient(app_token=APP_TOKEN, web_client=web)
    client.socket_mode_request_listeners.append(listen)
    await client.connect()
    try:
        said = platform.send("hello", files=[GivenFile("a.txt", b"data", "text/plain")])
        async with asyncio.timeout(PATIENCE_S):
            request = await seen.get()
        await platform.until(lambda: platform.socket.waiting == {})
    finally:
        await client.close()
    event = request.payload["event"]
    assert (request.type, event["ts"], event["subtype"]) == ("events_api", said, "file_share")


@pytest.mark.slow
async def test_the_library_reads_errors_as_errors(platform: SlackPlatform, web: Any) -> None:
    errors = pytest.importorskip("slack_sdk.errors")
    with pytest.raises(errors.SlackApiError, match="channel_not_found"):
        await web.chat_postMessage(channel="C9", text="x")
    platform.fault(PlatformFault.UNAUTHORIZED)
    with pytest.raises(errors.SlackApiError, match="token_revoked"):
        await web.auth_test()


def test_people_read_markup_as_plain_words() -> None:
    assert (
        read_mrkdwn("*bold* _it_ ~no~ `a*b*` <https://x.example|link> 1 &lt; 2 a_b_c")
        == "bold it no a*b* link 1 < 2 a_b_c"
    )


def test_a_method_is_refused_without_its_scope(platform: SlackPlatform) -> None:
    platform.granted = platform.granted.replace("users:read,", "")
    headers = {"authorization": f"Bearer {BOT_TOKEN}"}
    with httpx2.Client(trust_env=False, timeout=PATIENCE_S, headers=headers) as client:
        answer = client.post(f"{platform.url}/api/users.info", json={"user": platform.find_person("ann")}).json()
    assert (answer["error"], answer["needed"]) == ("missing_scope", "users:read")

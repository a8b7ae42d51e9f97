"""A file as an answer: which bytes are sent, and that they are as many as were promised."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.types import Message

from gatepost.core.process.thread_pools import BoundedThreadPool
from gatepost.serve.http import AnswerCutShort
from gatepost.serve.web.file_response import CHUNK, ByteRange, OpenFile, OpenFileResponse, make_open_file, parse_range

TEXT = b"0123456789"


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("", None),
        ("bytes=0-9", (0, 10)),
        ("bytes=2-4", (2, 5)),
        (" bytes=2-4 ", (2, 5)),
        ("bytes=7-", (7, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-99", (0, 10)),
        ("bytes=8-99", (8, 10)),
        ("bytes=0-0", (0, 1)),
        ("bytes=4-2", None),  # the whole file, as for whatever is no range
        ("bytes=-", None),
        ("bytes=0-1,3-4", None),
        ("items=0-1", None),
        ("bytes=a-b", None),
        (f"bytes={'9' * 19}-", None),
        ("bytes=\u0661-", None),
    ],
)
def test_one_range_is_read(header: str, expected: tuple[int, int] | None) -> None:
    assert parse_range(header, 10) == (None if expected is None else ByteRange(*expected))


@pytest.mark.parametrize(("header", "size"), [("bytes=10-", 10), ("bytes=-0", 10), ("bytes=0-", 0), ("bytes=-5", 0)])
def test_bytes_that_are_not_there_are_an_error(header: str, size: int) -> None:
    with pytest.raises(ValueError, match="nothing"):
        parse_range(header, size)


class Answer:
    """What was sent for one request of a browser."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.between: Callable[[], object] = lambda: None  # before the first piece of the body

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.between()
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.messages[1:])


def open_file(path: Path) -> OpenFile:
    return make_open_file(os.open(path, os.O_RDONLY), "text/plain")


async def ask(file: OpenFile, method: str = "GET", answer: Answer | None = None, **asked: str) -> Answer:
    answer = answer or Answer()
    headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in asked.items()]
    scope = {"type": "http", "method": method, "headers": headers, "asgi": {"spec_version": "2.4"}}

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    await OpenFileResponse(file, {"content-type": "text/plain"}, BoundedThreadPool(1))(scope, receive, answer.send)
    return answer


def is_open(file: OpenFile) -> bool:
    try:
        os.fstat(file.fd)
    except OSError:
        return False
    return True


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "file"
    made.write_bytes(TEXT)
    return made


async def test_a_whole_file_is_sent_and_closed(path: Path) -> None:
    file = open_file(path)
    answer = await ask(file)
    assert (answer.status, answer.body) == (200, TEXT)
    assert (answer.headers["content-length"], answer.headers["accept-ranges"]) == ("10", "bytes")
    assert answer.headers["etag"] == file.tag and not is_open(file)


async def test_a_part_is_sent_as_one(path: Path) -> None:
    answer = await ask(open_file(path), range="bytes=2-4")
    assert (answer.status, answer.body) == (206, b"234")
    assert (answer.headers["content-range"], answer.headers["content-length"]) == ("bytes 2-4/10", "3")


async def test_a_large_file_is_sent_piece_by_piece(path: Path) -> None:
    path.write_bytes(data := os.urandom(2 * CHUNK + 5))
    answer = await ask(open_file(path), range="bytes=1-")
    assert answer.body == data[1:]
    assert max(len(each.get("body", b"")) for each in answer.messages[1:]) <= CHUNK


async def test_only_the_head_is_sent_if_that_was_asked_for(path: Path) -> None:
    file = open_file(path)
    answer = await ask(file, "HEAD")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "10")
    assert not is_open(file)


async def test_what_the_browser_has_is_not_sent_again(path: Path) -> None:
    file = open_file(path)
    answer = await ask(file, if_none_match=f'W/"x", {file.tag}')
    assert (answer.status, answer.body) == (304, b"") and not is_open(file)
    assert (await ask(open_file(path), if_none_match='"other"')).status == 200


async def test_a_part_of_another_version_is_not_sent(path: Path) -> None:
    file = open_file(path)
    assert (await ask(file, range="bytes=2-4", if_range=file.tag)).status == 206
    answer = await ask(open_file(path), range="bytes=2-4", if_range='"older"')
    assert (answer.status, answer.body) == (200, TEXT)


async def test_a_part_that_is_not_there_is_refused_with_the_size(path: Path) -> None:
    file = open_file(path)
    answer = await ask(file, range="bytes=10-")
    assert (answer.status, answer.headers["content-range"], answer.body) == (416, "bytes */10", b"")
    assert not is_open(file)


async def test_a_file_that_became_shorter_breaks_the_answer_off(path: Path) -> None:
    """Less than was promised must not look like all of it."""
    file, answer = open_file(path), Answer()
    answer.between = lambda: os.truncate(path, 4)
    with pytest.raises((AnswerCutShort, BaseExceptionGroup)):
        await ask(file, answer=answer)
    assert answer.body in (b"", TEXT[:4]) and not is_open(file)
    assert not any(each.get("more_body") is False for each in answer.messages[1:])


def test_a_change_of_a_file_changes_its_tag(path: Path) -> None:
    first = open_file(path)
    path.write_bytes(TEXT + b"x")
    second = open_file(path)
    assert first.tag != second.tag and first.tag.startswith('"') and first.tag.endswith('"')
    for each in (first, second):
        os.close(each.fd)

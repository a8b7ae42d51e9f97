"""Markdown is rendered off the loop, once, and within a deadline."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gatepost.messages.markdown.markup import render_plain_html
from gatepost.serve.web.markdown_renderer import MarkdownRenderer
from gatepost_testing.waiting import PATIENCE_S


@pytest.fixture
async def rendering() -> AsyncIterator[MarkdownRenderer]:
    made = MarkdownRenderer(deadline=60)
    yield made
    made.close()


async def test_stranger_02_a_text_is_rendered_once_by_another_process(rendering: MarkdownRenderer) -> None:
    first, second = await asyncio.gather(rendering.html("**a** \ud800"), rendering.html("**a** \ud800"))

    assert first == second == await rendering.html("**a** \ud800") == "<p><strong>a</strong> \ufffd</p>"
    assert rendering.rendered == 1


async def test_stranger_02_a_text_that_takes_too_long_is_shown_as_it_is_and_the_next_is_rendered() -> None:
    rendering = MarkdownRenderer(deadline=0)

    assert await rendering.html("**a**") == render_plain_html("**a**")
    rendering.close()


@pytest.mark.slow
async def test_stranger_02_the_next_text_is_rendered_after_the_process_was_ended(rendering: MarkdownRenderer) -> None:
    assert await rendering.html("*a*") == "<p><em>a</em></p>"
    rendering.close()

    assert await rendering.html("*b*") == "<p><em>b</em></p>"


async def test_stranger_02_a_reader_that_leaves_takes_nothing_from_the_others(rendering: MarkdownRenderer) -> None:
    leaves, stays = asyncio.create_task(rendering.html("*a*")), asyncio.create_task(rendering.html("*a*"))
    await asyncio.sleep(0)
    leaves.cancel()

    assert await stays == "<p><em>a</em></p>"
    assert await rendering.html("*b*") == "<p><em>b</em></p>"


async def test_stranger_02_what_is_remembered_is_bounded() -> None:
    rendering = MarkdownRenderer(deadline=60, largest=100)
    for text in ("a" * 40, "b" * 40, "b" * 40, "a" * 40):
        assert text in await rendering.html(text)

    assert rendering.rendered == 3  # only the last one was still there
    rendering.close()


async def test_stranger_new_a_text_does_not_wait_for_ever_behind_heavy_ones(rendering: MarkdownRenderer) -> None:
    rendering._patience = 0.05
    await rendering._turn.acquire()  # as a room full of heavy texts has it
    async with asyncio.timeout(PATIENCE_S):
        assert await rendering.html("*mine*") == render_plain_html("*mine*")
    rendering._turn.release()
    rendering._patience = 60
    assert "<em>mine</em>" in await rendering.html("*mine*")

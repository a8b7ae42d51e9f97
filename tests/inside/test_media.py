"""Media kind × provider: one table, and a kind that is read from the bytes."""

from pathlib import Path

import pytest

from gatepost.flow.sessions.sandbox.provider_specs import list_own_providers
from gatepost.inside.media import (
    LARGEST,
    MediaHandling,
    MediaKind,
    get_audio_format,
    get_file_handling,
    get_handling,
    kind_of,
    list_attachments,
    read_block,
)
from gatepost.inside.providers.contract import Item, ItemKind
from gatepost.inside.runner import find_provider
from gatepost_testing.provider_context import make_context

HEADS = {
    b"\xff\xd8\xff\xe0": MediaKind.JPEG,
    b"\x89PNG\r\n\x1a\n": MediaKind.PNG,
    b"GIF89a": MediaKind.GIF,
    b"RIFF\x00\x00\x00\x00WEBPVP8 ": MediaKind.WEBP,
    b"%PDF-1.7": MediaKind.PDF,
    b"RIFF\x00\x00\x00\x00WAVEfmt ": MediaKind.AUDIO,
    b"ID3\x04": MediaKind.AUDIO,
    b"\xff\xf3\x40\xc0": MediaKind.AUDIO,
    b"OggS": MediaKind.AUDIO,
    b"\x00\x00\x00\x20ftypM4A ": MediaKind.AUDIO,
    b"hello": MediaKind.OTHER,
    b"RIFF": MediaKind.OTHER,
    b"": MediaKind.OTHER,
}
OF_KIND = {kind: head for head, kind in reversed(HEADS.items())}
PICTURES = {MediaKind.JPEG, MediaKind.PNG, MediaKind.GIF, MediaKind.WEBP}
BLOCKS = {
    "anthropic": PICTURES | {MediaKind.PDF},
    "openai": PICTURES | {MediaKind.PDF},
    "claude": PICTURES | {MediaKind.PDF},
    "codex": PICTURES,
    "opencode": PICTURES | {MediaKind.PDF},
    "acp": PICTURES,
    "gemini": PICTURES,
    "goose": PICTURES,
}


PROVIDERS = sorted(list_own_providers())
ACP = ("acp", "gemini", "goose")  # the agent says which blocks it takes


@pytest.fixture(autouse=True, scope="module")
def loaded() -> None:
    for name in PROVIDERS:
        find_provider(name, None)


def ways(provider: str) -> dict[MediaKind, MediaHandling]:
    return {kind: get_handling(provider, head, 100) for kind, head in OF_KIND.items()}


@pytest.mark.parametrize("head", list(HEADS), ids=[repr(head)[:24] for head in HEADS])
def test_a_kind_is_read_from_the_first_bytes(head: bytes) -> None:
    assert kind_of(head) is HEADS[head]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_gets_blocks_of_what_it_takes_words_of_what_is_said_and_files_of_the_rest(provider: str) -> None:
    found = ways(provider)

    assert {kind for kind, way in found.items() if way is MediaHandling.BLOCK} == BLOCKS.get(provider, set())
    assert found[MediaKind.AUDIO] is (MediaHandling.BOTH if provider in ACP else MediaHandling.WORDS)
    assert found[MediaKind.OTHER] is MediaHandling.FILE


def test_a_model_that_hears_gets_what_its_endpoint_takes() -> None:
    wav, mp3, ogg = OF_KIND[MediaKind.AUDIO], b"ID3\x04", b"OggS"

    assert [get_handling("openai", head, 100, native=True) for head in (wav, mp3, ogg)] == [
        MediaHandling.BLOCK,
        MediaHandling.BLOCK,
        MediaHandling.WORDS,
    ]
    assert {get_handling(name, wav, 100, native=True) for name in set(PROVIDERS) - {"openai", *ACP}} == {
        MediaHandling.WORDS
    }
    assert [get_audio_format(head) for head in (wav, mp3, b"\xff\xf3", ogg, b"????ftypM4A")] == [
        *("wav", "mp3", "mp3", "ogg", "m4a"),
    ]


def test_a_provider_that_declares_nothing_gets_files_and_words() -> None:
    assert set(ways("nobody").values()) == {MediaHandling.FILE, MediaHandling.WORDS}


def test_what_is_too_large_for_a_block_stays_a_file() -> None:
    png, sound = OF_KIND[MediaKind.PNG], OF_KIND[MediaKind.AUDIO]

    assert get_handling("anthropic", png, LARGEST[MediaKind.PNG]) is MediaHandling.BLOCK
    assert get_handling("anthropic", png, LARGEST[MediaKind.PNG] + 1) is MediaHandling.FILE
    assert get_handling("acp", sound, LARGEST[MediaKind.AUDIO] + 1) is MediaHandling.WORDS


def test_a_file_that_is_not_what_it_is_called_is_what_its_bytes_say(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"GIF89a....")
    (tmp_path / "b.png").write_bytes(b"just words")

    assert read_block("openai", tmp_path / "a.jpg") == (MediaKind.GIF, b"GIF89a....")
    assert read_block("openai", tmp_path / "b.png") is None
    assert read_block("openai", tmp_path / "missing") is None
    assert read_block("openai", tmp_path) is None
    assert get_file_handling("openai", tmp_path) is MediaHandling.FILE


def test_files_are_found_where_they_lie_whatever_a_stranger_calls_them(tmp_path: Path) -> None:
    place = make_context(tmp_path, agent=tmp_path, start=tmp_path, state=tmp_path, router=tmp_path, name="")
    given = [{"name": "../../etc/passwd"}, {"name": ""}, "odd", {"name": "b.png"}]
    item = Item(row=7, seq=1, kind=ItemKind.CHAT, sender="", text="", content={"attachments": given})

    assert list_attachments(place, item) == [tmp_path / "in/files/7/passwd", tmp_path / "in/files/7/b.png"]
    assert list_attachments(place, Item(row=7, seq=1, kind=ItemKind.CHAT, sender="", text="")) == []

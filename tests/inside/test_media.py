"""Media kind × provider: one table, and a kind that is read from the bytes."""

from pathlib import Path

import pytest

from gatepost.inside.media import LARGEST, WAYS, Kind, Way, kind_of, read_block, way_of

HEADS = {
    b"\xff\xd8\xff\xe0": Kind.JPEG,
    b"\x89PNG\r\n\x1a\n": Kind.PNG,
    b"GIF89a": Kind.GIF,
    b"RIFF\x00\x00\x00\x00WEBPVP8 ": Kind.WEBP,
    b"%PDF-1.7": Kind.PDF,
    b"RIFF\x00\x00\x00\x00WAVEfmt ": Kind.AUDIO,
    b"ID3\x04": Kind.AUDIO,
    b"OggS": Kind.AUDIO,
    b"\x00\x00\x00\x20ftypM4A ": Kind.AUDIO,
    b"hello": Kind.OTHER,
    b"RIFF": Kind.OTHER,
    b"": Kind.OTHER,
}


@pytest.mark.parametrize("head", list(HEADS), ids=[repr(head)[:24] for head in HEADS])
def test_a_kind_is_read_from_the_first_bytes(head: bytes) -> None:
    assert kind_of(head) is HEADS[head]


@pytest.mark.parametrize("provider", sorted(set(WAYS) - {"acp"}))
def test_pictures_and_documents_are_blocks_and_the_rest_files(provider: str) -> None:
    blocks = {kind for kind in Kind if way_of(provider, kind, 100) is Way.BLOCK}

    assert blocks == {Kind.JPEG, Kind.PNG, Kind.GIF, Kind.WEBP, Kind.PDF}


def test_an_acp_agent_may_get_pictures_and_sounds() -> None:
    blocks = {kind for kind in Kind if way_of("acp", kind, 100) is Way.BLOCK}

    assert blocks == {Kind.JPEG, Kind.PNG, Kind.GIF, Kind.WEBP, Kind.AUDIO}


def test_a_provider_that_is_not_in_the_table_gets_files() -> None:
    assert {way_of("nobody", kind, 1) for kind in Kind} == {Way.FILE}


def test_what_is_too_large_for_a_block_stays_a_file() -> None:
    assert way_of("anthropic", Kind.PNG, LARGEST[Kind.PNG]) is Way.BLOCK
    assert way_of("anthropic", Kind.PNG, LARGEST[Kind.PNG] + 1) is Way.FILE


def test_a_file_that_is_not_what_it_is_called_is_what_its_bytes_say(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"GIF89a....")
    (tmp_path / "b.png").write_bytes(b"just words")

    assert read_block("openai", tmp_path / "a.jpg") == (Kind.GIF, b"GIF89a....")
    assert read_block("openai", tmp_path / "b.png") is None
    assert read_block("openai", tmp_path / "missing") is None
    assert read_block("openai", tmp_path) is None

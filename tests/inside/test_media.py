"""Media kind × provider: one table, and a kind that is read from the bytes."""

from pathlib import Path

import pytest

import gatepost.inside.providers
from gatepost.inside.media import (
    LARGEST,
    NATIVE,
    WAYS,
    Kind,
    Way,
    attached,
    kind_of,
    look_at,
    read_block,
    sound_of,
    way_of,
)
from gatepost.inside.providers.contract import Item, Place

HEADS = {
    b"\xff\xd8\xff\xe0": Kind.JPEG,
    b"\x89PNG\r\n\x1a\n": Kind.PNG,
    b"GIF89a": Kind.GIF,
    b"RIFF\x00\x00\x00\x00WEBPVP8 ": Kind.WEBP,
    b"%PDF-1.7": Kind.PDF,
    b"RIFF\x00\x00\x00\x00WAVEfmt ": Kind.AUDIO,
    b"ID3\x04": Kind.AUDIO,
    b"\xff\xf3\x40\xc0": Kind.AUDIO,
    b"OggS": Kind.AUDIO,
    b"\x00\x00\x00\x20ftypM4A ": Kind.AUDIO,
    b"hello": Kind.OTHER,
    b"RIFF": Kind.OTHER,
    b"": Kind.OTHER,
}
OF_KIND = {kind: head for head, kind in reversed(HEADS.items())}
PICTURES = {Kind.JPEG, Kind.PNG, Kind.GIF, Kind.WEBP}
BLOCKS = {
    "anthropic": PICTURES | {Kind.PDF},
    "openai": PICTURES | {Kind.PDF},
    "claude": PICTURES | {Kind.PDF},
    "codex": PICTURES,
    "opencode": PICTURES | {Kind.PDF},
    "acp": PICTURES,
}


def ways(provider: str) -> dict[Kind, Way]:
    return {kind: way_of(provider, head, 100) for kind, head in OF_KIND.items()}


@pytest.mark.parametrize("head", list(HEADS), ids=[repr(head)[:24] for head in HEADS])
def test_a_kind_is_read_from_the_first_bytes(head: bytes) -> None:
    assert kind_of(head) is HEADS[head]


def test_every_provider_has_a_row_and_every_row_has_every_kind() -> None:
    (folder,) = gatepost.inside.providers.__path__
    files = {path.stem for path in Path(folder).glob("*.py")} - {"__init__", "contract"}

    assert set(WAYS) == files
    assert all(set(row) == set(Kind) for row in WAYS.values())


@pytest.mark.parametrize("provider", sorted(WAYS))
def test_a_provider_gets_blocks_of_what_it_takes_words_of_what_is_said_and_files_of_the_rest(provider: str) -> None:
    found = ways(provider)

    assert {kind for kind, way in found.items() if way is Way.BLOCK} == BLOCKS.get(provider, set())
    assert found[Kind.AUDIO] is (Way.BOTH if provider == "acp" else Way.WORDS)
    assert found[Kind.OTHER] is Way.FILE


def test_a_model_that_hears_gets_what_its_endpoint_takes() -> None:
    wav, mp3, ogg = OF_KIND[Kind.AUDIO], b"ID3\x04", b"OggS"

    assert [way_of("openai", head, 100, native=True) for head in (wav, mp3, ogg)] == [Way.BLOCK, Way.BLOCK, Way.WORDS]
    assert {way_of(name, wav, 100, native=True) for name in set(WAYS) - set(NATIVE) - {"acp"}} == {Way.WORDS}
    assert [sound_of(head) for head in (wav, mp3, b"\xff\xf3", ogg, b"????ftypM4A")] == [
        *("wav", "mp3", "mp3", "ogg", "m4a"),
    ]


def test_a_provider_that_is_not_in_the_table_gets_files_and_words() -> None:
    assert set(ways("nobody").values()) == {Way.FILE, Way.WORDS}


def test_what_is_too_large_for_a_block_stays_a_file() -> None:
    png, sound = OF_KIND[Kind.PNG], OF_KIND[Kind.AUDIO]

    assert way_of("anthropic", png, LARGEST[Kind.PNG]) is Way.BLOCK
    assert way_of("anthropic", png, LARGEST[Kind.PNG] + 1) is Way.FILE
    assert way_of("acp", sound, LARGEST[Kind.AUDIO] + 1) is Way.WORDS


def test_a_file_that_is_not_what_it_is_called_is_what_its_bytes_say(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"GIF89a....")
    (tmp_path / "b.png").write_bytes(b"just words")

    assert read_block("openai", tmp_path / "a.jpg") == (Kind.GIF, b"GIF89a....")
    assert read_block("openai", tmp_path / "b.png") is None
    assert read_block("openai", tmp_path / "missing") is None
    assert read_block("openai", tmp_path) is None
    assert look_at("openai", tmp_path) is Way.FILE


def test_files_are_found_where_they_lie_whatever_a_stranger_calls_them(tmp_path: Path) -> None:
    place = Place(
        workspace=tmp_path,
        agent=tmp_path,
        start=tmp_path,
        state=tmp_path,
        router=tmp_path,
        folder="home",
        name="",
        model="",
        timezone="UTC",
    )
    given = [{"name": "../../etc/passwd"}, {"name": ""}, "odd", {"name": "b.png"}]
    item = Item(row=7, seq=1, kind="chat", sender="", text="", content={"attachments": given})

    assert attached(place, item) == [tmp_path / "in/files/7/passwd", tmp_path / "in/files/7/b.png"]
    assert attached(place, Item(row=7, seq=1, kind="chat", sender="", text="")) == []

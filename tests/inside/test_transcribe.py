"""A program that makes transcripts inside the sandbox: bounded in time and output, and its failure is no transcript."""

from pathlib import Path

import pytest

from gatepost.inside import transcribe
from gatepost.inside.transcribe import LONGEST_TRANSCRIPT, AttachmentTranscriber, run_transcriber
from gatepost.mailbox.inbound import InboundRow


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "a; touch x $(y).ogg"
    path.write_bytes(b"OggS")
    return path


@pytest.mark.parametrize("command", [["head", "-c", "4"], ["head", "-c", "4", "{file}"]])
async def test_a_program_gets_the_path_of_the_recording_and_its_output_is_the_transcript(
    recording: Path, command: list[str]
) -> None:
    assert await run_transcriber(command, recording) == "OggS"
    assert sorted(recording.parent.iterdir()) == [recording]  # no shell has read the name


@pytest.mark.parametrize("command", [[], ["no-such-program-here"], ["false"], ["true"], ["sh", "-c", "echo x; exit 1"]])
async def test_a_program_that_fails_or_says_nothing_makes_no_transcript(recording: Path, command: list[str]) -> None:
    assert await run_transcriber(command, recording) is None


async def test_a_program_that_does_not_end_is_ended(recording: Path) -> None:
    assert await run_transcriber(["sh", "-c", "sleep 600", "{file}"], recording, seconds=0.1) is None


async def test_a_program_that_prints_without_end_is_ended(recording: Path) -> None:
    assert await run_transcriber(["sh", "-c", "yes words"], recording) is None
    long = ["sh", "-c", f"head -c {LONGEST_TRANSCRIPT + 9} /dev/zero | tr '\\0' x"]
    assert await run_transcriber(long, recording) == "x" * LONGEST_TRANSCRIPT


async def test_many_recordings_hold_a_turn_no_longer_than_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcribe, "COMMAND_S", 0.2)
    names = [f"{at}.ogg" for at in range(20)]
    folder = tmp_path / "in" / "files" / "1"
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"OggS" + bytes(20))
    options = {"transcribe": "command", "transcribe_command": ["sh", "-c", "sleep 600"]}
    row = InboundRow(id=1, seq=1, kind="chat", timestamp=1, content={"attachments": [{"name": name} for name in names]})
    (heard,) = await AttachmentTranscriber(tmp_path, tmp_path, "scripted", options).transcribe([row])
    assert [each["transcript"] for each in heard.content["attachments"]] == [""] * 20

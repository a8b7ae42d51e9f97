"""A program that makes transcripts inside the sandbox: bounded in time and output, and its failure is no transcript."""

from pathlib import Path

import pytest

from gatepost.inside.transcribe import LONGEST_TRANSCRIPT, run_transcriber


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

"""The model that a conversation had before anything was chosen. The protocol cannot ask for it, and an agent may store
a chosen model with the conversation. So the default is remembered here, for a group that no longer chooses a model."""

from pathlib import Path

from gatepost.inside.acp.protocol import SessionSetter


def model_to_choose(memory: Path, conversation: str, setter: SessionSetter, wanted: str) -> str:
    """'': none is to be chosen. `memory`: the file that knows the conversation's first model."""
    known, usual = _read(memory)
    if known != conversation:
        usual = setter.current
        memory.write_text(f"{conversation}\n{usual}", encoding="utf-8")
    if wanted:
        return wanted if wanted != setter.current else ""
    return usual if usual in setter.known and usual != setter.current else ""


def _read(memory: Path) -> tuple[str, str]:
    try:
        known, _, usual = memory.read_text(encoding="utf-8").partition("\n")
    except (FileNotFoundError, UnicodeDecodeError):
        return "", ""
    return known, usual

"""The wish for an agent, and whether it can be met: the caller's words, checked. Pure."""

from collections.abc import Mapping
from pathlib import Path

from gatepost.core.errors import Invalid
from gatepost.messages.text import clean, one_line

LONGEST_TITLE, LONGEST_PROMPT, MOST_LABELS = 60, 1_000_000, 50


def check_title(text: str, *, empty_ok: bool = False) -> str:
    title = one_line(text)
    if (not title and not empty_ok) or len(title) > LONGEST_TITLE:
        raise Invalid("title", f"must have 1 to {LONGEST_TITLE} characters")
    return title


def check_prompt(text: str) -> str:
    said = clean(text)
    if not said.strip() or len(said) > LONGEST_PROMPT:
        raise Invalid("prompt", f"is empty or longer than {LONGEST_PROMPT} characters")
    return said


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    kept = {clean(name).strip()[:100]: clean(value)[:1000] for name, value in labels.items()}
    if len(kept) > MOST_LABELS or "" in kept:
        raise Invalid("labels", f"are at most {MOST_LABELS}, each with a name")
    return kept


def check_path(cwd: str) -> str:
    """A folder of the gateway's own machine."""
    try:
        path = Path(clean(cwd).strip()).expanduser()
    except RuntimeError:
        raise Invalid("cwd", f"{cwd[:200]!r} names a user that is not known on the gateway's machine") from None
    if not path.is_absolute() or ".." in path.parts:
        raise Invalid("cwd", f"{cwd[:200]!r} is not an absolute path of the gateway's machine")
    return str(path)

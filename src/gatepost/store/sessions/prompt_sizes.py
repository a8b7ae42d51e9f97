"""How many tokens vendors counted for prompts that begin in one way: a bound for the next one that does."""

from collections.abc import Sequence

from msgspec import Struct

from gatepost.store.engine.table import Table
from gatepost.store.port import Db

MOST = 1000  # rows that are kept


class PromptSize(Struct, frozen=True):
    digest: str
    tokens: int
    counted_at: int


SIZES = Table("prompt_sizes", PromptSize)


def find(db: Db, digests: Sequence[str]) -> dict[str, int]:
    marks = ", ".join("?" * len(digests))
    rows = db.rows(f"SELECT digest, tokens FROM prompt_sizes WHERE digest IN ({marks})", tuple(digests))
    return {str(digest): int(tokens) for digest, tokens in rows}


def keep(db: Db, digests: Sequence[str], tokens: int, now: int) -> None:
    """Remember the smaller count. The oldest rows beyond the most that are kept are removed."""
    for digest in digests:
        SIZES.insert(
            db,
            "ON CONFLICT (digest) DO UPDATE SET counted_at = excluded.counted_at, tokens ="
            " CASE WHEN excluded.tokens < prompt_sizes.tokens THEN excluded.tokens ELSE prompt_sizes.tokens END",
            PromptSize(digest, tokens, now),
        )
    db.run(
        "DELETE FROM prompt_sizes WHERE counted_at < (SELECT MIN(counted_at) FROM (SELECT counted_at FROM prompt_sizes"
        " ORDER BY counted_at DESC LIMIT ?) AS newest)",
        (MOST,),
    )

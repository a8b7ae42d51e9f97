"""The page of backups: whether anybody can rely on them."""

from gatepost.core.clock import DAY
from gatepost.serve.backups.backup_folder import BackupFile, BackupProof
from gatepost.serve.web.dashboard.view import Tone
from gatepost.serve.web.pages.backups import make_notes, show_proof, show_trouble

NOW = 1_800_000_000_000_000


def made(days: int, trouble: str | None = "") -> BackupFile:
    proof = None if trouble is None else BackupProof(at=NOW, trouble=trouble)
    return BackupFile(name="gatepost-x.tar.gz", made_at=NOW - days * DAY, size=1, proof=proof)


def test_the_age_of_the_last_proven_one_stands_first_with_how_often_it_is_made() -> None:
    [never] = make_notes([made(0, None)], 0.0, NOW)
    assert never.tone is Tone.WARN and "none by itself" in never.hint
    [fresh], [old] = make_notes([made(1)], 24.0, NOW), make_notes([made(9)], 24.0, NOW)
    assert (fresh.tone, old.tone) == (Tone.GOOD, Tone.WARN)
    assert "one day old" in fresh.text and "9 days old" in old.text and "every 24 hours" in old.hint


def test_each_says_whether_it_can_be_put_back_and_why_not() -> None:
    assert [show_proof(made(0, each)).text for each in (None, "", "torn")] == [
        "not tried yet",
        "proven",
        "cannot be put back",
    ]
    assert [show_trouble(made(0, each)) for each in (None, "", "torn")] == [None, None, "torn"]

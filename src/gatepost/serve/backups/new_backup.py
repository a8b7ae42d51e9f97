"""A new backup: written, proven if that is asked, and sealed if recipients are set.

One that is sealed cannot be opened here any more, so it is proven before. Its digest is kept with the proof: as long
as the file has that digest it is what was proven.
"""

from pathlib import Path

from msgspec import Struct, structs

from gatepost.core import settings
from gatepost.core.clock import Clock
from gatepost.core.errors import Invalid
from gatepost.core.files.private_files import make_private_folder, make_whole_file
from gatepost.core.home import Home
from gatepost.serve.backups.archive import BackupContents, write_archive
from gatepost.serve.backups.backup_folder import (
    RECIPIENTS,
    BackupProof,
    find_usable_folder,
    keep_proof,
    make_name,
    read_proof,
)
from gatepost.serve.backups.proof import prove
from gatepost.serve.backups.sealed_files import is_sealed, measure_digest, parse_recipients, seal


class NewBackup(Struct, frozen=True):
    file: Path
    contents: BackupContents
    proof: BackupProof | None = None


def make_backup(home: Home, clock: Clock, file: Path | None = None, *, proven: bool = False) -> NewBackup:
    """`file`: where to, if not in the folder of backups."""
    config = settings.load_declared(home.path)
    recipients = config[RECIPIENTS]
    if recipients:
        parse_recipients(recipients)  # before the work
    if file is None:
        folder = find_usable_folder(home, config)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = folder / make_name(clock.now(), sealed=bool(recipients))
    if not recipients:
        contents = write_archive(home, file)
        return NewBackup(file, contents, prove_file(file) if proven else None)
    with make_whole_file("FILE", file) as target, make_private_folder(home.path) as folder:
        plain = folder / "backup.tar.gz"  # in the home, where all that is in it lies in the clear anyway
        contents = write_archive(home, plain)
        proof = prove(plain) if proven else None
        with plain.open("rb") as source:
            digest = seal(source, target, recipients)
    if proof is not None:
        proof = structs.replace(proof, digest=digest)
        keep_proof(file, proof)
    return NewBackup(file, contents, proof)


def prove_file(file: Path, identity: str = "") -> BackupProof:
    """Prove one that is there, and keep the outcome beside it. Without its identity a sealed one is compared with what
    was sealed after the trial."""
    if is_sealed(file) and not identity:
        return _compare(file)
    proof = prove(file, identity)
    keep_proof(file, proof)
    return proof


def _compare(file: Path) -> BackupProof:
    kept = read_proof(file)
    if kept is None or not kept.digest:
        why = f"{file.name} is encrypted, and was not tried out before it was"
        raise Invalid("--identity", f"{why}; name the file with the identity, or the kit by --kit")
    if measure_digest(file) == kept.digest:
        return kept
    changed = structs.replace(kept, trouble="the file is not the one that was encrypted after its trial")
    keep_proof(file, changed)
    return changed


def describe_comparison(proof: BackupProof) -> str:
    """Return what a comparison says; '' for a trial of the file itself."""
    same = proof.digest and not proof.trouble
    return (
        "the file is, byte for byte, what was encrypted after its trial; --identity opens it and tries it again"
        if same
        else ""
    )

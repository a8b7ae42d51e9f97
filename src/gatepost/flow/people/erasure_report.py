"""The report of forgetting a person, apart from the erasure: whoever reads it needs nothing else."""

from msgspec import Struct

NOT_LOOKED = "Files on other gateways were not looked at. They are when the person is forgotten."


class ErasureReport(Struct, frozen=True, kw_only=True):
    """Everything that is known of a person, or that was erased of it. Nothing here is kept."""

    person: str
    identities: tuple[str, ...]
    erased: bool
    counts: dict[str, int]
    stand_in: str = ""  # names them in the audit from now on
    rewritten: bool = False  # the store's file as a whole
    left: tuple[str, ...] = ()  # what could not be erased, or is for others to decide

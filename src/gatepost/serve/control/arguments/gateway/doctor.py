"""The doctor: what is well here, what is not, and the way out."""

from typing import Annotated

from msgspec import Struct

from gatepost.core.record_fields import option
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.serve.health.findings import Finding


class DoctorReport(Struct, frozen=True, kw_only=True):
    ok: bool
    findings: list[Finding]
    checked_at: int = 0


@declares("doctor.run", right="doctor", offline=False)
class RunDoctorArgs(OperationArgs[DoctorReport], frozen=True):
    """Look at everything that `gatepost doctor` looks at: each finding, the worst first, with the way out.

    A run takes a few seconds, so findings of the last minute are shown again.
    """

    fresh: Annotated[bool, option("Look again now.")] = False

"""Alerts: what is not well, who was told, and peace from one for a while."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gatepost.core.record_fields import ShownAs, argument, option, shown
from gatepost.serve.alerts.alert_messages import READ
from gatepost.serve.alerts.conditions import Severity
from gatepost.serve.control.declaration import OperationArgs, declares
from gatepost.serve.health.findings import Mend

WRITE = "alerts.write"
LONGEST_MUTE = 90 * 24.0  # hours
AlertId = Annotated[str, argument("The alert, as the list names it.", "alert")]


class AlertState(StrEnum):
    NEW = "new"  # it has not lasted long enough to be told
    UNTOLD = "untold"  # nobody could be reached, or it is a quiet hour
    TOLD = "told"
    MUTED = "muted"
    PASSING = "passing"  # it is not seen any more, and has to stay away for a while
    OVER = "over"


class AlertView(Struct, frozen=True, kw_only=True):
    """`told`: the channel. `page`: where it is looked at. `mend`: the operation that mends it."""

    id: Annotated[str, shown("Alert", ShownAs.CODE, head="alert")]
    state: Annotated[AlertState, shown("State", ShownAs.BADGE)]
    text: Annotated[str, shown("What")]
    cure: Annotated[str, shown("What to do", details=True)]
    command: Annotated[str, shown("Command", ShownAs.CODE, details=True)]
    since: Annotated[int, shown("Since", ShownAs.MOMENT, head="since")]
    told: Annotated[str, shown("Told on", head="told on")]
    told_at: Annotated[int | None, shown("Told", ShownAs.MOMENT, details=True)]
    muted_until: Annotated[int | None, shown("Muted until", ShownAs.MOMENT, details=True)]
    over_at: Annotated[int | None, shown("Over", ShownAs.MOMENT, head="over", details=True)]
    condition: Annotated[str, shown("Condition", ShownAs.CODE, details=True)]
    subject: str
    gateway: str
    severity: Severity
    page: str
    mend: Mend | None = None


class AlertTest(Struct, frozen=True):
    """`channel`: where the message goes; '' if nobody can be reached."""

    channel: str


@declares("alert.list", right=READ, reads=True)
class ListAlertsArgs(OperationArgs[list[AlertView]], frozen=True):
    """Show what is not well now, and who was told."""

    over: Annotated[bool, option("Those of the last month that are over, too.")] = False


@declares("alert.mute", right=WRITE)
class MuteAlertArgs(OperationArgs[AlertView], frozen=True):
    """Say nothing of an alert for a while, also if it comes back."""

    alert: AlertId
    hours: Annotated[float, option("For so many hours; 0: tell of it again."), Meta(ge=0, le=LONGEST_MUTE)] = 24.0


@declares("alert.test", right=WRITE, offline=False)
class SendTestAlertArgs(OperationArgs[AlertTest], frozen=True):
    """Send a message as an alert would be, and say on which channel. Once a minute at most."""

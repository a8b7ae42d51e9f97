"""Facts that Meta tells of the bot's number: decisions without I/O."""

from typing import Any
from urllib.parse import urlsplit

from gatepost.channels.contract import ChannelEnded, EndReason
from gatepost.channels.kit.http import PlatformRefusal
from gatepost.channels.whatsapp import wire

FIELDS = "display_phone_number,verified_name,quality_rating,status,messaging_limit_tier,name_status,platform_type"
HOOKS = "webhook_configuration"
NO_RIGHT = {3, 10, 131005, *range(200, 300)}
DELETED = 33  # the code of a number that is gone
NOT_VISIBLE = (100, 33)  # code and subcode: there is no such object, or the token may not see it
NOT_REGISTERED = "NOT_APPLICABLE"


def explain_refusal(refusal: PlatformRefusal, number: str) -> ChannelEnded | None:
    """None: the refusal is not about a right."""
    error = refusal.answer.get("error") if isinstance(refusal.answer, dict) else None
    code, subcode = (error.get("code"), error.get("error_subcode")) if isinstance(error, dict) else (None, None)
    if code not in NO_RIGHT and code != DELETED and (code, subcode) != NOT_VISIBLE:
        return None
    why = f"the token has no right to the number {number} (code {code})"
    remedy = "give the system user the account and whatsapp_business_messaging, or correct phone_number_id"
    return ChannelEnded(EndReason.RIGHTS, why, remedy)


def check_registered(number: dict[str, Any]) -> None:
    if number.get("platform_type") == NOT_REGISTERED:
        why = f"the number {number.get('display_phone_number', '')} is not registered for the Cloud API"
        raise ChannelEnded(
            EndReason.RIGHTS, why, f"register it with a PIN: POST /{number.get('id', '<number>')}/register"
        )


def check_hooks(answer: Any, instance: str) -> None:
    """An address that is set for the number or its account gets the messages in the place of the app's own."""
    hooks = answer.get(HOOKS) if isinstance(answer, dict) else None
    for level in ("phone_number", "whatsapp_business_account"):
        url = hooks.get(level) if isinstance(hooks, dict) else None
        if isinstance(url, str) and url and not urlsplit(url).path.rstrip("/").endswith(f"/channels/{instance}"):
            why = f"another program receives for this number, at {urlsplit(url).hostname}"
            remedy = f"remove that alternate callback URL of the {level.replace('_', ' ')}, or use another number"
            raise ChannelEnded(EndReason.SECOND_POLLER, why, remedy)


def list_notes(number: dict[str, Any]) -> tuple[str, ...]:
    """Return what the operator should know of the number."""
    notes = []
    quality, status = number.get("quality_rating"), number.get("status")
    if quality in ("YELLOW", "RED"):
        notes.append(f"the quality of the number is {quality}: people block or report it, and Meta may limit it")
    if status not in (None, "CONNECTED"):
        notes.append(f"the number is {status}, not CONNECTED")
    if number.get("name_status") == wire.NameReview.DECLINED:
        notes.append("Meta declined the display name")
    if tier := number.get("messaging_limit_tier"):
        notes.append(f"messaging limit {tier}: so many people a day can be written to first")
    return tuple(notes)

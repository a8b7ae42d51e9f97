"""Messages of Telegram besides words and files, as a line of words: a place, a poll, a story. Pure.

A kind that is not known here says so: an agent that hears nothing would answer as if nothing had been sent.
"""

from collections.abc import Callable, Mapping
from typing import Any

Payload = Mapping[str, Any]

LONGEST = 100  # characters of a name or a title
MOST = 20  # options or tasks that are named

# Fields that say of a message how it came, not what it is.
_AROUND = frozenset(
    [
        "message_id",
        "message_thread_id",
        "direct_messages_topic",
        "from",
        "sender_chat",
        "sender_boost_count",
        "sender_business_bot",
        "date",
        "business_connection_id",
        "chat",
        "forward_origin",
        "is_topic_message",
        "is_automatic_forward",
        "reply_to_message",
        "external_reply",
        "quote",
        "reply_to_story",
        "reply_to_checklist_task_id",
        "via_bot",
        "edit_date",
        "has_protected_content",
        "is_from_offline",
        "is_paid_post",
        "media_group_id",
        "author_signature",
        "paid_star_count",
        "link_preview_options",
        "suggested_post_info",
        "effect_id",
        "entities",
        "caption_entities",
        "caption",
        "text",
        "show_caption_above_media",
        "has_media_spoiler",
        "reply_markup",
        "sender_tag",
    ]
)
# Notices of the platform, which nobody wrote.
_NOTICES = frozenset(
    [
        "new_chat_members",
        "new_chat_member",
        "left_chat_member",
        "new_chat_title",
        "new_chat_photo",
        "delete_chat_photo",
        "group_chat_created",
        "supergroup_chat_created",
        "channel_chat_created",
        "message_auto_delete_timer_changed",
        "migrate_to_chat_id",
        "migrate_from_chat_id",
        "pinned_message",
        "successful_payment",
        "refunded_payment",
        "users_shared",
        "chat_shared",
        "gift",
        "unique_gift",
        "gift_upgrade_sent",
        "connected_website",
        "write_access_allowed",
        "passport_data",
        "proximity_alert_triggered",
        "boost_added",
        "chat_background_set",
        "checklist_tasks_done",
        "checklist_tasks_added",
        "direct_message_price_changed",
        "forum_topic_created",
        "forum_topic_edited",
        "forum_topic_closed",
        "forum_topic_reopened",
        "general_forum_topic_hidden",
        "general_forum_topic_unhidden",
        "giveaway_created",
        "giveaway_completed",
        "paid_message_price_changed",
        "suggested_post_approved",
        "suggested_post_approval_failed",
        "suggested_post_declined",
        "suggested_post_paid",
        "suggested_post_refunded",
        "video_chat_scheduled",
        "video_chat_started",
        "video_chat_ended",
        "video_chat_participants_invited",
        "web_app_data",
        "chat_owner_left",
        "chat_owner_changed",
    ]
)


def describe(message: Payload) -> str:
    """The line for what a message without words is; '' for a notice, and for what has a file."""
    for field, render in _KINDS.items():
        if found := message.get(field):
            return render(found)
    unknown = sorted(name for name in message if name not in _AROUND | _NOTICES | _FILES)
    if unknown and not any(name in _NOTICES | _FILES for name in message):
        return f"[a message of a kind that is not understood here: {_cut(unknown[0])}]"
    return ""


def describe_file(message: Payload) -> str:
    """The line that stands for a file in a quote; '' if there is none."""
    field = next((name for name in _FILES if message.get(name)), "")
    found = message.get(field)
    name = found.get("file_name") if isinstance(found, dict) else ""
    return (
        f"[{'file' if field == 'document' else field.replace('_', ' ')}{f': {_cut(name)}' if name else ''}]"
        if field
        else ""
    )


_FILES = frozenset(["photo", "voice", "audio", "video", "video_note", "animation", "document"])


def is_moving(message: Payload) -> bool:
    """Return True for a step of a place that somebody shares while they move."""
    return bool(message.get("location")) and not message.get("venue")


def _cut(value: Any) -> str:
    return " ".join(str(value or "").split())[:LONGEST]


def _name(chat: Payload) -> str:
    full = f"{chat.get('first_name') or ''} {chat.get('last_name') or ''}"
    return _cut(chat.get("title")) or _cut(full) or _cut(chat.get("username"))


def _render_location(place: Payload) -> str:
    where = f"{place.get('latitude')}, {place.get('longitude')}"
    return f"[live location, which moves on: {where}]" if place.get("live_period") else f"[location: {where}]"


def _render_venue(venue: Payload) -> str:
    place = venue.get("location") or {}
    where = f"{place.get('latitude')}, {place.get('longitude')}"
    return f"[place: {_cut(venue.get('title'))}, {_cut(venue.get('address'))} ({where})]"


def _render_poll(poll: Payload) -> str:
    options = " / ".join(_cut(each.get("text")) for each in (poll.get("options") or ())[:MOST])
    return f"[poll: {str(poll.get('question') or '')[:300]} — {options}]"


def _render_checklist(checklist: Payload) -> str:
    tasks = [
        f"{'☑' if each.get('completion_date') else '☐'} {_cut(each.get('text'))}"
        for each in (checklist.get("tasks") or ())[:MOST]
    ]
    return f"[checklist: {_cut(checklist.get('title'))} — {' / '.join(tasks)}]"


def _render_invoice(invoice: Payload) -> str:
    return f"[invoice: {_cut(invoice.get('title'))}, {invoice.get('total_amount')} {_cut(invoice.get('currency'))}]"


_KINDS: dict[str, Callable[[Payload], str]] = {  # in this order: a place with a name comes with its location, too
    "sticker": lambda found: str(found.get("emoji") or "")[:LONGEST],
    "venue": _render_venue,
    "location": _render_location,
    "contact": lambda found: f"[contact: {_name(found)}, {_cut(found.get('phone_number'))}]",
    "poll": _render_poll,
    "checklist": _render_checklist,
    "dice": lambda found: f"[{_cut(found.get('emoji'))} {found.get('value')}]",
    "story": lambda found: f"[a story of {_name(found.get('chat') or {}) or 'somebody'}, which bots cannot see]",
    "paid_media": lambda found: (
        f"[paid media: {len(found.get('paid_media') or ())} for {found.get('star_count')} stars, which bots cannot see]"
    ),
    "game": lambda found: f"[game: {_cut(found.get('title'))}]",
    "invoice": _render_invoice,
    "giveaway": lambda found: f"[giveaway with {found.get('winner_count')} winners]",
    "giveaway_winners": lambda found: f"[the {found.get('winner_count')} winners of a giveaway]",
}

"""Refusals of a Mastodon server, in the words of its own source."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

SOURCE = "https://github.com/mastodon/mastodon/blob/main"
ERRORS = f"{SOURCE}/app/controllers/concerns/api/error_handling.rb"
STATUSES = f"{SOURCE}/app/controllers/api/v1/statuses_controller.rb"
LENGTH = f"{SOURCE}/app/validators/status_length_validator.rb"
MEDIA = f"{SOURCE}/app/models/media_attachment.rb"
POSTING = f"{SOURCE}/app/services/post_status_service.rb"
LIMITS = f"{SOURCE}/config/initializers/rack_attack.rb"
SCOPES = f"{SOURCE}/config/locales/doorkeeper.en.yml"
WIRE, ADAPTER = "channels/mastodon/wire.py", "channels/mastodon/posting.py"
POST = "POST /api/v1/statuses"
NOT_FOUND = "Record not found"
TAKEN = frozenset(
    f"{kind}/{each}"
    for kind, listed in {
        "image": "jpeg png gif heic heif webp avif",
        "video": "webm mp4 quicktime ogg x-ms-asf",
        "audio": "wave wav x-wav x-pn-wave vnd.wave ogg vorbis mpeg mp3 webm flac aac m4a x-m4a mp4 3gpp",
    }.items()
    for each in listed.split()
)


def _post(text: str = "x", **more: Any) -> tuple[str, dict[str, Any]]:
    return POST, {"json": {"status": text, **more}}


def _upload(mime: str, data: bytes = b"x") -> tuple[str, dict[str, Any]]:
    return "POST /api/v2/media", {"files": {"file": ("a", data, mime)}}


def _rule(name: str, refusal: str, source: str, call: tuple[str, dict[str, Any]], **more: Any) -> PlatformRule:
    given = {"read_on": "2026-11-17", "status": 422, **more}
    return PlatformRule(name=name, refusal=refusal, source=source, call=call, **given)


RULES = (
    _rule(
        "token",
        "The access token is invalid",
        SCOPES,
        ("GET /api/v1/accounts/verify_credentials", {"headers": {"authorization": "Bearer wrong"}}),
        status=401,
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        "scope",
        "This action is outside the authorized scopes",
        "https://docs.joinmastodon.org/methods/oauth/: a token without the scope gets 403",
        (POST, {"json": {"status": "x"}, "$faults": ["no_rights"]}),
        status=403,
        read_on="",
        adapter="channels/mastodon/adapter.py: _lacks_scope",
    ),
    _rule(
        "right to post",
        "This action is not allowed",
        f"{ERRORS}: NotPermittedError",
        (POST, {"json": {"status": "x"}, "$faults": ["forbidden"]}),
        status=403,
    ),
    _rule(
        "rate limit",
        "Too many requests",
        f"{LIMITS}: 300 calls in 5 minutes; X-RateLimit-Reset has the end of the window",
        (POST, {"json": {"status": "x"}, "$faults": ["rate_limit"]}),
        status=429,
        adapter="channels/mastodon/adapter.py: _find_retry_after",
    ),
    _rule(
        "server away",
        "There was a temporary problem serving your request, please try again",
        ERRORS,
        (POST, {"json": {"status": "x"}, "$faults": ["busy"]}),
        status=503,
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "empty post",
        "Validation failed: Text can't be blank",
        f"{SOURCE}/app/models/status.rb: text, unless there are files or a quote",
        _post(""),
        adapter="channels/mastodon/adapter.py: _check_writing",
    ),
    _rule(
        "text length",
        "Validation failed: Text character limit of 500 exceeded",
        f"{LENGTH}: 500 graphemes; a link with its scheme counts 23, a name without its server",
        _post("https://a.io " * 21),
        limit=500,
        adapter=f"{WIRE}: fit_links",
    ),
    _rule(
        "length of an edit",
        "Validation failed: Text character limit of 500 exceeded",
        LENGTH,
        ("PUT /api/v1/statuses/$own", {"json": {"status": "x" * 501}}),
        limit=500,
        adapter=f"{WIRE}: fit_links",
    ),
    _rule(
        "empty edit",
        "Validation failed: Text can't be blank",
        f"{SOURCE}/app/models/status.rb",
        ("PUT /api/v1/statuses/$own", {"json": {"status": ""}}),
    ),
    _rule(
        "answered post",
        "The post you are trying to reply to does not appear to exist.",
        STATUSES,
        _post(in_reply_to_id="42"),
        status=404,
    ),
    _rule(
        "quoted post",
        "The post you are trying to quote does not appear to exist.",
        STATUSES,
        _post(quoted_status_id="42"),
        status=404,
    ),
    _rule(
        "kind of visibility",
        "Validation failed: Visibility is not included in the list",
        f"{SOURCE}/app/models/concerns/status/visibility.rb: public, unlisted, private, direct",
        _post(visibility="secret"),
        read_on="",
        adapter=f"{WIRE}: StatusVisibility",
    ),
    _rule(
        "number of files",
        "Cannot attach more than 4 files",
        f"{POSTING}: validate_media!",
        _post(media_ids=["$picture"] * 5),
        limit=4,
        adapter=f"{ADAPTER}: MOST_FILES",
    ),
    _rule(
        "known file",
        "Media 42 not found or already attached to another post",
        f"{POSTING}: validate_media!",
        _post(media_ids=["42"]),
    ),
    _rule(
        "pictures or one film",
        "Cannot attach a video to a post that already contains images",
        f"{POSTING}: validate_media!, more than one file of which any is sound or film",
        _post(media_ids=["$picture", "$film"]),
        adapter=f"{ADAPTER}: pick_media",
    ),
    _rule(
        "file that is ready",
        "Cannot attach files that have not finished processing. Try again in a moment!",
        f"{POSTING}: validate_media!",
        _post(media_ids=["$unready"]),
        adapter=f"{ADAPTER}: _upload",
    ),
    _rule(
        "type of a file",
        "Validation failed: File content type is invalid",
        f"{MEDIA}: IMAGE_MIME_TYPES, VIDEO_MIME_TYPES, AUDIO_MIME_TYPES",
        _upload("image/svg+xml"),
        adapter=f"{ADAPTER}: TAKEN",
    ),
    _rule(
        "size of a picture",
        "Validation failed: File file size must be less than 16 MB",
        f"{MEDIA}: IMAGE_LIMIT",
        _upload("image/png", bytes(16 * 1024 * 1024)),
        limit=16 * 1024 * 1024,
        adapter="channels/mastodon/__init__.py: largest_file",
    ),
    _rule("known post", NOT_FOUND, ERRORS, ("GET /api/v1/statuses/42", {}), status=404),
    _rule(
        "post to edit",
        NOT_FOUND,
        f"{STATUSES}: of this account",
        ("PUT /api/v1/statuses/$theirs", {"json": {"status": "x"}}),
        status=404,
    ),
    _rule(
        "post to delete",
        NOT_FOUND,
        f"{STATUSES}: of this account",
        ("DELETE /api/v1/statuses/$theirs", {}),
        status=404,
    ),
    _rule("post to favourite", NOT_FOUND, ERRORS, ("POST /api/v1/statuses/42/favourite", {}), status=404),
    _rule(
        "post to boost",
        "This action is not allowed",
        f"{SOURCE}/app/services/reblog_service.rb: nobody boosts a private mention",
        ("POST /api/v1/statuses/$private/reblog", {}),
        status=403,
    ),
    _rule("known account", NOT_FOUND, ERRORS, ("GET /api/v1/accounts/42", {}), status=404),
    _rule("known upload", NOT_FOUND, ERRORS, ("GET /api/v1/media/42", {}), status=404),
)
BY_NAME = index_rules(RULES)

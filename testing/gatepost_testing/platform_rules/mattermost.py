"""Refusals of a Mattermost server: the id of each error, then its words in English."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules, make_rule

SERVER = "https://github.com/mattermost/mattermost/blob/master/server"
API, MODEL, APP = f"{SERVER}/channels/api4", f"{SERVER}/public/model", f"{SERVER}/channels/app"
POSTING = "channels/mattermost/posting.py"
WIRE = "channels/mattermost/wire.py"
UNKNOWN = "x" * 26  # of the form of an id
NO_RIGHTS = "api.context.permissions.app_error: You do not have the appropriate permissions."
NO_POST = "app.post.get.app_error: Unable to get the post."
TOO_LONG = (
    "model.post.is_valid.message_length.app_error: Post Message property is longer than the maximum permitted length."
)
READ_ON = "2026-11-17"  # the day on which these were compared


def _rule(name: str, status: int, refusal: str, source: str, method: str, **more: Any) -> PlatformRule:
    return make_rule(name, status, refusal, source, method, read_on=READ_ON, **more)


def _post(**fields: Any) -> dict[str, Any]:
    return {"channel_id": "$team", "message": "x", **fields}


RULES = (
    _rule(
        "session",
        401,
        "api.context.session_expired.app_error: Invalid or expired session, please login again.",
        f"{SERVER}/channels/web/handlers.go: a request with a token that no session has",
        "GET users/me",
        given={"$token": "wrong"},
        adapter="channels/kit/http.py: ChannelEnded",
    ),
    _rule(
        "pace",
        429,
        "limit exceeded",
        f"{APP}/ratelimit.go: plain text, with Retry-After and X-RateLimit-Reset in whole seconds",
        "POST posts",
        given={"$faults": ["rate_limit"], **_post()},
        adapter="channels/mattermost/adapter.py: _find_retry_after",
    ),
    _rule(
        "a server that is busy",
        500,
        "app.post.save.app_error: Unable to save the Post.",
        f"{APP}/post.go: CreatePost, where the database does not answer; posts are not refused for load alone",
        "POST posts",
        given={"$faults": ["busy"], **_post()},
        adapter="channels/kit/http.py: Unavailable",
    ),
    _rule(
        "post length",
        400,
        TOO_LONG,
        f"{MODEL}/post.go: PostMessageMaxRunesV2, 65,535 bytes by 4, counted in code points",
        "POST posts",
        given=_post(message="é" * 16_384),
        limit=16_383,
        adapter="channels/mattermost/__init__.py: max_text",
    ),
    _rule(
        "edit length",
        400,
        TOO_LONG,
        f"{API}/post.go: patchPost, rejectOversizedMessage",
        "PUT posts/$own/patch",
        given={"message": "x" * 16_384},
        limit=16_383,
        adapter="channels/mattermost/__init__.py: max_text",
    ),
    _rule(
        "rights in a channel",
        403,
        NO_RIGHTS,
        f"{API}/post_utils.go: an unknown channel, or one without the bot, is a lack of rights",
        "POST posts",
        given=_post(channel_id=UNKNOWN),
        adapter=f"{WIRE}: get_channel_id",
    ),
    _rule(
        "known root",
        400,
        "api.post.create_post.root_id.app_error: Invalid RootId parameter.",
        f"{APP}/post.go: CreatePost, a root that is not there",
        "POST posts",
        given=_post(root_id=UNKNOWN),
        adapter=f"{WIRE}: check_post_id",
    ),
    _rule(
        "root of a thread",
        400,
        "api.post.create_post.root_id.app_error: Invalid RootId parameter.",
        f"{APP}/post.go: CreatePost, a root that answers another post",
        "POST posts",
        given=_post(root_id="$answer"),
        adapter=f"{WIRE}: read_post, thread",
    ),
    _rule(
        "root of the same channel",
        500,
        "api.post.create_post.channel_root_id.app_error: Invalid ChannelId for RootId parameter.",
        f"{APP}/post.go: CreatePost, a root of another channel is answered by 500",
        "POST posts",
        given=_post(root_id="$elsewhere"),
        adapter="channels/mattermost/adapter.py: _read_error",
    ),
    _rule(
        "number of files",
        400,
        "model.post.is_valid.file_ids.app_error: Invalid file ids. Note that uploads are limited to 10 files maximum."
        " Please use additional posts for more files.",
        f"{MODEL}/post.go: PostFileidsMaxRunes, 300 code points of JSON, so 10 ids",
        "POST posts",
        given=_post(file_ids=[UNKNOWN] * 11),
        limit=300,
        adapter=f"{POSTING}: MOST_FILES",
    ),
    _rule(
        "size of the props",
        400,
        "model.post.is_valid.props.app_error: Invalid props.",
        f"{MODEL}/post.go: PostPropsMaxRunes, 800,000 code points of JSON",
        "POST posts",
        given=_post(props={"a": "x" * 800_000}),
        limit=800_000,
    ),
    _rule(
        "id of a post",
        400,
        "api.context.invalid_url_param.app_error: Invalid or missing post_id parameter in request URL.",
        f"{SERVER}/channels/web/context.go: RequirePostId, 26 letters and digits",
        "DELETE posts/42",
        adapter=f"{WIRE}: check_post_id",
    ),
    _rule(
        "post to edit",
        403,
        NO_RIGHTS,
        f"{API}/post.go: postPatchChecks, an unknown post is a lack of rights",
        f"PUT posts/{UNKNOWN}/patch",
        given={"message": "x"},
    ),
    _rule(
        "edits of others",
        403,
        NO_RIGHTS,
        f"{API}/post.go: postPatchChecks, edit_others_posts",
        "PUT posts/$theirs/patch",
        given={"message": "x"},
    ),
    _rule(
        "post to delete",
        404,
        NO_POST,
        f"{API}/post.go: deletePost; {APP}/post.go: GetSinglePost",
        f"DELETE posts/{UNKNOWN}",
        adapter=f"{POSTING}: _delete",
    ),
    _rule(
        "deletions of others",
        403,
        NO_RIGHTS,
        f"{API}/post.go: deletePost, delete_others_posts",
        "DELETE posts/$theirs",
    ),
    _rule(
        "post to read",
        404,
        NO_POST,
        f"{API}/post.go: getPost; {APP}/post.go: GetSinglePost",
        f"GET posts/{UNKNOWN}",
    ),
    _rule(
        "post to pin",
        403,
        NO_RIGHTS,
        f"{API}/post.go: saveIsPinnedPost, an unknown post is a lack of rights",
        f"POST posts/{UNKNOWN}/pin",
    ),
    _rule(
        "reaction",
        400,
        "api.reaction.save_reaction.invalid.app_error: Reaction is not valid.",
        f"{API}/reaction.go: ids of 26 letters and digits, a name of 1 to 64 bytes",
        "POST reactions",
        given={"user_id": "$bot", "post_id": "$theirs", "emoji_name": "x" * 65},
        limit=64,
        adapter="channels/mattermost/emoji.py: get_name",
    ),
    _rule(
        "reactions of others",
        403,
        "api.reaction.save_reaction.user_id.app_error: You cannot save reaction for the other user.",
        f"{API}/reaction.go: saveReaction",
        "POST reactions",
        given={"user_id": UNKNOWN, "post_id": "$theirs", "emoji_name": "tada"},
        adapter=f"{POSTING}: _react",
    ),
    _rule(
        "post to react to",
        403,
        NO_RIGHTS,
        f"{API}/reaction.go: saveReaction, an unknown post is a lack of rights",
        "POST reactions",
        given={"user_id": "$bot", "post_id": UNKNOWN, "emoji_name": "tada"},
    ),
    _rule(
        "known emoji",
        404,
        "app.emoji.get_by_name.no_result: We couldn’t find the emoji.",
        f"{APP}/reaction.go: one of the system's (emoji_data.go), else of the server's own",
        "POST reactions",
        given={"user_id": "$bot", "post_id": "$theirs", "emoji_name": "no_such_sign"},
        adapter="channels/mattermost/emoji.py: every name of the table is in emoji_data.go",
    ),
    _rule(
        "known channel",
        404,
        f"app.channel.get.existing.app_error: Unable to find the existing channel {UNKNOWN}.",
        f"{API}/channel.go: getChannel; {APP}/channel.go: GetChannel",
        f"GET channels/{UNKNOWN}",
        adapter="channels/mattermost/adapter.py: _get_room",
    ),
    _rule(
        "channel to read",
        404,
        f"app.channel.get.existing.app_error: Unable to find the existing channel {UNKNOWN}.",
        f"{API}/post.go: getPostsForChannel",
        f"GET channels/{UNKNOWN}/posts",
        adapter="channels/mattermost/adapter.py: _receive_missed",
    ),
    _rule(
        "known person",
        404,
        "app.user.missing_account.const: Unable to find the user.",
        f"{API}/user.go: getUser",
        f"GET users/{UNKNOWN}",
        adapter="channels/mattermost/adapter.py: _get_name",
    ),
    _rule(
        "ids of a direct channel",
        400,
        "api.context.invalid_body_param.app_error: Invalid or missing user_id in request body.",
        f"{API}/channel.go: createDirectChannel, two ids of 26 letters and digits",
        "POST channels/direct",
        given={"$list": ["$bot", "42"]},
        adapter=f"{WIRE}: get_user_id",
    ),
    _rule(
        "person to write to",
        400,
        "api.channel.create_direct_channel.invalid_user.app_error: Invalid user ID for direct channel creation.",
        f"{APP}/channel.go: createDirectChannel",
        "POST channels/direct",
        given={"$list": ["$bot", UNKNOWN]},
        adapter=f"{POSTING}: open_direct",
    ),
    _rule(
        "room of a typing sign",
        403,
        NO_RIGHTS,
        f"{API}/user.go: publishUserTyping",
        "POST users/me/typing",
        given={"channel_id": UNKNOWN},
    ),
    _rule(
        "room of an upload",
        403,
        NO_RIGHTS,
        f"{API}/file.go: uploadFileMultipart, upload_file in the channel",
        f"POST files?channel_id={UNKNOWN}",
        given={"$file": b"x"},
    ),
    _rule(
        "file size",
        413,
        "api.file.upload_file.too_large_detailed.app_error: Unable to upload file a.txt. 105 bytes exceeds the maximum"
        " allowed 100 bytes.",
        f"{APP}/file.go: FileSettings.MaxFileSize, 100 MB unless set (here 100 bytes)",
        "POST files?channel_id=$team",
        given={"$file": b"x" * 105, "$largest": 100},
        limit=100 * 1024 * 1024,
        adapter="channels/mattermost/__init__.py: largest_file",
    ),
    _rule(
        "known file",
        404,
        "api.file.get_file_info.app_error: Failed to get file info.",
        f"{API}/file.go: getFile",
        f"GET files/{UNKNOWN}",
    ),
)
BY_NAME = index_rules(RULES)

"""Refusals of an IRC server: the numeric is the status, and the last parameter its words."""

from typing import Any

from gatepost_testing.platform_rules.rule import PlatformRule, index_rules

MODERN = "https://modern.ircdocs.horse"
NUMERICS = "https://defs.ircdocs.horse/defs/numerics.html"
CONNECTION, WIRE = "channels/irc/connection.py", "channels/irc/wire.py"
REFUSALS = f"{CONNECTION}: _is_refusal"


def _rule(numeric: int, name: str, refusal: str, source: str, line: str, **more: Any) -> PlatformRule:
    """`$before`: lines that a new connection writes first. Without them it is that of a bot that has logged in."""
    given = {"$before": more.pop("before")} if "before" in more else {}
    page = f"{MODERN}/#{source}"
    read_on = "2026-11-17"
    if source.startswith("https://"):
        page, read_on = source, ""
    return PlatformRule(
        name=name, status=numeric, refusal=refusal, source=page, call=(line, given), read_on=read_on, **more
    )


RULES = (
    _rule(401, "known nick", "No such nick/channel", "errnosuchnick-401", "PRIVMSG nobody :x", adapter=REFUSALS),
    _rule(403, "known channel", "No such channel", "errnosuchchannel-403", "PRIVMSG #unknown :x", adapter=REFUSALS),
    _rule(
        404,
        "rights in a channel",
        "Cannot send to channel",
        "errcannotsendtochan-404",
        "PRIVMSG #moderated :x",
        adapter=REFUSALS,
    ),
    _rule(411, "named target", "No recipient given (PRIVMSG)", "errnorecipient-411", "PRIVMSG"),
    _rule(
        412, "empty text", "No text to send", "errnotexttosend-412", "PRIVMSG #team :", adapter=f"{WIRE}: render_lines"
    ),
    _rule(
        417,
        "line length",
        "Input line was too long",
        "errinputtoolong-417: 512 bytes with CR LF, without the tags",
        "PRIVMSG #team :" + "é" * 250,
        limit=512,
        adapter=f"{WIRE}: LONGEST_TEXT",
    ),
    _rule(421, "known command", "Unknown command", "errunknowncommand-421", "SHOUT #team :x"),
    _rule(431, "some nick", "No nickname given", "errnonicknamegiven-431", "NICK"),
    _rule(
        432,
        "signs of a nick",
        "Erroneus nickname",
        "errerroneusnickname-432",
        "NICK 1bot",
        adapter=f"{CONNECTION}: ERRONEOUS_NICK",
    ),
    _rule(
        433,
        "free nick",
        "Nickname is already in use",
        "errnicknameinuse-433",
        "NICK ann",
        adapter=f"{CONNECTION}: NICK_IN_USE",
    ),
    _rule(
        451,
        "log-in before words",
        "You have not registered",
        "errnotregistered-451",
        "PRIVMSG #team :x",
        before=[],
        adapter=f"{CONNECTION}: _log_in",
    ),
    _rule(461, "parameters", "Not enough parameters", "errneedmoreparams-461", "JOIN"),
    _rule(462, "one log-in", "You may not reregister", "erralreadyregistered-462", "USER porter 0 * :porter"),
    _rule(
        465,
        "ban of the server",
        "You are banned from this server.",
        "erryourebannedcreep-465",
        "NICK banned",
        before=[],
        adapter=f"{CONNECTION}: BANNED",
    ),
    _rule(
        471,
        "room in a channel",
        "Cannot join channel (+l)",
        "errchannelisfull-471",
        "JOIN #full",
        adapter=f"{CONNECTION}: JOIN_REFUSED",
    ),
    _rule(
        473,
        "invitation",
        "Cannot join channel (+i)",
        "errinviteonlychan-473",
        "JOIN #invited",
        adapter=f"{CONNECTION}: JOIN_REFUSED",
    ),
    _rule(
        474,
        "ban of a channel",
        "Cannot join channel (+b)",
        "errbannedfromchan-474",
        "JOIN #banned",
        adapter=f"{CONNECTION}: JOIN_REFUSED",
    ),
    _rule(
        475,
        "key of a channel",
        "Cannot join channel (+k)",
        "errbadchannelkey-475",
        "JOIN #locked",
        adapter=f"{CONNECTION}: JOIN_REFUSED",
    ),
    _rule(
        476,
        "name of a channel",
        "Bad Channel Mask",
        "errbadchanmask-476",
        "JOIN team",
        adapter=f"{WIRE}: parse_target",
    ),
    _rule(
        477,
        "account in a channel",
        "Cannot send to channel (you need a registered nick)",
        f"{NUMERICS}: 477 ERR_NEEDREGGEDNICK, of channels with +M or +R on UnrealIRCd and Solanum",
        "PRIVMSG #registered :x",
        adapter=REFUSALS,
    ),
    _rule(
        486,
        "account for a person",
        "You must identify to a registered nick to private message ann-registered",
        f"{NUMERICS}: 486 ERR_NONONREG, of people with +R",
        "PRIVMSG ann-registered :x",
        adapter=REFUSALS,
    ),
    _rule(
        531,
        "person who ignores",
        "You are not permitted to send private messages to this user",
        f"{NUMERICS}: 531 ERR_CANTSENDTOUSER, of InspIRCd",
        "PRIVMSG ann-closed :x",
        adapter=REFUSALS,
    ),
    _rule(
        904,
        "password",
        "SASL authentication failed",
        "errsaslfail-904",
        "AUTHENTICATE cG9ydGVyAHBvcnRlcgB3cm9uZw==",
        before=["CAP LS 302", "NICK new", "USER new 0 * :new", "CAP REQ :sasl", "AUTHENTICATE PLAIN"],
        adapter=f"{CONNECTION}: LOGIN_FAILED",
    ),
    _rule(
        905,
        "piece of a password",
        "SASL message too long",
        "errsasltoolong-905: 400 bytes a piece",
        "AUTHENTICATE " + "x" * 401,
        before=["CAP LS 302", "NICK new", "USER new 0 * :new", "CAP REQ :sasl", "AUTHENTICATE PLAIN"],
        limit=400,
        adapter=f"{WIRE}: render_plain_login",
    ),
)
BY_NAME = index_rules(RULES)

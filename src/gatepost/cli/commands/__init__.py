"""The commands, in a file for each subject. The table names the file and the line of help of each, because a file is
imported only when one of its commands is used. `gatepost agent` is the function `agent_command` of `agents.py`."""

from typing import NamedTuple


class CommandEntry(NamedTuple):
    """`subject`: the module here that has the command."""

    subject: str
    help: str


COMMANDS = {
    "activity": CommandEntry("ledger", "Everything that happened, in words."),
    "agent": CommandEntry("agents", "Agents that work for you, without a chat."),
    "alert": CommandEntry("alerts", "What is not well, and who was told."),
    "audit": CommandEntry("logs", "The audit log, and a check of its hash chain."),
    "backup": CommandEntry("store", "Make backups, prove that they can be put back, and put one back."),
    "bridge": CommandEntry(
        "mcp", "Connect an MCP client that uses stdio to the gateway, or, inside a sandbox, to the tools."
    ),
    "budget": CommandEntry("spending", "How much may be spent on models."),
    "channel": CommandEntry("channels", "The platforms that people write on; what it can do stands in its help."),
    "chat": CommandEntry("chat", "Talk to the agents from a terminal, by hand or from a script."),
    "connect": CommandEntry("connect", "From the demo to a real agent in one command; alone, what can be connected."),
    "connector": CommandEntry(
        "agents", "Third-party MCP servers that the host runs, and what has changed about their tools."
    ),
    "cost": CommandEntry("spending", "The cost of models."),
    "doctor": CommandEntry("gateways", "Check the installation, and name the way out of each problem."),
    "down": CommandEntry("daemon", "End the running gateway and wait until it is gone."),
    "dropped": CommandEntry("ledger", "Which messages were refused, and why."),
    "egress": CommandEntry("secrets", "Which hosts agents may reach, and what they tried."),
    "errand": CommandEntry("errands", "Work that agents gave to other agents."),
    "gateway": CommandEntry("gateways", "The gateways that share a store."),
    "grant": CommandEntry("access", "The rights of groups, people and roles."),
    "group": CommandEntry("groups", "The agents and their folders."),
    "instructions": CommandEntry("groups", "What agents are told by AGENTS.md, version by version."),
    "invite": CommandEntry("credentials", "Codes that let people into a group."),
    "keep": CommandEntry(
        "ledger", "How long things are kept, how much there is of each, and removing what is over age now."
    ),
    "ledger": CommandEntry("ledger", "Is every message accounted for, and what became of each."),
    "login": CommandEntry(
        "credentials", "A new one-time address of the web page; and the browsers that are signed in."
    ),
    "logs": CommandEntry("logs", "The gateway's log."),
    "mcp": CommandEntry("mcp", "How other programs connect to the gateway's MCP servers."),
    "memory": CommandEntry("memory", "What agents keep beyond their conversations, and where it comes from."),
    "onboarding": CommandEntry("users", "People who may get a group of their own, and those who wait for it."),
    "overview": CommandEntry("overview", "How every agent stands, and what to do next."),
    "pair": CommandEntry("users", "Print a code that binds a chat identity to a person."),
    "panic": CommandEntry("gateways", "End everything now, and let nothing start until it is off."),
    "passkey": CommandEntry("credentials", "By which people sign in to the web page."),
    "permit": CommandEntry("requests", "Requests that wait for a person's decision."),
    "policy": CommandEntry("access", "Why a group may call a tool, or not; and whether a table of such cases holds."),
    "price": CommandEntry("spending", "The prices of models: list, set."),
    "prompt": CommandEntry("groups", "What an agent is told before a word is said, and what that costs."),
    "room": CommandEntry("routes", "The chats, and who may speak in each."),
    "route": CommandEntry("routes", "Which group gets a message."),
    "rule": CommandEntry("access", "Standing instructions that an agent gets in every turn."),
    "sandbox": CommandEntry("sessions", "Look around where an agent lives."),
    "secret": CommandEntry("secrets", "Keys and passwords, sealed; set, list, rm, bind, unbind, rotate, log."),
    "service": CommandEntry("daemon", "The gateway as a service of this machine: install, status, logs, restart."),
    "session": CommandEntry("sessions", "The conversations of agents."),
    "settings": CommandEntry("settings", "Every setting, its value and where that came from."),
    "site": CommandEntry("sites", "Pages of groups."),
    "skill": CommandEntry("skills", "What agents are taught, and who agreed to it."),
    "status": CommandEntry("status", "Show if the gateway runs, and what it does."),
    "stop": CommandEntry("sessions", "End what an agent does, now. The session goes on with its next message."),
    "store": CommandEntry("store", "The store as a whole. `copy` moves it from SQLite to PostgreSQL, or back."),
    "task": CommandEntry("tasks", "Scheduled work of agents."),
    "token": CommandEntry(
        "credentials", "Invitations, chat links and webhooks; and tokens by which programs run operations."
    ),
    "tools": CommandEntry("mcp", "The tools that a group may call."),
    "trace": CommandEntry("ledger", "One message's whole life, moment by moment."),
    "uninstall": CommandEntry("store", "What there is of Gatepost on this machine, and how each part is removed."),
    "unpair": CommandEntry("users", "Take an identity from a person."),
    "up": CommandEntry("daemon", "Start the gateway and serve until a signal ends it."),
    "upgrade": CommandEntry("store", "Try another version on a copy, switch to it, and go back if it is worse."),
    "user": CommandEntry("users", "The people, and what each may do."),
    "why": CommandEntry("overview", "Why a message has no answer, and what helps."),
    "worktree": CommandEntry("worktrees", "Copies of your repositories that agents work in."),
}

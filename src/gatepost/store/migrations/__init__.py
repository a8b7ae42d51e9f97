"""The steps of the schema. Those in `FOLDED` are in files by their numbers, each later one in a file of its own.

`baseline.sql` makes a new store as all steps in `FOLDED` left it. Steps are never edited: stores have them behind them.
"""

# The names of steps by the file that has them. A store keeps a record of each name.
FOLDED = {
    "steps_0001_0007": (
        "0001_spine",
        "0002_money",
        "0003_secrets",
        "0004_egress",
        "0005_limits",
        "0006_switches",
        "0007_bindings",
    ),
    "steps_0008_0014": (
        "0008_access",
        "0009_watchers",
        "0010_search",
        "0011_agents",
        "0012_plans",
        "0013_worktrees",
        "0014_answers",
    ),
    "steps_0015_0022": (
        "0015_secret_origins",
        "0016_early_stores",
        "0017_origins",
        "0018_calls",
        "0019_uids",
        "0020_growth",
        "0021_said",
        "0022_rule_state",
    ),
    "steps_0023_0031": (
        "0023_requests",
        "0024_identities",
        "0025_questions",
        "0026_waiting_turns",
        "0027_session_notes",
        "0028_tokens",
        "0029_requests_by_group",
        "0030_channels",
        "0031_tasks",
    ),
    "steps_0032_0048": (
        "0032_engagements",
        "0033_errands",
        "0034_forks",
        "0035_pinned_rules_and_replays",
        "0036_wanted_forks",
        "0037_live_rooms",
        "0038_task_titles_and_holds",
        "0039_unclear_effects",
        "0040_api_tokens",
        "0041_browsers_that_are_signed_in",
        "0042_passwords",
        "0043_passkeys",
        "0044_hook_links",
        "0045_web_routes",
        "0046_chat_links",
        "0047_spent_tickets",
        "0048_open_rows",
    ),
    "steps_0049_0058": (
        "0049_gateways",
        "0050_spending",
        "0051_approved_as_seen",
        "0052_incarnations",
        "0053_seen_cards",
        "0054_duty_health",
        "0055_turns_of_rooms",
        "0056_files_and_history",
        "0057_continued_messages",
        "0058_failed_calls",
    ),
}

# The last step of each release. A version opens stores of older ones, and none of a newer schema.
RELEASES = {"0.1.0": "0014_answers", "0.2.0": "0022_rule_state"}

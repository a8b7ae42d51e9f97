"""The files of `ops/`, read as what they are."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
RULES, RULE_TESTS = (ROOT / "ops" / "prometheus" / f"gatepost.rules{name}.yml" for name in ("", ".test"))
DASHBOARD = ROOT / "ops" / "grafana" / "gatepost.json"
PAGE = ROOT / "docs" / "monitoring.md"
VARIABLES = {"$job": "gatepost", "$gateway": ".*", "$__rate_interval": "1m"}


def read_rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def read_dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def list_queries() -> dict[str, str]:
    """Return the queries of the dashboard with values in the place of its variables, by panel."""
    found = {}
    for panel in read_dashboard()["panels"]:
        for target in panel.get("targets", ()):
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            found[f"{panel['title']} {target['refId']}"] = query
    return found


def list_metrics(expression: str) -> set[str]:
    """Return the names of series in an expression that are ours, recorded, or what Prometheus makes itself."""
    without_labels = re.sub(r"\{[^}]*\}", "", expression)
    return set(re.findall(r"\b(?:(?:[a-z_]+:)?gatepost_[a-z0-9_:]+|process_\w+|up)\b", without_labels))


def read_config() -> str:
    """Return the configuration of Prometheus that the page shows."""
    found = re.search(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]

"""Variables of the environment that look like a setting and are none. Nothing reads them, so nobody else says so."""

import difflib
import os
from collections.abc import Mapping

from gatepost.core.settings import SETTINGS

START = "GATEPOST_"
# Of 1. Others have variables with our name as well (Kubernetes makes GATEPOST_SERVICE_HOST), which mean no setting.
LEAST_LIKENESS = 0.85


def list_mistyped(environ: Mapping[str, str] | None = None) -> list[str]:
    """A sentence for each. Every setting must be declared before."""
    known = {each.variable.removeprefix(START) for _, each in SETTINGS.items()}
    warnings = []
    for name in sorted(os.environ if environ is None else environ):
        rest = name.removeprefix(START)
        if rest == name or rest in known:
            continue
        near = difflib.get_close_matches(rest[:200], known, n=1, cutoff=LEAST_LIKENESS)
        if near:
            warnings.append(f"nothing reads the variable {name}; did you mean {START}{near[0]}?")
    return warnings

"""Open files of this process: every connection is one, and most systems begin with few."""

import resource
from contextlib import suppress

ENOUGH = 65_536  # more only makes programs slow that go through all of them


def raise_limit() -> int:
    """Raise the soft limit as far as the hard one allows, up to what is enough; the limit that now holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # a container may forbid it; then it stays as it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return soft

"""`make bench-against REF=v0.2.0`: the hot paths of another commit and of this tree, in turn, in one run.

Both are measured by their own `bench/`, with the same environment and beside the same load, so that the ratio of the
two says what has changed. Whatever else the machine does only ever makes a figure worse, so the best of the rounds is
compared. A figure that the other commit did not measure is left out of its column.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROUNDS = 5
SWITCH_S = 0.001  # as in a gateway
READY = "gatepost is ready"
MORE_IS_BETTER = ("_per_s", "turns16")


def main(ref: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git = ["git", "-C", str(HERE.parent)]
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(other), ref], check=True)
        try:
            before: list[dict[str, float]] = []
            after: list[dict[str, float]] = []
            for _ in range(ROUNDS):
                before.append(_measure(other))
                after.append(_measure(HERE.parent))
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(other)], check=True)
    how = f"(the best of {ROUNDS} rounds in turn, medians of ratios)"
    print(f"{'figure':<24}{ref[:14]:>16}{'this tree':>16}{'change':>10}   {how}")
    for name in after[0]:
        best = _pick_best(name)
        new = best(each[name] for each in after)
        if name not in before[0]:
            print(f"{name:<24}{'-':>16}{new:>16,.2f}")
            continue
        old = best(each[name] for each in before)
        better = new >= old if name.endswith(MORE_IS_BETTER) else new <= old
        print(f"{name:<24}{old:>16,.2f}{new:>16,.2f}{'×':>4}{new / old:>6.2f}   {'better' if better else 'WORSE'}")


def _pick_best(name: str) -> Callable[[Iterable[float]], float]:
    """A ratio of two figures of a round has no best: either of them may have been disturbed."""
    if name.endswith("_x"):
        return statistics.median
    return max if name.endswith(MORE_IS_BETTER) else min


def _measure(tree: Path) -> dict[str, float]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree / "src"), str(tree / "testing")))}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", str(tree)]
    done = subprocess.run(command, cwd=tree, env=env, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def _ready_ms(folder: Path) -> float:
    env = {
        **os.environ,
        "GATEPOST_HOME": str(folder),
        "GATEPOST_LISTEN": "127.0.0.1:0",
        "GATEPOST_SANDBOX_KIND": "process",
    }
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    command = [sys.executable, "-m", "gatepost", "up"]
    child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if line.startswith(READY):
            break
    taken = (time.perf_counter() - start) * 1000
    child.terminate()
    child.communicate(timeout=30)
    return taken


def child(tree: Path) -> None:
    """In a process of its own, with the packages of that tree."""
    sys.path[:] = [str(tree / "bench"), *(each for each in sys.path if Path(each or ".").resolve() != HERE)]
    import uvloop

    import limits
    import run

    async def figures() -> dict[str, float]:
        echo = await limits.raw_echo_us(4000)
        sandbox = "bubblewrap" if limits.bwrap_ms() is not None else "process"
        reply, ingest, deliver = await run.replies(sandbox), await run.ingest_per_s(), await run.deliver_per_s()
        tool = await run.tools(4000)
        _, (gated, ungated) = await run.permission()
        known = {"statements": "warm_statements", "turns16": "turns16", "burst50": "burst50_s", "wake20": "wake20_s"}
        return {
            "warm_reply_ms": reply["warm"],
            "cold_reply_ms": reply["cold"],
            **{name: reply[key] for key, name in known.items() if key in reply},
            "ingest_per_s": ingest,
            "deliver_per_s": deliver,
            "tool_call_x": tool["read"] / echo,
            "tool_effect_x": tool["effect"] / echo,
            "bridge_call_x": tool["bridge"] / echo,
            "gated_read_x": gated / ungated,
        }

    sys.setswitchinterval(SWITCH_S)
    found = uvloop.run(figures())
    with tempfile.TemporaryDirectory() as folder:
        _ready_ms(Path(folder) / "h")  # makes the store and compiles the modules
        found["ready_ms"] = statistics.median(_ready_ms(Path(folder) / "h") for _ in range(5))
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]))
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit("which commit? make bench-against REF=v0.2.0")

"""A program that speaks as `codex app-server` does, as far as a turn needs it, and ends turns as a test wants it to:
the words of a turn say how. It keeps the words it took up, as Codex does, and all that it was asked, in asked.jsonl."""

import json
import os
import sys
from pathlib import Path

HOME = Path(os.environ["CODEX_HOME"])
THREAD = "th-1"


def say(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def tell(method: str, running: str, **params: object) -> None:
    say(method=method, params={"threadId": THREAD, "turnId": running, **params})


def keep(name: str, line: object) -> None:
    path = HOME / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def take_up(turn: str, params: dict[str, object]) -> None:
    keep(f"sessions/2026/01/01/rollout-now-{THREAD}.jsonl", params)
    tell("item/started", turn, item={"type": "userMessage", "id": "u", "clientId": params["clientUserMessageId"]})


def end(turn: str, text: str) -> None:
    tell("item/completed", turn, item={"type": "agentMessage", "id": "m", "text": text})
    tell("turn/completed", turn, turn={"id": turn, "status": "completed", "error": None})


def serve() -> None:
    turn, count = "", 0
    for line in sys.stdin:
        asked = json.loads(line)
        keep("asked.jsonl", asked)
        method, params = asked.get("method"), asked.get("params") or {}
        text = (params.get("input") or [{}])[0].get("text", "")
        if method in ("thread/start", "thread/resume"):
            say(id=asked["id"], result={"thread": {"id": THREAD}, "model": "m-1", "reasoningEffort": "low"})
        elif method == "turn/start":
            count += 1
            turn = f"turn-{count}"
            say(id=asked["id"], result={"turn": {"id": turn}})
            take_up(turn, params)
            if "die" in text:
                sys.exit("it was too much")
            if "babble" in text:
                sys.stdout.write("la la la\n")
                sys.stdout.flush()
                continue
            if "ask" in text:
                say(id=900, method="item/tool/requestUserInput", params={"threadId": THREAD})
            elif "write" in text:
                for thread, piece in (("other", "psst"), (THREAD, "Hel"), (THREAD, "lo")):
                    about = {"threadId": thread, "turnId": turn, "itemId": "m", "delta": piece}
                    say(method="item/agentMessage/delta", params=about)
                end(turn, "Hello")
            elif "poke" in text:
                about = {"codex_approval_kind": "mcp_tool_call", "tool_params": {"x": "1"}}
                words = 'Allow the gatepost_evil MCP server to run tool "send"?'
                told = {"serverName": "gatepost_evil", "_meta": about, "message": words}
                say(id=901, method="mcpServer/elicitation/request", params=told)
            elif (params.get("collaborationMode") or {}).get("mode") == "plan" and "propose" in text:
                tell("item/completed", turn, item={"type": "plan", "id": "p", "text": "1. sweep\n2. mop\n"})
                end(turn, "Here is my plan.")
            elif "wait" not in text:
                end(turn, f"answer to {text}")
        elif method == "turn/steer" and "too late" in text:
            say(id=asked["id"], error={"code": -32600, "message": "no active turn"})
            end(turn, "first done")
        elif method == "turn/steer":
            say(id=asked["id"], result={"turnId": turn})
            end(turn, "first done")  # without having taken it up
        elif asked.get("id") == 900:
            end(turn, asked["error"]["message"])
        elif asked.get("id") == 901:
            end(turn, asked["result"]["action"])
        elif "id" in asked:
            say(id=asked["id"], result={})


if sys.argv[1:] == ["app-server"]:
    serve()

"""A small agent that speaks the Agent Client Protocol, well or badly, as the words of its prompt say. The standard
library alone; it keeps its conversations in HOME. CAN: what it can, of `load resume image login v2 mute models late`.
"""

import json
import os
import re
import socket
import sys
import threading
import time
from pathlib import Path

CAN = os.environ.get("CAN", "load").split()
HOME = Path(os.environ["HOME"])
write_lock = threading.Lock()
answers = {}
cancelled = threading.Event()


def write(message):
    with write_lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def update(session, what, **rest):
    write({"method": "session/update", "params": {"sessionId": session, "update": {"sessionUpdate": what, **rest}}})


def say(session, text, **rest):
    for piece in (text[: len(text) // 2], text[len(text) // 2 :]):
        update(session, "agent_message_chunk", content={"type": "text", "text": piece}, **rest)


def ask(method, params):
    number, got = f"q{len(answers)}", threading.Event()
    answers[number] = [got, None]
    write({"id": number, "method": method, "params": params})
    got.wait()
    return answers[number][1]


def tool(session, text):
    title, kind = (text.split("as ")[1].split()[:2]) if "as " in text else ("gatepost_set_work", "other")
    call = {"toolCallId": "c1", "title": title, "rawInput": {"content": "plum"}, "kind": kind}
    first = "bash" if kind == "renamed" else title
    if kind == "renamed":
        del call["kind"]
    update(session, "tool_call", status="pending", **{**call, "title": first, "rawInput": {}})
    options = [{"optionId": f"o-{kind}", "name": kind, "kind": kind} for kind in ("reject_once", "allow_once")]
    outcome = "o-allow_once"
    if "permission" in text:
        answer = ask("session/request_permission", {"sessionId": session, "toolCall": call, "options": options})
        outcome = answer["result"]["outcome"].get("optionId", "cancelled")
    update(session, "tool_call_update", toolCallId="c1", status="in_progress", rawInput=call["rawInput"])
    content = [{"type": "content", "content": {"type": "text", "text": outcome}}]
    status = "completed" if outcome == "o-allow_once" else "failed"
    update(session, "tool_call_update", toolCallId="c1", status=status, content=content)
    say(session, f"used: {outcome}")


def bad(session, text):
    if "crash" in text:
        sys.stderr.write("out of plums\n")
        sys.stderr.flush()
        os._exit(7)
    if "garbage" in text:
        with write_lock:
            for _ in range(1000):
                sys.stdout.write("this is no JSON\n")
            sys.stdout.flush()
    if "long line" in text:
        with write_lock:
            for _ in range(100):
                sys.stdout.write("x" * 1024 * 1024)
            sys.stdout.flush()
    if "deep line" in text:
        with write_lock:
            for _ in range(30):
                sys.stdout.write("[" * 100_000 + "\n")
            sys.stdout.flush()
    if "closes" in text:
        os.close(1)
    threading.Event().wait()


def call_model():
    """Return the status line and the body."""
    host, port = os.environ["OPENAI_BASE_URL"].split("/")[2].split(":")
    with socket.create_connection((host, int(port))) as link:
        link.sendall(b"POST /openai/v1/chat/completions HTTP/1.1\r\nhost: egress\r\ncontent-length: 2\r\n\r\n{}")
        head, _, body = b"".join(iter(lambda: link.recv(4096), b"")).partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body.decode()


def ask_model(session, text):
    """Say what came, as agents do that take the end of a stream for the end of the answer; a refusal is tried on, or
    given up. Return False if it was given up."""
    head, body = call_model()
    if b" 400 " in head:
        say(session, "a summary", messageId="m1")
        call_model()
        say(session, "the answer", messageId="m2")
    elif b" 200 " not in head and "give up" in text:
        return False
    elif b" 200 " not in head:
        threading.Event().wait()
    elif "silence" in text:
        return True
    elif "pieces" in text:
        while True:
            said = [json.loads(each)["content"] for each in re.findall(r"data: (.*\"content\".*)", body)]
            say(session, "".join(said), messageId="m1")
            if "finish_reason" in body:
                return True
            if "give up" in text:
                return False
            ask("fs/read_text_file", {"sessionId": session, "path": "/"})  # once answered, the pieces have arrived
            _, body = call_model()
    else:
        say(session, body)
    return True


def files(session, text):
    path = text.split("file ")[1].split()[0]
    read = ask("fs/read_text_file", {"sessionId": session, "path": path})
    wrote = ask("fs/write_text_file", {"sessionId": session, "path": f"{path}.new", "content": "made"})
    terminal = ask("terminal/create", {"sessionId": session, "command": "ls"})
    said = [read.get("result", {}).get("content") or read["error"]["message"], "result" in wrote]
    say(session, json.dumps([*said, terminal["error"]["code"]]))


def prompt(number, session, blocks):
    with (HOME / session).open("a") as file:
        file.write(json.dumps(blocks) + "\n")
    text = blocks[-1]["text"]
    kinds = [block["type"] for block in blocks]
    stop = "end_turn"
    if "fail: " in text:
        error = {"code": -32603, "message": "Internal error", "data": {"details": text.split("fail: ")[1]}}
        write({"id": number, "error": error})
        return
    if "log in" in text:
        write({"id": number, "error": {"code": -32000, "message": "Authentication required"}})
        return
    if "ask the model" in text:
        if not ask_model(session, text):
            write({"id": number, "error": {"code": -32603, "message": "Internal error: the script says so"}})
            return
    elif "long answer" in text:
        say(session, "the first half")
        stop = "max_tokens"
    elif "tool" in text:
        say(session, "first this")
        tool(session, text)
    elif "file " in text:
        files(session, text)
    elif "hang" in text:
        update(session, "agent_thought_chunk", content={"type": "text", "text": "hm"})
        cancelled.wait()
        stop = "cancelled"
    elif any(word in text for word in ("crash", "garbage", "line", "closes", "ignore")):
        bad(session, text)
    elif "plan" in text:
        entries = [{"content": "sow", "status": "completed"}, {"content": "reap", "status": "in_progress"}]
        update(session, "plan", entries=entries)
        update(session, "something_new", plums=3)
        say(session, "one", messageId="m1")
        say(session, "two", messageId="m2")
    elif "which" in text:
        say(session, f"mode {modes.get(session)}" if "models" not in CAN else f"model {model()}")
    else:
        say(session, json.dumps([len((HOME / session).read_text().splitlines()), kinds]))
    usage = {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7}
    write({"id": number, "result": {"stopReason": stop, "usage": usage}})
    cancelled.clear()


modes = {}


def opened(session):
    mode = {"currentModeId": "build", "availableModes": [{"id": each, "name": each} for each in ("build", "plan")]}
    models = {"currentModelId": model(), "availableModels": [{"modelId": each} for each in ("big", "small")]}
    return {"sessionId": session, "modes": mode, **({"models": models} if "models" in CAN else {})}


def model():
    """Kept like a conversation."""
    return (HOME / "model").read_text() if (HOME / "model").exists() else "big"


def load(number, session, repeat):
    if not (HOME / session).exists():
        write({"id": number, "error": {"code": -32002, "message": "no such session"}})
        return
    late = "late" in CAN  # it repeats the conversation after its answer
    if late:
        write({"id": number, "result": {**opened(session), "sessionId": ""}})
    for line in (HOME / session).read_text().splitlines() if repeat else ():
        for block in json.loads(line):
            update(session, "user_message_chunk", content=block)
        if late:
            say(session, "what was answered then")
    if not late:
        write({"id": number, "result": {**opened(session), "sessionId": ""}})


def take(message):
    number, method, params = message.get("id"), message.get("method"), message.get("params", {})
    if method == "initialize":
        if "mute" in CAN:
            return
        able = {
            "loadSession": "load" in CAN,
            "promptCapabilities": {"image": "image" in CAN},
            "sessionCapabilities": {"resume": {}} if "resume" in CAN else {},
        }
        methods = [{"id": "by-key", "name": "By a key"}]
        version = 2 if "v2" in CAN else params["protocolVersion"]
        answer = {"protocolVersion": version, "agentCapabilities": able, "authMethods": methods}
        write({"id": number, "result": answer})
    elif method == "session/new" and "login" in CAN:
        write({"id": number, "error": {"code": -32000, "message": "Authentication required"}})
    elif method == "session/new":
        session = f"s-{time.time_ns()}"
        (HOME / "servers.json").write_text(json.dumps([params, dict(os.environ)]))
        write({"id": number, "result": opened(session)})
    elif method in ("session/load", "session/resume"):
        load(number, params["sessionId"], method == "session/load")
    elif method == "session/set_mode":
        modes[params["sessionId"]] = params["modeId"]
        write({"id": number, "result": None})
    elif method == "session/set_model":
        (HOME / "model").write_text(params["modelId"])
        write({"id": number, "result": None})
    elif method == "session/prompt":
        threading.Thread(target=prompt, args=(number, params["sessionId"], params["prompt"]), daemon=True).start()
    elif method == "session/cancel":
        cancelled.set()
    elif method is None and number in answers:
        answers[number][1] = message
        answers[number][0].set()


threading.excepthook = lambda args: (sys.__excepthook__(*args[:3]), os._exit(9))
for line in sys.stdin:
    take(json.loads(line))

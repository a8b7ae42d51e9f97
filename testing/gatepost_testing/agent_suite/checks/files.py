"""Files: what people send, what an agent sends, and what its tools show it."""

import json
import struct
import sys
import zlib
from base64 import b64encode

from gatepost.flow.sessions.sandbox.provider_specs import load_spec
from gatepost.inside.media import MediaHandling
from gatepost.messages.inbound import Attachment, AttachmentKind
from gatepost_testing.agent_suite.trial import AgentTrial, expect
from gatepost_testing.waiting import until


def make_png() -> bytes:
    """Return a picture that decoders take."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    size = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    pixels = b"".join(b"\0" + bytes((17 * line + column) % 251 for column in range(192)) for line in range(64))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


PICTURE = Attachment(name="a.jpg", mime="image/jpeg", kind=AttachmentKind.IMAGE, data=make_png())
MARK = b64encode(PICTURE.data)[:24]  # how the picture begins, as it is sent
PDF = Attachment(
    name="b.pdf",
    mime="application/pdf",
    kind=AttachmentKind.FILE,
    data=b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>",
)
TABLE = Attachment(name="c.csv", mime="text/csv", kind=AttachmentKind.FILE, data=b"day,sold\n1,41\n")
CAMERA = f"""
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {{}}
    if asked["method"] == "initialize":
        result = {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}}}
        result["serverInfo"] = {{"name": "camera", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {{"tools": [{{"name": "photo", "description": "Takes one.", "inputSchema": {{"type": "object"}}}}]}}
    else:
        picture = {{"type": "image", "mimeType": "image/png", "data": "{b64encode(PICTURE.data).decode()}"}}
        result = {{"content": [{{"type": "text", "text": "the garden"}}, picture]}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], "result": result}}), flush=True)
"""


async def check_image_in(trial: AgentTrial) -> None:
    """The model is shown a picture, once in each request, also in later turns."""
    async with trial.running() as gateway:
        expect(await trial.ask("look", attachments=(PICTURE,)), ["I see."])
        expect(await trial.ask("again"), ["I see."])
        (live,) = gateway.sessions.awake
        handed = gateway.home.session(live.session.id) / "state" / trial.agent.provider / "handed.json"
        assert not handed.exists() or MARK not in handed.read_bytes()
    for request in trial.asked:
        assert request.raw.count(MARK) == 1 and b"image/png" in request.raw  # as its bytes say, whatever its name
        assert request.count_text("a.jpg, saved as") == 1


async def check_file_in_and_out(trial: AgentTrial) -> None:
    """It opens a file at the path that it is told, and sends one that it makes of it."""
    path = r"c\.csv, saved as ([^\]]+)\]"
    make = trial.agent.run("tr 1 2 < {1} | tee sold.csv")
    send = {"call": "send_file", "with": {"filepath": "sold.csv"}}
    async with trial.running({"when": path, "do": [make, send, {"say": "sent"}]}) as gateway:
        await trial.send("make all of it two", attachments=(PDF, TABLE))
        assert "sent" in await trial.settle()
        files = [(each.name, each.size) for sent in trial.channel.sent for each in sent.message.files]
        assert files == [("sold.csv", len(TABLE.data))], files
        shown = load_spec(gateway.home, trial.agent.provider).media.pdf is not MediaHandling.FILE
    first, last = trial.asked[0], trial.asked[-1]
    assert first.raw.count(b64encode(PDF.data)[:24]) == int(shown)
    assert first.count_text("b.pdf, saved as") == first.count_text("c.csv, saved as") == 1
    assert last.count_text("2,42", "tool") == 1


async def check_picture_from_a_tool(trial: AgentTrial) -> None:
    """The model is shown the picture that a connector's tool gives."""
    home = trial.folder / "h"
    home.mkdir()
    (trial.folder / "camera.py").write_text(CAMERA)
    command = json.dumps([sys.executable, str(trial.folder / "camera.py")])
    (home / "gatepost.toml").write_text(f'[connectors.garden]\ncommand = {command}\ntier = "world"\n')
    look = {"call": "call_tool", "with": {"name": "garden_photo", "arguments": {}}}
    async with trial.running({"when": "the garden please", "do": [look, {"say": "seen"}]}) as gateway:
        await until(lambda: "garden_photo" in gateway.tools, "the connector's tools")
        expect(await trial.ask("the garden please"), ["seen"])
    assert trial.asked[-1].raw.count(MARK) == 1

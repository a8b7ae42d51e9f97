"""What a turn has said, found without reading it: a digest of the text and the message that it answers, by turn. And
how many bytes a turn's results have, counted as they are taken.

Only turns that are still open are asked for these, so only their rows are filled in.
"""

import hashlib
import json

from gatepost.store.port import Db


def apply(db: Db) -> None:
    db.define("ALTER TABLE turns ADD COLUMN said_bytes {int} NOT NULL DEFAULT 0")
    db.define("ALTER TABLE outbox ADD COLUMN digest {text} NOT NULL DEFAULT ''")
    db.define("ALTER TABLE outbox ADD COLUMN answers {int}")  # the seq of a message in the session
    rows = db.rows(
        "SELECT o.id, o.instance, o.address, m.text, o.payload, o.origin, o.op FROM outbox o"
        " JOIN messages m ON m.id = o.message_id JOIN turns t ON t.id = o.turn_id WHERE t.ended_at IS NULL"
    )
    for row_id, instance, address, text, payload, origin, op in rows:
        answers = json.loads(payload).get("in_reply_to")
        said = "\0".join((instance, address, text)).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(said).hexdigest() if op == "send" and origin != "status" else ""
        known = answers if isinstance(answers, int) else None
        db.run("UPDATE outbox SET digest = ?, answers = ? WHERE id = ?", (digest, known, row_id))
    db.define("CREATE INDEX outbox_said ON outbox (turn_id, digest, answers) WHERE turn_id IS NOT NULL")

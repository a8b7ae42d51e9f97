// What is on its way to the gateway. It has the same key however often it is tried: the gateway accepts it once.
import { ask, Refusal } from "/static/wire.js";
import { t } from "/static/texts.js";

const MOST_RETRIES = 10; // then it is for whoever wrote it to say so
const FIELDS = { room: "room", thread: "thread", id: "key", reply_to: "replyTo", text: "text" };

export class Outgoing {
  // Calls on.changed(conversation, line) and on.lost().
  constructor(talk, on) {
    Object.assign(this, { talk, on, retrying: false });
  }

  async deliver(line) {
    const conversation = this.talk.at(line.room, line.thread);
    Object.assign(line, { state: "sending", lost: false });
    this.on.changed(conversation, line);
    const form = new FormData();
    for (const [name, field] of Object.entries(FIELDS)) form.append(name, line[field]);
    for (const file of line.uploads) form.append("file", file, file.name);
    try {
      const { state, reason } = await ask("/api/messages", { method: "POST", body: form });
      Object.assign(line, { state, reason });
    } catch (error) {
      // What the gateway refused stays refused; what did not reach it is tried again when it is back.
      line.lost = error instanceof Refusal === false;
      Object.assign(line, { state: "unsent", reason: error.message });
      if (line.lost) this.on.lost();
    }
    this.on.changed(conversation, line);
  }

  // One after the other, in the order in which they were written.
  async retryLost() {
    if (this.retrying) return;
    this.retrying = true;
    try {
      const lines = [...this.talk.conversations.values()].flatMap((one) => [...one.sending.values()]);
      const due = lines.filter((one) => one.lost && one.state === "unsent" && (one.retries ?? 0) < MOST_RETRIES);
      for (const line of due.sort((a, b) => a.at - b.at)) {
        line.retries = (line.retries ?? 0) + 1;
        await this.deliver(line);
        if (line.lost) break; // away again: the next connection goes on
      }
    } finally {
      this.retrying = false;
    }
  }
}

// A file that was sent before, to be sent again.
export async function readFile({ name, url }) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(t("{name} is no longer kept.", { name }));
  const content = await answer.blob();
  return new File([content], name, { type: content.type });
}

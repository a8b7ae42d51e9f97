// A chat in two files, as an adapter of Gatepost. People append lines such as `ann: hello` to chat.in; what the bot
// says is appended to chat.out. Start: GATEPOST_URL=… GATEPOST_TOKEN=… FOLDER=… node adapter.mjs
import { randomUUID } from "node:crypto";
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const { GATEPOST_URL, GATEPOST_TOKEN, FOLDER = "." } = process.env;
const headers = {
  authorization: `Bearer ${GATEPOST_TOKEN}`,
  "content-type": "application/json",
  "x-gatepost-program": `files-${randomUUID()}`, // new at each start: so the gateway knows which one is the newest
};
const read = (name) => (existsSync(`${FOLDER}/${name}`) ? readFileSync(`${FOLDER}/${name}`, "utf8") : "");
const lines = (name) => read(name).split("\n").slice(0, -1); // a line without its end is still being written
const sent = new Map(lines("chat.out").map((line) => JSON.parse(line)).map(({ key, id }) => [key, id]));

async function call(method, path, body) {
  for (let wait = 100; ; wait = Math.min(2 * wait, 5000)) {
    try {
      const answer = await fetch(GATEPOST_URL + path, { method, headers, body: body && JSON.stringify(body) });
      if (answer.status === 401 || answer.status === 409) throw Object.assign(new Error(await answer.text()), { end: 1 });
      if (answer.status < 500 && answer.status !== 429) return answer;
    } catch (error) {
      if (error.end) throw error; // the token was taken back, or another program has it: nothing helps
    }
    await sleep(wait); // no connection, or the gateway asks us to wait
  }
}

async function receive() {
  for (let next = Number(read("cursor") || 0); ; await sleep(50)) {
    const fresh = lines("chat.in").slice(next, next + 100);
    if (!fresh.length) continue;
    const events = fresh.map((line, number) => {
      const [, name, text] = /^(\w+): (.*)$/.exec(line) ?? ["", "somebody", line];
      const ids = { address: "files:chat", platform_id: `in-${next + number}`, sender: `files:user/${name}` };
      return { ...ids, sender_name: name, text, verb: "mention" };
    });
    const answer = await call("POST", "/events", { events }); // 200: all of them are durable there
    if (!answer.ok) console.error("left out:", await answer.text());
    writeFileSync(`${FOLDER}/cursor.new`, String((next += fresh.length)));
    renameSync(`${FOLDER}/cursor.new`, `${FOLDER}/cursor`);
  }
}

async function send() {
  for (;;) {
    const { effects = [] } = await (await call("GET", "/effects?wait=20")).json();
    for (const { id, kind, message } of effects) {
      if (kind !== "send") continue; // typing needs no answer
      const known = sent.get(message.key) ?? `out-${sent.size}`;
      if (!sent.has(message.key)) // `keyed`: one effect of two sends with the same key, also after a crash
        appendFileSync(`${FOLDER}/chat.out`, `${JSON.stringify({ key: message.key, id: known, text: message.text })}\n`);
      sent.set(message.key, known);
      await call("POST", `/effects/${id}`, { status: "sent", platform_id: known });
    }
  }
}

await Promise.all([receive(), send()]);

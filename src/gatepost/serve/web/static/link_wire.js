// The way from a link's chat to the gateway. The link's token leaves the address for the fragment at once, which no
// server and no referrer sees; a visitor's own secret takes its place with their first words.
import { t } from "/static/texts.js";

const SILENCE_MS = 45_000; // the gateway speaks at least every 15 s
const SLOWEST_MS = 15_000;

export class Closed extends Error {}
class Replaced extends Error {}

function readToken() {
  const inPath = /^\/chat\/([\w-]+)$/.exec(location.pathname)?.[1];
  const token = inPath ?? location.hash.slice(1);
  if (inPath) history.replaceState(null, "", `/chat/#${token}`);
  return token;
}

// A browser that keeps nothing for a frame of another site forgets the conversation with the page.
const kept = {
  get(name) {
    try {
      return sessionStorage.getItem(name) ?? "";
    } catch {
      return "";
    }
  },
  set(name, value) {
    try {
      if (value) sessionStorage.setItem(name, value);
      else sessionStorage.removeItem(name);
    } catch {
      // it is still in memory
    }
  },
};

async function read(answer) {
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // an answer without words
  }
  if (answer.status === 401) throw new Closed("closed");
  if (!answer.ok) throw new Error((body.error?.text ?? t("The chat said {status}.", { status: answer.status })).replaceAll("`", ""));
  return body;
}

// Calls hear.message, hear.typing, hear.state(live) and hear.closed.
export class LinkWire {
  constructor(hear) {
    this.hear = hear;
    this.token = readToken();
    this.secret = kept.get(`visitor ${this.token}`);
    this.maxText = 4000;
    this.wait = 500;
  }

  async ask(path, body) {
    const headers = { "x-gatepost": "1", ...(this.secret && { authorization: `Bearer ${this.secret}` }) };
    const options = body ? { method: "POST", body: JSON.stringify(body), headers: { ...headers, "content-type": "application/json" } } : { headers };
    let answer;
    try {
      answer = await fetch(`/chat/api/${path}`, { ...options, credentials: "omit" });
    } catch {
      throw new Error(t("The chat does not answer. Is there a connection?"));
    }
    return await read(answer);
  }

  // The name of whoever answers.
  async start() {
    const { name, maxText } = await this.ask("link", { link: this.token });
    this.maxText = maxText;
    this.hear.state(true);
    if (this.secret) await this.resume();
    return name;
  }

  // A conversation that is over makes way for a new one, as long as the link works.
  async resume() {
    try {
      await this.load();
      this.follow();
    } catch (error) {
      if (!(error instanceof Closed)) throw error;
      this.keep("");
    }
  }

  keep(secret) {
    this.secret = secret;
    kept.set(`visitor ${this.token}`, secret);
  }

  async load() {
    const { messages, cursor } = await this.ask("messages");
    this.cursor = cursor;
    messages.forEach((message) => this.hear.message(message));
  }

  async send(id, text) {
    if (!this.secret) {
      this.keep((await this.ask("visits", { link: this.token })).visitor);
      await this.load();
      this.follow();
    }
    await this.ask("messages", { id, text });
  }

  // By fetch, because an EventSource sends no header, and a secret has no place in an address.
  async follow() {
    const control = new AbortController();
    let timer = 0;
    const expect = () => {
      clearTimeout(timer);
      timer = setTimeout(() => control.abort(), SILENCE_MS);
    };
    try {
      expect();
      const headers = { authorization: `Bearer ${this.secret}`, "x-gatepost": "1" };
      const answer = await fetch(`/chat/api/events?after=${this.cursor}`, { headers, signal: control.signal, credentials: "omit" });
      if (!answer.ok) await read(answer);
      let rest = "";
      for await (const chunk of decode(answer.body)) {
        expect();
        const parts = (rest + chunk).split("\n\n");
        rest = parts.pop();
        for (const part of parts) this.receive(part);
      }
      throw new Error("the stream ended");
    } catch (error) {
      clearTimeout(timer);
      if (error instanceof Closed) {
        this.hear.closed();
        return;
      }
      this.hear.state(false);
      if (error instanceof Replaced) {
        window.addEventListener("focus", () => this.follow(), { once: true }); // another tab has it: two would take turns
        return;
      }
      setTimeout(() => this.follow(), this.wait);
      this.wait = Math.min(this.wait * 2, SLOWEST_MS);
    }
  }

  receive(part) {
    const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
    if (fields.event === "closed") throw new Closed("closed");
    if (fields.event === "replaced") throw new Replaced("replaced");
    const data = JSON.parse(fields.data ?? "{}");
    if (fields.event === "message") this.hear.message(data);
    if (fields.event === "typing") this.hear.typing(data.on);
    if (fields.event === "cursor") {
      this.cursor = data.cursor;
      this.wait = 500;
      this.hear.state(true);
    }
  }
}

async function* decode(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

// The way to the gateway: requests that carry our header, and the one stream that survives what networks do.
import { send } from "/static/csrf.js";

export class Refusal extends Error {}

export async function ask(path, options = {}) {
  let answer;
  try {
    answer = await send(path, options);
  } catch {
    throw new Error("The gateway does not answer.");
  }
  if (answer.status === 401) {
    location.reload(); // signed out: the same address shows how to get in
  }
  let body = {};
  try {
    body = await answer.json();
  } catch {
    // an answer without words
  }
  if (!answer.ok) {
    const text = (body.error?.text ?? `The gateway said ${answer.status}.`).replaceAll("`", "");
    throw answer.status < 500 ? new Refusal(text) : new Error(text);
  }
  return body;
}

const SILENCE_MS = 45_000; // the gateway speaks at least every 15 s
const SLOWEST_MS = 15_000;

// Calls hear.message, hear.typing, hear.draft, hear.pins, hear.halted, hear.opened and hear.state("live" | "lost" | "elsewhere"). Resumes behind the last cursor.
export class Stream {
  constructor(cursor, hear) {
    this.cursor = cursor;
    this.hear = hear;
    this.wait = 500;
    this.source = null;
    this.timer = 0;
    window.addEventListener("online", () => this.open());
    window.addEventListener("focus", () => this.source || this.open());
    this.open();
  }

  open() {
    this.close();
    const source = new EventSource(`/api/events?after=${this.cursor}`);
    this.source = source;
    this.hear.opened(); // what is being written is told anew
    this.expect();
    source.addEventListener("message", (event) => this.hear.message(JSON.parse(event.data)));
    source.addEventListener("typing", (event) => this.hear.typing(JSON.parse(event.data)));
    source.addEventListener("draft", (event) => this.hear.draft(JSON.parse(event.data)));
    source.addEventListener("pins", (event) => this.hear.pins(JSON.parse(event.data)));
    source.addEventListener("cursor", (event) => {
      const { cursor, halted, may_go_on: mayGoOn } = JSON.parse(event.data);
      this.cursor = cursor;
      this.hear.halted(halted, mayGoOn);
      this.wait = 500;
      this.expect();
      this.hear.state("live");
    });
    source.addEventListener("replaced", () => {
      this.close();
      this.hear.state("elsewhere");
    });
    source.addEventListener("error", () => this.again());
  }

  close() {
    clearTimeout(this.timer);
    this.source?.close();
    this.source = null;
  }

  expect() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.again(), SILENCE_MS);
  }

  again() {
    this.close();
    this.hear.state("lost");
    this.timer = setTimeout(async () => {
      try {
        await ask("/api/start"); // reloads the page if we are signed out meanwhile
      } catch {
        // still away: the next try comes later
      }
      this.open();
    }, this.wait);
    this.wait = Math.min(this.wait * 2, SLOWEST_MS);
  }
}

// Why one's own message has no answer: a sentence under it, and the one step that helps. The gateway decides both.
import { send } from "/static/csrf.js";
import { t } from "/static/texts.js";

const PATIENCE_MS = 5_000; // most answers come sooner
const SHORT_MS = { held: 0, retry: 0, accepted: 1_000, queued: 1_000 }; // by state: an agent that can takes it sooner
const AGAIN_MS = 10_000; // it may be for another reason by then
const LATEST = 3; // of one's own messages
const OPEN = new Set(["accepted", "queued", "retry", "held", "working"]);
const ENDED = new Set(["failed", "refused", "observed"]);
const DO = "/dashboard/do/";
const PAGES = { "permit.answer": ({ id }) => `/dashboard/requests/${id}`, "ledger.trace": ({ message }) => `/dashboard/ledger/${message}` };

export async function run(operation, args) {
  const body = new URLSearchParams(Object.entries(args).map(([name, value]) => [name, value === true ? "on" : String(value)]));
  const answer = await send(`${DO}${operation}`, { method: "POST", headers: { accept: "application/json" }, body });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error ?? t("The gateway does not answer."));
  return said.answer;
}

export class Unanswered {
  // Calls changed() when a reason is known, and refuse(words) when a step came to nothing.
  constructor({ changed, refuse }) {
    Object.assign(this, { changed, refuse, known: new Map(), timer: 0, asking: false });
  }

  // Before the lines are drawn: each gets the reason that is known for its state.
  attach(lines) {
    const own = lines.filter((line) => line.mine && line.id && !line.deleted && (OPEN.has(line.state) || ENDED.has(line.state)));
    this.waiting = own.slice(-LATEST);
    for (const line of this.waiting) {
      const known = this.known.get(line.id);
      const tells = known?.why && (line.state !== "working" || known.why.next); // that it works is shown already
      if (tells && known.state === line.state) line.why = known.why;
    }
    clearTimeout(this.timer);
    const due = this.waiting.map((line) => this.dueAt(line)).filter(Number.isFinite);
    if (due.length) this.timer = setTimeout(() => this.ask(), Math.max(Math.min(...due) - Date.now(), 100));
  }

  dueAt(line) {
    const known = this.known.get(line.id);
    if (known?.state !== line.state) return ENDED.has(line.state) ? 0 : (known?.seenAt ?? this.see(line)) + (SHORT_MS[line.state] ?? PATIENCE_MS);
    return OPEN.has(line.state) ? known.askedAt + AGAIN_MS : Infinity;
  }

  see(line) {
    const seenAt = Math.max(line.at, Date.now() - PATIENCE_MS);
    this.known.set(line.id, { seenAt });
    return seenAt;
  }

  async ask() {
    if (this.asking || document.visibilityState !== "visible") {
      this.timer = setTimeout(() => this.ask(), PATIENCE_MS);
      return;
    }
    this.asking = true;
    for (const line of this.waiting.filter((one) => this.dueAt(one) <= Date.now())) {
      const before = this.known.get(line.id);
      let why = null;
      try {
        why = await run("overview.why", { message: line.id });
      } catch {
        // the state alone is shown
      }
      this.known.set(line.id, { seenAt: before?.seenAt ?? line.at, state: line.state, askedAt: Date.now(), why });
    }
    this.asking = false;
    this.changed();
  }

  // A step that says what it does is done here; any other is shown where it is decided.
  async press(line, button) {
    const { next, asks } = line.why;
    if (asks) {
      const { operation, args } = next;
      location.assign(PAGES[operation]?.(args) ?? `${DO}${operation}?${new URLSearchParams(args)}`);
      return;
    }
    button.disabled = true;
    try {
      await run(next.operation, next.operation === "permit.answer" ? { ...next.args, allow: true } : next.args);
      this.known.delete(line.id);
    } catch (error) {
      this.refuse(error.message);
    }
    this.changed();
  }
}

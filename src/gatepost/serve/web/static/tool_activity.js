// What an agent did for an answer: the tools that it used, one line for each turn, which opens. Whoever may not see it
// gets none, and the page shows none.
import { make } from "/static/dom.js";
import { ask } from "/static/wire.js";
import { t } from "/static/texts.js";

const AGAIN_MS = 1500; // while it works
const opened = new Set(); // turns whose line somebody opened stay so when it is drawn anew

export class Work {
  constructor(changed) {
    Object.assign(this, { changed, place: null, timer: 0 });
    this.forget();
  }

  forget() {
    Object.assign(this, { session: "", open: "", turns: new Map() });
  }

  // For the conversation on the screen. `works`: somebody is at it, so there will be more.
  watch(place, works) {
    const [moved, turned] = [place !== this.place, works !== this.works];
    Object.assign(this, { place, works });
    if (moved) this.forget();
    if (moved || turned) this.read(moved);
  }

  async read(all = false) {
    clearTimeout(this.timer);
    const { place } = this;
    const query = new URLSearchParams({ room: place.room, thread: place.thread, latest: all ? "" : "1" });
    let found = null;
    try {
      found = await ask(`/api/work?${query}`);
    } catch {
      // the conversation goes on without
    }
    if (place !== this.place) return;
    if (found) this.put(found);
    clearTimeout(this.timer);
    if (this.works) this.timer = setTimeout(() => this.readVisibly(), AGAIN_MS);
  }

  readVisibly() {
    if (document.visibilityState === "visible") this.read();
    else this.timer = setTimeout(() => this.readVisibly(), AGAIN_MS);
  }

  put({ session, open, turns }) {
    const before = JSON.stringify([this.open, ...this.turns]);
    if (session !== this.session) this.forget();
    Object.assign(this, { session, open });
    for (const [turn, calls] of Object.entries(turns)) this.turns.set(turn, calls);
    if (JSON.stringify([this.open, ...this.turns]) !== before) this.changed();
  }

// Each turn's calls stand with the first that was said in it. Those of a turn that has said nothing yet are returned.
  attach(lines) {
    const told = new Set();
    for (const line of lines) {
      if (!line.turn || line.verb === "status" || told.has(line.turn)) continue;
      told.add(line.turn);
      line.work = this.turns.get(line.turn);
    }
    return told.has(this.open) ? [] : (this.turns.get(this.open) ?? []);
  }
}

export function drawWork(name, calls) {
  const folded = make("details", "work");
  folded.open = opened.has(name);
  folded.addEventListener("toggle", () => (folded.open ? opened.add(name) : opened.delete(name)));
  const steps = make("ol");
  for (const { name, verdict } of calls) {
    const step = make("li");
    step.append(make("b", "", name));
    if (verdict && verdict !== "allowed") step.append(make("small", "", verdict.replaceAll("_", " ")));
    steps.append(step);
  }
  folded.append(make("summary", "", calls.length === 1 ? t("Used 1 tool") : t("Used {count} tools", { count: calls.length })), steps);
  return folded;
}

// In a place of its own. What did not change is not touched, so that who stands on it stays there.
export function showWork(element, name, calls) {
  const look = JSON.stringify(calls);
  if (element.dataset.look === look) return;
  element.dataset.look = look;
  const focused = element.contains(document.activeElement);
  element.replaceChildren(...(calls.length ? [drawWork(name, calls)] : []));
  if (focused) element.querySelector("summary")?.focus();
}

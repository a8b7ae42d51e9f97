// Messages that people pinned in the room on the screen: a line above the conversation, which opens and leads to each.
import { make } from "/static/dom.js";
import { ask } from "/static/wire.js";
import { t } from "/static/texts.js";

const SOON_MS = 200;

export class Pins {
  // `act`: jump(pin), changed(), refuse(why).
  constructor(element, act) {
    Object.assign(this, { element, act, room: "", pins: [], timer: 0 });
    element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !element.open) return;
      element.open = false;
      element.querySelector("summary").focus();
    });
  }

  async open(room) {
    if (room !== this.room) {
      this.element.open = false;
      this.put(room, []);
    }
    try {
      const { pins } = await ask(`/api/pins?${new URLSearchParams({ room })}`);
      if (room === this.room) this.put(room, pins);
    } catch {
      // the conversation goes on without
    }
  }

  // Somebody pinned something, perhaps in several steps. '': nobody knows where.
  renew(room) {
    if (room && room !== this.room) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.room && this.open(this.room), SOON_MS);
  }

  put(room, pins) {
    const fresh = JSON.stringify(pins) !== JSON.stringify(this.pins);
    Object.assign(this, { room, pins });
    if (!fresh) return;
    this.draw();
    this.act.changed();
  }

  mark(lines) {
    const pinned = new Set(this.pins.map((pin) => pin.id));
    for (const line of lines) line.pinned = pinned.has(line.id);
  }

  async toggle({ id, room }) {
    const on = !this.pins.some((pin) => pin.id === id);
    const body = JSON.stringify({ room, message: id, on });
    try {
      const { pins } = await ask("/api/pins", { method: "POST", headers: { "content-type": "application/json" }, body });
      if (room !== this.room) return;
      this.put(room, pins);
      this.focus(id, on); // what was drawn anew has lost it
    } catch (error) {
      this.act.refuse(error.message);
    }
  }

  focus(id, on) {
    const summary = this.element.querySelector("summary");
    const button = document.querySelector(`[data-id="${Number(id)}"] [aria-label="${on ? t("Unpin") : t("Pin")}"]`);
    if (this.element.open && this.pins.length) summary.focus();
    else button?.focus({ preventScroll: true });
  }

  draw() {
    const { element, pins } = this;
    element.hidden = pins.length === 0;
    element.querySelector("summary").textContent = t("{count} pinned", { count: pins.length });
    element.querySelector("ul").replaceChildren(
      ...pins.map((pin) => {
        const item = make("li");
        const go = make("button", "pin-go");
        const off = make("button", "icon small", "×");
        go.type = off.type = "button";
        go.append(make("b", "", pin.mine ? t("You") : pin.name), make("span", "", pin.text));
        go.addEventListener("click", () => {
          element.open = false;
          this.act.jump(pin);
        });
        off.setAttribute("aria-label", t("Unpin: {words}", { words: pin.text.slice(0, 60) }));
        off.addEventListener("click", () => this.toggle(pin));
        item.append(go, off);
        return item;
      }),
    );
  }
}

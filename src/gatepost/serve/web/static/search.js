// Search of what was said: a dialog with a line to type in, and the way to each message that is found.
import { make } from "/static/dom.js";
import { ask } from "/static/wire.js";
import { t } from "/static/texts.js";

const $ = (id) => document.getElementById(id);
const WAIT_MS = 180; // after the last key
const moment = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

// «Words» that were found are marked. Texts are set as text.
function drawSnippet(text) {
  const line = make("span", "snippet");
  for (const [place, part] of text.split(/[«»]/).entries()) {
    if (part) line.append(place % 2 ? make("mark", "", part) : part);
  }
  return line;
}

export class Search {
  // `where`: the room that is on the screen; `choose`: what to do with a message that somebody picked.
  constructor(where, choose) {
    Object.assign(this, { where, choose, timer: 0, asked: 0 });
    $("search-open").addEventListener("click", () => this.open());
    $("search-text").addEventListener("input", () => this.later());
    $("search-here").addEventListener("change", () => this.find());
    $("search-box").addEventListener("submit", (event) => {
      event.preventDefault();
      this.find();
    });
    $("search").addEventListener("click", (event) => event.target === $("search") && $("search").close());
    $("search-box").addEventListener("keydown", (event) => this.move(event));
    document.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.open();
      }
    });
  }

  open() {
    if (!$("search").open) $("search").showModal();
    $("search-text").select();
    this.find();
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.find(), WAIT_MS);
  }

  // Up and down go through what was found.
  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const stops = [$("search-text"), ...$("search-found").querySelectorAll("button")];
    const next = stops[stops.indexOf(document.activeElement) + step];
    event.preventDefault();
    next?.focus();
  }

  async find() {
    clearTimeout(this.timer);
    const q = $("search-text").value.trim();
    const mine = ++this.asked;
    if (!q) return this.draw([], t("Words of a message, or their beginnings."));
    const query = new URLSearchParams({ q, room: $("search-here").checked ? this.where() : "" });
    try {
      const { hits } = await ask(`/api/search?${query}`);
      if (mine === this.asked) this.draw(hits, hits.length ? "" : t("Nothing was found. Try fewer words, or all rooms."));
    } catch (error) {
      if (mine === this.asked) this.draw([], error.message);
    }
  }

  draw(hits, told) {
    $("search-told").textContent = told;
    $("search-told").hidden = !told;
    $("search-found").replaceChildren(
      ...hits.map((hit) => {
        const item = make("li");
        const button = make("button");
        button.type = "button";
        const head = make("span", "hit-head");
        head.append(make("b", "", hit.mine ? t("You") : hit.name), make("span", "", hit.roomName), make("time", "", moment.format(hit.at)));
        button.append(head, drawSnippet(hit.snippet));
        button.addEventListener("click", () => {
          $("search").close();
          this.choose(hit);
        });
        item.append(button);
        return item;
      }),
    );
  }
}

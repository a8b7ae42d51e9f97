// Menus of the message box: "/" offers commands, "@" agents and people. A combobox with a list: arrows choose, Enter or
// Tab takes, Escape closes it, and whoever goes on typing is not in its way.
import { make } from "/static/dom.js";

const MOST = 20;
const COMMAND = /^\/([a-z-]*)$/i;
const NAME = /(?:^|\s)@([^\s@]*)$/;

export class Completion {
  // `find(sign, words)`: [{ label, hint, text }], for a sign, "/" or "@".
  constructor(box, list, find) {
    Object.assign(this, { box, list, find, found: [], chosen: 0, from: 0 });
    box.setAttribute("role", "combobox");
    box.setAttribute("aria-autocomplete", "list");
    box.setAttribute("aria-controls", list.id);
    box.addEventListener("input", () => this.look());
    box.addEventListener("click", () => this.look());
    box.addEventListener("blur", () => this.close());
    box.addEventListener("keydown", (event) => this.press(event), { capture: true });
    this.close();
  }

  look() {
    const before = this.box.value.slice(0, this.box.selectionStart);
    const command = COMMAND.exec(before);
    const name = command ? null : NAME.exec(before);
    const [sign, words] = command ? ["/", command[1]] : name ? ["@", name[1]] : ["", ""];
    this.from = before.length - words.length - 1;
    this.found = sign ? this.find(sign, words.toLowerCase()).slice(0, MOST) : [];
    // What is written whole already, and nothing else, needs no menu.
    if (this.found.length === 1 && this.found[0].text.trim() === sign + words) this.found = [];
    this.chosen = 0;
    this.draw();
  }

  draw() {
    this.list.hidden = this.found.length === 0;
    this.box.setAttribute("aria-expanded", String(this.found.length > 0));
    this.list.replaceChildren(
      ...this.found.map(({ label, hint }, place) => {
        const item = make("li");
        item.id = `${this.list.id}-${place}`;
        item.setAttribute("role", "option");
        item.append(make("b", "", label), make("span", "", hint));
        item.addEventListener("mousedown", (event) => {
          event.preventDefault(); // the box keeps the focus
          this.take(place);
        });
        return item;
      }),
    );
    this.choose(this.chosen);
  }

  choose(place) {
    this.chosen = (place + this.found.length) % (this.found.length || 1);
    for (const [at, item] of [...this.list.children].entries()) item.setAttribute("aria-selected", String(at === this.chosen));
    const item = this.list.children[this.chosen];
    if (item) this.box.setAttribute("aria-activedescendant", item.id);
    else this.box.removeAttribute("aria-activedescendant");
    item?.scrollIntoView({ block: "nearest" });
  }

  press(event) {
    if (!this.found.length || event.isComposing) return;
    if (event.key === "ArrowDown") this.choose(this.chosen + 1);
    else if (event.key === "ArrowUp") this.choose(this.chosen - 1);
    else if (event.key === "Escape") this.close();
    else if ((event.key === "Enter" && !event.shiftKey) || event.key === "Tab") this.take(this.chosen);
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  take(place) {
    const { text } = this.found[place];
    this.box.setRangeText(text, this.from, this.box.selectionStart, "end");
    this.close();
    this.box.dispatchEvent(new Event("input", { bubbles: true }));
    this.close();
  }

  close() {
    this.found = [];
    this.draw();
  }
}

// What may be done with a conversation of the list: a name for everybody, on top or away for oneself.
import { make } from "/static/dom.js";
import { ask } from "/static/wire.js";
import { t } from "/static/texts.js";

const $ = (id) => document.getElementById(id);

async function post(path, { room, thread }, more) {
  const headers = { "content-type": "application/json" };
  return ask(path, { method: "POST", headers, body: JSON.stringify({ room, thread, ...more }) });
}

export class Threads {
  // `on`: changed(), and refuse(why).
  constructor(on) {
    this.on = on;
    this.named = null;
    $("rename").addEventListener("submit", (event) => {
      event.preventDefault();
      this.name($("rename-text").value);
    });
    $("rename-end").addEventListener("click", () => $("rename").close());
  }

  // The menu of one conversation.
  draw(conversation) {
    const menu = make("details", "thread-menu");
    const open = make("summary", "", "⋯");
    open.setAttribute("aria-label", t("What to do with {title}", { title: conversation.title || t("this conversation") }));
    const list = make("div", "thread-acts");
    const add = (label, run) => {
      const button = make("button", "", label);
      button.type = "button";
      button.addEventListener("click", () => {
        menu.open = false;
        run();
      });
      list.append(button);
    };
    add(t("Rename"), () => this.ask(conversation));
    if (conversation.mark === "pinned") add(t("Unpin"), () => this.mark(conversation, ""));
    else add(t("Pin"), () => this.mark(conversation, "pinned"));
    if (conversation.mark === "archived") add(t("Restore"), () => this.mark(conversation, ""));
    else add(t("Archive"), () => this.mark(conversation, "archived"));
    menu.append(open, list);
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      menu.open = false;
      open.focus();
    });
    menu.addEventListener("focusout", (event) => menu.contains(event.relatedTarget) || (menu.open = false));
    menu.addEventListener("toggle", () => menu.open || this.on.changed());
    return menu;
  }

  ask(conversation) {
    this.named = conversation;
    $("rename-text").value = conversation.title;
    $("rename").showModal();
    $("rename-text").select();
  }

  async name(name) {
    const conversation = this.named;
    $("rename").close();
    await this.run(async () => {
      conversation.title = (await post("/api/threads/name", conversation, { name })).title;
      conversation.named = true;
    });
  }

  async mark(conversation, mark) {
    await this.run(async () => {
      await post("/api/threads/mark", conversation, { mark });
      conversation.mark = mark;
    });
  }

  async run(step) {
    try {
      await step();
    } catch (error) {
      this.on.refuse(error.message);
    }
    this.on.changed();
  }
}

// How a conversation looks. Texts are set as text; only the gateway's own rendering of markdown is set as HTML.
import { drawCard } from "/static/card.js";
import { make } from "/static/dom.js";
import { drawActions, frameCode } from "/static/message_actions.js";
import { size } from "/static/sizes.js";
import { briefly, isCommand } from "/static/conversation.js";
import { drawWork } from "/static/tool_activity.js";
import { t } from "/static/texts.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const JOINED_MS = 5 * 60_000;

const LONG = { mine: [2000, 30], theirs: [12_000, 200] }; // characters, lines: beyond them a text is folded
const opened = new Set(); // and so do the steps of a status line
const unfolded = new Set(); // what somebody wanted to see whole stays so when it is drawn anew

function stateOf(line) {
  if (!line.mine) return line.state === "uncertain" ? [t("May not have been delivered"), ""] : ["", ""];
  const words = line.reason.replaceAll("`", "");
  const reason = words ? `. ${words}` : "";
  switch (line.state) {
    case "sending": return [t("Sending…"), ""];
    case "unsent": return ["", t("Not sent: {reason}", { reason: line.reason })];
    case "accepted": case "queued": return [t("Received"), ""];
    case "retry": return [t("Trying again soon"), ""];
    case "held": return [t("Waiting for approval"), ""];
    case "silent": return [t("Read"), ""];
    case "failed": return ["", t("Failed{reason}", { reason })];
    case "refused": return ["", t("Refused{reason}", { reason })];
    case "cancelled": return ["", words || t("Stopped")];
    default: return ["", ""];
  }
}

function drawFile(file) {
  const item = make("li");
  if (file.sound && file.url) {
    const sound = make("audio");
    Object.assign(sound, { controls: true, preload: "none", src: file.url });
    sound.setAttribute("aria-label", file.name);
    item.append(sound);
    return item;
  }
  const link = make(file.url ? "a" : "span", file.picture ? "" : file.document ? "file document" : "file"); // nothing to open before it is sent
  if (file.url) link.href = file.url;
  if (file.url && (file.picture || file.document)) Object.assign(link, { target: "_blank", rel: "noopener" });
  if (file.picture && file.url) {
    link.className = "picture";
    const picture = make("img");
    picture.src = file.url;
    picture.alt = file.name;
    picture.loading = "lazy";
    link.append(picture);
  } else {
    if (!file.document) link.download = file.name;
    link.append(make("span", "", file.name), make("small", "", file.document ? t("PDF · {size}", { size: size(file.size) }) : size(file.size)));
  }
  item.append(link);
  return item;
}

function fold(line, body) {
  const name = line.key || line.id;
  const [characters, lines] = LONG[line.mine ? "mine" : "theirs"];
  const short = line.text.length <= characters && line.text.split("\n").length <= lines;
  if (short || line.draft || line.grown || unfolded.has(name)) return; // who saw it grow has it open
  body.classList.add("folded");
  const button = make("button", "unfold", t("Show all ({count} characters)", { count: line.text.length.toLocaleString() }));
  button.type = "button";
  button.addEventListener("click", () => {
    unfolded.add(name);
    body.classList.remove("folded");
    button.remove();
  });
  body.after(button);
}

// Why it has no answer, and what helps.
function drawWhy(line, act) {
  const why = make("span", "why");
  why.setAttribute("role", "status");
  why.append(make("span", "", line.why.text));
  if (line.why.next) {
    const button = make("button", "", line.why.label);
    button.type = "button";
    button.addEventListener("click", () => act.help(line, button));
    why.append(" ", button);
  }
  return why;
}

function drawUnder(line, act) {
  const under = make("div", "under");
  if (line.why) under.append(drawWhy(line, act));
  const [quiet, bad] = line.why ? ["", ""] : stateOf(line);
  if (quiet) under.append(make("span", "state", quiet));
  if (bad) under.append(make("span", "state bad", bad));
  if (line.state === "unsent") {
    for (const [label, what] of [[t("Try again"), act.retry], [t("Discard"), act.discard]]) {
      const button = make("button", "", label);
      button.type = "button";
      button.addEventListener("click", () => what(line));
      under.append(button);
    }
  }
  if (line.edited) under.append(make("span", "", "edited"));
  if (line.pinned) under.append(make("span", "", "pinned"));
  if (line.reactions?.length) {
    const reactions = make("div", "reactions");
    for (const reaction of line.reactions) reactions.append(make("span", "", reaction));
    under.append(reactions);
  }
  return under;
}

// What an agent says it is doing: the last of it, and all of it for who wants to know.
function drawSteps(line) {
  const folded = make("details", "steps");
  folded.open = opened.has(line.id);
  folded.addEventListener("toggle", () => (folded.open ? opened.add(line.id) : opened.delete(line.id)));
  const last = make("summary");
  last.append(make("span", "", line.text), make("small", "", t("{count} steps", { count: line.steps.length })));
  const steps = make("ol");
  steps.append(...line.steps.map((step) => make("li", "", step)));
  folded.append(last, steps);
  return folded;
}

// What is answered, as the way to it.
function drawQuote(answered, act) {
  const quote = make("button", "quote", briefly(answered));
  quote.type = "button";
  quote.setAttribute("aria-label", t("Go to the answered message: {words}", { words: briefly(answered) }));
  quote.addEventListener("click", () => act.show(answered));
  return quote;
}

export function drawMessage(line, answered, act) {
  const item = make("li", "message");
  if (line.id) item.dataset.id = line.id;
  item.classList.toggle("mine", line.mine);
  item.classList.toggle("command", line.mine && isCommand(line.text));
  item.classList.toggle("joined", line.joined);
  item.classList.toggle("draft", Boolean(line.draft));
  if (line.draft) {
    item.setAttribute("aria-live", "off"); // read aloud once it is whole
    item.setAttribute("aria-busy", "true");
  }
  item.classList.toggle("waiting", line.state === "sending");
  item.classList.toggle("broken", ["unsent", "failed", "refused"].includes(line.state));
  item.classList.toggle("notice", !line.mine && (line.verb === "status" || line.notice));
  const actions = line.deleted || line.draft ? null : drawActions(line, act);
  if (!line.joined) {
    const who = make("div", "who");
    who.append(make("b", "", line.mine ? t("You") : line.name));
    const time = make("time", "", clock.format(line.at));
    time.dateTime = new Date(line.at).toISOString();
    who.append(time);
    if (actions) who.append(actions);
    item.append(who);
  }
  if (answered) item.append(drawQuote(answered, act));
  if (line.work?.length) item.append(drawWork(line.turn, line.work));
  if (line.deleted) {
    item.append(make("div", "body gone", t("This message was deleted.")));
  } else {
    if (line.card) {
      item.append(drawCard(line, act));
    } else if (line.text) {
      const body = make("div", "body");
      if (line.steps?.length > 1) body.append(drawSteps(line));
      else if (line.html) body.innerHTML = line.html;
      else body.append(make("p", "plain", line.text));
      frameCode(body);
      item.append(body);
      fold(line, body);
    }
    if (line.files.length) {
      const files = make("ul", "attached");
      files.append(...line.files.map(drawFile));
      item.append(files);
    }
  }
  item.append(drawUnder(line, act));
  if (actions && line.joined) item.append(actions);
  return item;
}

const lookOf = (line, answered) => JSON.stringify([line, answered?.text]);

// Puts lines on the list, touching only what changed, so that nothing flickers and selections stay.
export class List {
  constructor(element, act) {
    Object.assign(this, { element, act, drawn: new Map() });
  }

  clear() {
    this.element.replaceChildren();
    this.drawn.clear();
  }

  // A draft has grown: nothing else is touched. False: it is not on the list yet.
  grow(line) {
    const known = this.drawn.get(line.key);
    const body = known?.item.querySelector(".body");
    if (!body) return false;
    body.innerHTML = line.html;
    known.look = lookOf(Object.assign(line, { joined: known.item.classList.contains("joined") }));
    return true;
  }

  // The item of a message, if it is on the list.
  find(id) {
    return this.element.querySelector(`[data-id="${Number(id)}"]`);
  }

  // `newFrom`: what somebody else said after this id was not seen before; none: all was.
  draw(lines, find, newFrom = 0) {
    const keep = new Map();
    let place = this.element.firstChild;
    let before = null;
    const put = (name, look, build) => {
      let known = this.drawn.get(name);
      if (!known || known.look !== look) {
        const item = build();
        if (known) {
          const focused = known.item.contains(document.activeElement);
          if (place === known.item) place = item;
          known.item.replaceWith(item);
          if (focused) item.querySelector(".card")?.focus({ preventScroll: true });
        }
        known = { item, look };
      }
      keep.set(name, known);
      if (known.item === place) place = place.nextSibling;
      else this.element.insertBefore(known.item, place);
    };
    const firstNew = newFrom && lines.find((line) => line.id > newFrom && !line.mine);
    for (const line of lines) {
      const date = day.format(line.at);
      if (!before || day.format(before.at) !== date) {
        put(`day ${date}`, date, () => make("li", "day", date));
        before = null;
      }
      if (line === firstNew) {
        put("new", "new", () => make("li", "day new", t("New")));
        before = null;
      }
      line.joined = Boolean(before) && before.mine === line.mine && before.name === line.name && line.at - before.at < JOINED_MS;
      const answered = find(line);
      const look = lookOf(line, answered);
      put(line.key || line.id, look, () => drawMessage(line, answered, this.act));
      before = line;
    }
    for (const [name, { item }] of this.drawn) if (!keep.has(name)) item.remove();
    this.drawn = keep;
  }
}

// `drawMenu`: of a conversation. A menu that is open stays as it is, and the list with it.
export function drawRooms(element, talk, current, choose, drawMenu) {
  if (element.querySelector(".thread-menu[open]")) return;
  const awayOpen = new Set([...element.querySelectorAll(".away[open]")].map((each) => each.dataset.room));
  const entry = (label, conversation, isCurrent) => {
    const item = make("li");
    const button = make("button", conversation.unread ? "unread" : "");
    button.type = "button";
    button.append(make("span", "", label));
    button.setAttribute("aria-current", String(isCurrent));
    const words = [label, conversation.mark === "pinned" ? "pinned" : "", conversation.unread ? "new messages" : ""];
    if (words[1] || words[2]) button.setAttribute("aria-label", words.filter(Boolean).join(", "));
    if (words[1]) button.classList.add("on-top");
    button.addEventListener("click", () => choose(conversation.room, conversation.thread));
    item.append(button);
    if (conversation.thread && (conversation.listed || conversation.said.size)) item.append(drawMenu(conversation));
    return item;
  };
  const list = make("ul");
  for (const [room, name] of talk.rooms) {
    const item = entry(name, talk.at(room, ""), current?.room === room && !current.thread);
    const threads = talk.threadsOf(room).filter((one) => one === current || one.listed || one.title || one.said.size);
    const open = current?.room === room || threads.some((one) => one.unread);
    if (threads.length && open) {
      const inner = make("ul");
      const add = (place, some) => {
        for (const one of some) place.append(entry(one.title || t("New conversation"), one, one === current));
      };
      add(inner, threads.filter((one) => one.mark === "pinned"));
      add(inner, threads.filter((one) => !one.mark || (one.mark === "archived" && (one === current || one.unread))));
      const away = threads.filter((one) => one.mark === "archived" && one !== current && !one.unread);
      if (away.length) {
        const folded = make("details", "away");
        folded.dataset.room = room;
        folded.open = awayOpen.has(room);
        const within = make("ul");
        add(within, away);
        folded.append(make("summary", "", t("Archived ({count})", { count: away.length })), within);
        const last = make("li");
        last.append(folded);
        inner.append(last);
      }
      item.append(inner);
    }
    list.append(item);
  }
  element.replaceChildren(list);
}

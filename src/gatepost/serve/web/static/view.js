// How a conversation looks. Texts are set as text; only the gateway's own rendering of markdown is set as HTML.
import { drawCard } from "/static/card.js";
import { make } from "/static/dom.js";
import { briefly } from "/static/talk.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });
const JOINED_MS = 5 * 60_000;

export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

const LONG = { mine: [2000, 30], theirs: [12_000, 200] }; // characters, lines: beyond them a text is folded
const unfolded = new Set(); // what somebody wanted to see whole stays so when it is drawn anew

function stateOf(line) {
  if (!line.mine) return line.state === "uncertain" ? ["May not have been delivered", ""] : ["", ""];
  const words = line.reason.replaceAll("`", "");
  const reason = words ? `. ${words}` : "";
  switch (line.state) {
    case "sending": return ["Sending…", ""];
    case "unsent": return ["", `Not sent: ${line.reason}`];
    case "accepted": case "queued": return ["Received", ""];
    case "retry": return ["Trying again soon", ""];
    case "held": return ["Waiting for approval", ""];
    case "silent": return ["Read", ""];
    case "failed": return ["", `Failed${reason}`];
    case "refused": return ["", `Refused${reason}`];
    case "cancelled": return ["", words || "Stopped"];
    default: return ["", ""];
  }
}

function drawFile(file) {
  const item = make("li");
  const link = make(file.url ? "a" : "span", file.picture ? "" : "file"); // nothing to open before it is sent
  if (file.url) link.href = file.url;
  if (file.picture && file.url) {
    const picture = make("img");
    picture.src = file.url;
    picture.alt = file.name;
    picture.loading = "lazy";
    link.target = "_blank";
    link.rel = "noopener";
    link.append(picture);
  } else {
    link.download = file.name;
    link.append(make("span", "", file.name), make("small", "", size(file.size)));
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
  const button = make("button", "unfold", `Show all (${line.text.length.toLocaleString()} characters)`);
  button.type = "button";
  button.addEventListener("click", () => {
    unfolded.add(name);
    body.classList.remove("folded");
    button.remove();
  });
  body.after(button);
}

function drawUnder(line, act) {
  const under = make("div", "under");
  const [quiet, bad] = stateOf(line);
  if (quiet) under.append(make("span", "state", quiet));
  if (bad) under.append(make("span", "state bad", bad));
  if (line.state === "unsent") {
    for (const [label, what] of [["Try again", act.retry], ["Discard", act.discard]]) {
      const button = make("button", "", label);
      button.type = "button";
      button.addEventListener("click", () => what(line));
      under.append(button);
    }
  }
  if (line.edited) under.append(make("span", "", "edited"));
  if (line.reactions?.length) {
    const reactions = make("div", "reactions");
    for (const reaction of line.reactions) reactions.append(make("span", "", reaction));
    under.append(reactions);
  }
  return under;
}

export function drawMessage(line, answered, act) {
  const item = make("li", "message");
  item.classList.toggle("mine", line.mine);
  item.classList.toggle("joined", line.joined);
  item.classList.toggle("draft", Boolean(line.draft));
  if (line.draft) {
    item.setAttribute("aria-live", "off"); // read aloud once it is whole
    item.setAttribute("aria-busy", "true");
  }
  item.classList.toggle("waiting", line.state === "sending");
  item.classList.toggle("broken", ["unsent", "failed", "refused"].includes(line.state));
  item.classList.toggle("notice", !line.mine && (line.verb === "status" || line.notice));
  if (!line.joined) {
    const who = make("div", "who");
    who.append(make("b", "", line.mine ? "You" : line.name));
    const time = make("time", "", clock.format(line.at));
    time.dateTime = new Date(line.at).toISOString();
    who.append(time);
    if (!line.mine && line.key && !line.deleted && !line.draft) {
      const reply = make("button", "reply", "Reply");
      reply.type = "button";
      reply.addEventListener("click", () => act.answer(line));
      who.append(reply);
    }
    item.append(who);
  }
  if (answered) item.append(make("div", "quote", briefly(answered)));
  if (line.deleted) {
    item.append(make("div", "body gone", "This message was deleted."));
  } else {
    if (line.card) {
      item.append(drawCard(line, act));
    } else if (line.text) {
      const body = make("div", "body");
      if (line.html) body.innerHTML = line.html;
      else body.append(make("p", "plain", line.text));
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

  draw(lines, find) {
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
    for (const line of lines) {
      const date = day.format(line.at);
      if (!before || day.format(before.at) !== date) {
        put(`day ${date}`, date, () => make("li", "day", date));
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

export function drawRooms(element, talk, current, choose) {
  const entry = (label, conversation, isCurrent) => {
    const item = make("li");
    const button = make("button", conversation.unread ? "unread" : "");
    button.type = "button";
    button.append(make("span", "", label));
    button.setAttribute("aria-current", String(isCurrent));
    if (conversation.unread) button.setAttribute("aria-label", `${label}, new messages`);
    button.addEventListener("click", () => choose(conversation.room, conversation.thread));
    item.append(button);
    return item;
  };
  const list = make("ul");
  for (const [room, name] of talk.rooms) {
    const item = entry(name, talk.at(room, ""), current.room === room && !current.thread);
    const threads = talk.threadsOf(room).filter((one) => one === current || one.listed || one.title || one.said.size);
    const open = current.room === room || threads.some((one) => one.unread);
    if (threads.length && open) {
      const inner = make("ul");
      for (const one of threads) inner.append(entry(one.title || "New conversation", one, one === current));
      item.append(inner);
    }
    list.append(item);
  }
  element.replaceChildren(list);
}

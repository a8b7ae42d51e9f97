// What was said, by conversation (a room's thread). Every event may come twice and in pieces: ids decide.

const CHANGES = new Set(["edit", "delete", "react", "pin", "unpin"]);

const COMMAND = /^\s*[/\\][a-z][\w-]*(\s|$)/i;

export const isCommand = (text) => COMMAND.test(text);

// What a message could be the title of; the gateway does the same. A command says nothing about a conversation.
export function titleOf({ text, files }) {
  if (isCommand(text)) return "";
  return text.trim().split("\n")[0].slice(0, 60) || files[0]?.name || "";
}

// A message in a few words, for where there is no room for all of it.
export function briefly({ text, files }) {
  return text.replace(/\s+/g, " ").slice(0, 120) || files.map((file) => file.name).join(", ").slice(0, 120);
}

export const nameOf = (room, thread) => `${room}\n${thread}`;

// A stop is one line, its notice: the order before it is left out, and what it ended does not say so once more.
function joinStops(lines) {
  const shown = [];
  let [isTold, ordered] = [false, false];
  for (const line of [...lines].reverse()) {
    if (line.stop === "notice") isTold = ordered = true;
    else if (line.stop === "order" && ordered) continue;
    else if (line.incoming) ordered = false;
    shown.push(line.stop === "ended" && isTold ? { ...line, state: "", reason: "" } : line);
  }
  return shown.reverse();
}

class Conversation {
  constructor(room, thread) {
    Object.assign(this, { room, thread, title: "", mark: "", named: false, listed: false, loaded: false, more: false, unread: false, typing: false });
    this.apart = false; // earlier messages are shown, and something lies between them and the newest
    this.newFrom = 0; // what came after this id was not seen when it was opened
    this.said = new Map(); // id → message
    this.changes = new Map(); // id of the changed message → Map of id → change
    this.reactions = new Map(); // key of the message → Map of id → emoji of a person
    this.sending = new Map(); // key → what the gateway has not shown yet
    this.pressed = new Map(); // id of a card → the button that was pressed, while the gateway decides
    this.troubles = new Map(); // id of a card → why a click came to nothing
    this.drafts = new Map(); // session → what it has written of its next message
  }

  // True if it was not known before. `live`: it has just been said.
  put(message, live = false) {
    if (CHANGES.has(message.verb)) {
      const changes = this.changes.get(message.target) ?? new Map();
      const fresh = !changes.has(message.id);
      this.changes.set(message.target, changes.set(message.id, message));
      return fresh;
    }
    if (message.incoming && message.reaction) { // its key is that of the message that it is about
      const reactions = this.reactions.get(message.key) ?? new Map();
      const fresh = !reactions.has(message.id);
      this.reactions.set(message.key, reactions.set(message.id, message.reaction));
      return fresh;
    }
    const fresh = !this.said.has(message.id);
    message.grown = fresh ? live && this.replaceDraft(message) : this.said.get(message.id).grown;
    this.said.set(message.id, message);
    this.sending.delete(message.key);
    const title = this.thread && message.mine ? titleOf(message) : "";
    if (title && !this.named && (!this.title || message.id < this.titledBy)) {
      this.title = title;
      this.titledBy = message.id;
    }
    return fresh;
  }

  // The line of a draft; none: there is nothing any more.
  putDraft({ session, name, text, html }) {
    if (!text) {
      this.drafts.delete(session);
      return null;
    }
    const at = this.drafts.get(session)?.at ?? Date.now();
    const line = {
      key: `draft ${session}`, draft: true, mine: false, notice: false, verb: "message", name, text, html, at, state: "",
      reason: "", reactions: [], files: [],
    };
    this.drafts.set(session, line);
    return line;
  }

  // A message stands where its draft stood. True: it had one.
  replaceDraft({ incoming, notice, verb, name }) {
    if (incoming || notice || verb === "status") return false;
    const before = this.drafts.size;
    for (const [session, draft] of this.drafts) if (draft.name === name) this.drafts.delete(session);
    return this.drafts.size < before;
  }

  // Oldest first, with what became of each; then what is still on its way.
  lines() {
    const said = [...this.said.values()].sort((a, b) => a.id - b.id).map((message) => this.changed(message));
    return [...joinStops(said), ...this.drafts.values(), ...this.sending.values()];
  }

  changed(message) {
    const line = { ...message, reactions: [], pressed: this.pressed.get(message.id), trouble: this.troubles.get(message.id) };
    const changes = [...(this.changes.get(message.id)?.values() ?? [])].sort((a, b) => a.id - b.id);
    if (!message.mine) line.reactions.push(...(this.reactions.get(message.key)?.values() ?? []));
    if (message.verb === "status") line.steps = [message.text];
    for (const change of changes) {
      if (change.verb === "edit") {
        const { html, text, card } = change;
        Object.assign(line, { html, text, card, edited: !card && !line.steps }); // a decided card says itself what changed
        line.steps?.push(text);
      }
      if (change.verb === "delete") line.deleted = true;
      if (change.verb === "react" && change.reaction) line.reactions.push(change.reaction);
    }
    return line;
  }

  // From the beginning, as if it had not been looked at.
  forget() {
    this.said.clear();
    Object.assign(this, { loaded: false, more: false, apart: false });
  }

  // The newest that the gateway has told of it.
  get newest() {
    return Math.max(0, ...this.said.keys());
  }

  // What somebody may send again.
  get lastOwn() {
    return [...this.said.values()].filter((message) => message.mine && !isCommand(message.text)).sort((a, b) => b.id - a.id)[0];
  }

  byKey(key) {
    return [...this.said.values()].find((message) => message.key === key);
  }
}

export class Talk {
  constructor() {
    this.conversations = new Map();
    this.rooms = new Map(); // address → name, in the order of the list
  }

  at(room, thread) {
    const name = nameOf(room, thread);
    if (!this.conversations.has(name)) this.conversations.set(name, new Conversation(room, thread));
    if (!this.rooms.has(room)) this.rooms.set(room, room.slice(room.indexOf(":") + 1));
    return this.conversations.get(name);
  }

  threadsOf(room) {
    return [...this.conversations.values()].filter((one) => one.room === room && one.thread);
  }
}

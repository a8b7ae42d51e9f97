// The box to write in: text, files, the message that is answered or changed. What is not sent yet is kept by room.
import { make } from "/static/dom.js";
import { getKept, keep } from "/static/storage.js";
import { size } from "/static/sizes.js";
import { briefly } from "/static/conversation.js";
import { t } from "/static/texts.js";

const $ = (id) => document.getElementById(id);
const coarse = matchMedia("(pointer: coarse)");
const draftName = ({ room, thread }) => `draft ${room} ${thread}`;

// Calls on.send({ text, files, replyTo, replaces }), on.recall() (the last message is wanted back) and on.refuse(why).
export class Composer {
  constructor(on) {
    Object.assign(this, { on, place: null, isEarly: false, files: [], answered: null, edited: null, largest: 0, longest: Infinity });
    // A phone has no room for it.
    if (matchMedia("(min-width: 40rem)").matches) $("text").placeholder = t("Write a message, or / for commands");
    this.listen();
  }

  // What was typed before the first room was known stays in the box.
  open(place) {
    const typed = this.place ? "" : $("text").value;
    this.place = place;
    this.answer(null, false);
    $("text").value = typed || getKept(draftName(place));
    this.fit();
    if (!coarse.matches) $("text").focus();
  }

  listen() {
    $("composer").addEventListener("submit", (event) => this.submit(event));
    $("text").addEventListener("input", () => (this.fit(), this.keep()));
    $("text").addEventListener("keydown", (event) => this.press(event));
    $("text").addEventListener("paste", (event) => {
      if (event.clipboardData.files.length) {
        event.preventDefault();
        this.addFiles(event.clipboardData.files);
      }
    });
    $("attach").addEventListener("click", () => $("picker").click());
    $("picker").addEventListener("change", () => {
      this.addFiles($("picker").files);
      $("picker").value = "";
    });
    for (const [kind, on] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
      document.addEventListener(kind, (event) => {
        event.preventDefault();
        document.body.classList.toggle("dropping", on);
        if (kind === "drop") this.addFiles(event.dataTransfer.files);
      });
    }
    $("answering-end").addEventListener("click", () => this.leave());
  }

  press(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !coarse.matches) this.submit(event);
    if (event.key === "Escape") this.leave();
    if (event.key === "ArrowUp" && !$("text").value && !this.files.length) {
      event.preventDefault();
      this.on.recall();
    }
  }

  submit(event) {
    event?.preventDefault();
    if (!this.place) {
      this.isEarly = true; // it is not known yet where to
      return;
    }
    const text = $("text").value.trim();
    if ((!text && !this.files.length) || !this.fits(text)) return;
    const given = { text, files: this.files, replyTo: this.answered?.key ?? "", replaces: this.edited };
    $("text").value = "";
    this.files = [];
    this.answer(null);
    this.drawFiles();
    this.keep();
    this.on.send(given);
  }

  sendEarly() {
    if (this.isEarly) this.submit();
    this.isEarly = false;
  }

  // `line`: the message that is answered; none: nothing is.
  answer(line, focus = true) {
    this.answered = line;
    this.edited = null;
    this.say(line ? t("Answering: {words}", { words: briefly(line) }) : "", t("Do not answer this message"));
    if (line && focus) $("text").focus();
  }

  // One's last message, to be changed and sent again.
  edit(line) {
    this.answer(null);
    this.edited = line;
    $("text").value = line.text;
    this.say(t("Editing your last message. It is sent as a new one; the agent knows both."), t("Do not edit this message"));
    this.fit();
    $("text").focus();
    $("text").setSelectionRange(line.text.length, line.text.length);
  }

  leave() {
    if (this.edited) {
      $("text").value = getKept(draftName(this.place));
      this.fit();
    }
    this.answer(null);
  }

  // What could not be sent goes back into an empty box.
  restore(text) {
    if (!$("text").value) $("text").value = text;
    this.fit();
  }

  say(text, label) {
    $("answering").hidden = !text;
    $("answering-text").textContent = text;
    $("answering-end").setAttribute("aria-label", label);
  }

  addFiles(files) {
    for (const file of files) {
      if (this.files.reduce((sum, one) => sum + one.size, file.size) > this.largest) {
        this.on.refuse(t("{name} is too large: a message may have {size} in all.", { name: file.name, size: size(this.largest) }));
        break;
      }
      this.files.push(file);
    }
    this.drawFiles();
  }

  drawFiles() {
    for (const picture of $("files").querySelectorAll("img")) URL.revokeObjectURL(picture.src);
    $("files").replaceChildren(...this.files.map((file) => this.drawChip(file)));
    this.fit();
  }

  drawChip(file) {
    const item = make("li");
    if (/^image\/(png|jpeg|gif|webp)$/.test(file.type)) {
      const picture = make("img");
      picture.src = URL.createObjectURL(file);
      picture.alt = "";
      item.append(picture);
    }
    const remove = make("button", "icon small", "×");
    remove.type = "button";
    remove.setAttribute("aria-label", t("Remove {name}", { name: file.name }));
    remove.addEventListener("click", () => {
      this.files = this.files.filter((one) => one !== file);
      this.drawFiles();
      $("text").focus();
    });
    item.append(make("span", "", `${file.name} · ${size(file.size)}`), remove);
    return item;
  }

  // What is edited is no draft: its text is in the conversation.
  keep() {
    if (this.place && !this.edited) keep(draftName(this.place), $("text").value);
  }

  fit() {
    const text = $("text");
    text.style.height = "auto";
    text.style.height = `${text.scrollHeight}px`;
    const whole = this.fits(text.value.trim());
    $("send").disabled = !whole || (!text.value.trim() && !this.files.length);
  }

  // The gateway counts bytes, and would refuse it: say so while the text can still be changed.
  fits(text) {
    const long = text.length * 3 > this.longest ? new TextEncoder().encode(text).length : 0;
    $("hint").hidden = long <= this.longest;
    $("hint").textContent = long <= this.longest ? "" :
      t("Too long by {size}: a message may have {allowed} of text. Shorten it, or send it as a file.", { size: size(long - this.longest), allowed: size(this.longest) });
    return long <= this.longest;
  }
}

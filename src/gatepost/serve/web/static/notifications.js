// Notifications of the desktop, for who asked for them: only while the page is out of sight.
import { getKept, keep } from "/static/storage.js";
import { briefly } from "/static/conversation.js";
import { t } from "/static/texts.js";

const NAME = "notifications";

export class Notifications {
  constructor(button, choose) {
    Object.assign(this, { button, choose });
    button.hidden = !("Notification" in window);
    button.addEventListener("click", () => this.toggle());
    this.draw();
  }

  get on() {
    return "Notification" in window && Notification.permission === "granted" && getKept(NAME) === "on";
  }

  async toggle() {
    if (this.on) keep(NAME, "off");
    else if ((await Notification.requestPermission()) === "granted") keep(NAME, "on");
    else this.button.title = t("The browser does not allow it. Its settings for this page can.");
    this.draw();
  }

  draw() {
    this.button.setAttribute("aria-pressed", String(this.on));
    this.button.textContent = this.on ? t("Notifications are on") : t("Notify me of answers");
  }

  show(message) {
    if (!this.on || document.visibilityState === "visible" || message.verb === "status") return;
    const note = new Notification(message.name, { body: briefly(message), tag: `${message.room} ${message.thread}`, icon: "/static/icon.svg" });
    note.addEventListener("click", () => {
      window.focus();
      this.choose(message.room, message.thread);
      note.close();
    });
  }
}

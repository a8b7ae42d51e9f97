// A PDF of the conversation, in the browser's own viewer. Where there is none, or without this file, it opens in a tab.
export class Documents {
  constructor(dialog, list) {
    Object.assign(this, { dialog, list, shown: "" });
    if (!navigator.pdfViewerEnabled) return; // it would be saved, and the dialog would stay empty
    list.addEventListener("click", (event) => {
      const link = event.target.closest("a.document");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.show(link);
    });
    dialog.querySelector("button").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => this.leave());
  }

  show(link) {
    this.shown = link.href;
    const name = link.firstElementChild.textContent;
    const frame = document.createElement("iframe");
    Object.assign(frame, { src: `${link.href}#navpanes=0&view=FitH`, title: name });
    this.dialog.querySelector("a").href = link.href;
    this.dialog.querySelector("span").textContent = name;
    this.dialog.prepend(frame);
    this.dialog.showModal();
  }

  leave() {
    this.dialog.querySelector("iframe")?.remove();
    const links = [...this.list.querySelectorAll("a.document")]; // a message may have been drawn anew meanwhile
    links.find((link) => link.href === this.shown)?.focus({ preventScroll: true });
  }
}

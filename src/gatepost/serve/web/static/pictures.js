// Pictures of the conversation, large, one after another by the arrow keys. Without this file they open in a tab.
export class Pictures {
  constructor(dialog, list) {
    Object.assign(this, { dialog, list, shown: null });
    list.addEventListener("click", (event) => {
      const link = event.target.closest("a.picture");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.show(link);
    });
    dialog.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) this.move(step);
    });
    dialog.querySelector("button").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => this.leave());
  }

  show(link) {
    this.shown = link;
    const [small, large] = [link.querySelector("img"), this.dialog.querySelector("img")];
    Object.assign(large, { src: small.src, alt: small.alt });
    this.dialog.querySelector("a").href = link.href;
    const all = this.all();
    const place = all.length > 1 ? ` (${all.indexOf(link) + 1} of ${all.length})` : "";
    this.dialog.querySelector("span").textContent = small.alt + place;
    if (!this.dialog.open) this.dialog.showModal();
  }

  move(step) {
    const next = this.all()[this.all().indexOf(this.find(this.shown)) + step];
    if (next) this.show(next);
  }

  leave() {
    // A message may have been drawn anew meanwhile.
    this.find(this.shown)?.focus({ preventScroll: true });
  }

  find(link) {
    return this.all().find((each) => each.href === link?.href);
  }

  all() {
    return [...this.list.querySelectorAll("a.picture")];
  }
}

// What somebody can do with a message: copy it, answer it, change or send one's last again.
import { make, makeIconButton } from "/static/dom.js";
import { t } from "/static/texts.js";

const PICTURES = {
  copy: "M7 7V4.5A1.5 1.5 0 0 1 8.5 3h7A1.5 1.5 0 0 1 17 4.5v7a1.5 1.5 0 0 1-1.5 1.5H13M4.5 7h7A1.5 1.5 0 0 1 13 8.5v7a1.5 1.5 0 0 1-1.5 1.5h-7A1.5 1.5 0 0 1 3 15.5v-7A1.5 1.5 0 0 1 4.5 7z",
  reply: "M8 5L3.5 9.5 8 14M4 9.5h7.5a5 5 0 0 1 5 5V16",
  edit: "M4 16l.8-3.4 8.7-8.7a1.7 1.7 0 0 1 2.4 0l.2.2a1.7 1.7 0 0 1 0 2.4l-8.7 8.7L4 16z",
  pin: "M7 3.5h6M8 3.5v5L5.5 12h9L12 8.5v-5M10 12v4.5",
  again: "M15.5 8A6 6 0 1 0 16 11.5M16 4v4h-4",
};
const REACTIONS = ["👍", "👎", "❤️", "🎉", "👀"];
const DONE_MS = 1500;
const FIXED = new Set(["sending", "unsent", "held"]); // nothing to send again: it has not been taken yet

// Browsers give pages without https no clipboard; the old way still works there.
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const box = make("textarea", "sr", text);
  document.body.append(box);
  box.select();
  const copied = document.execCommand("copy");
  box.remove();
  if (!copied) throw new Error(t("The browser does not let this page copy."));
}

function makeCopyButton(className, label, getText) {
  const button = makeIconButton(className, label, PICTURES.copy);
  button.addEventListener("click", async () => {
    let said = t("Copied");
    try {
      await copyText(getText());
    } catch {
      said = t("Could not copy");
    }
    const told = make("span", "copied", said);
    told.setAttribute("role", "status");
    button.after(told);
    button.classList.add("done");
    setTimeout(() => {
      told.remove();
      button.classList.remove("done");
    }, DONE_MS);
  });
  return button;
}

// A small menu of faces.
function drawReact(line, act) {
  const menu = make("details", "react");
  const open = make("summary", "action");
  open.title = t("React");
  open.setAttribute("aria-label", t("React"));
  open.append(make("span", "", "☺"));
  const faces = make("div", "faces");
  for (const face of REACTIONS) {
    const button = make("button", "action", face);
    button.type = "button";
    button.setAttribute("aria-label", t("React with {face}", { face }));
    button.addEventListener("click", () => {
      menu.open = false;
      act.react(line, face);
    });
    faces.append(button);
  }
  menu.append(open, faces);
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    open.focus();
  });
  menu.addEventListener("focusout", (event) => menu.contains(event.relatedTarget) || (menu.open = false));
  return menu;
}

export function drawActions(line, act) {
  const bar = make("div", "actions");
  const add = (label, picture, run) => {
    const button = makeIconButton("action", label, PICTURES[picture]);
    button.addEventListener("click", () => run(line));
    bar.append(button);
  };
  if (line.text && !line.card) bar.append(makeCopyButton("action", t("Copy message"), () => line.text));
  if (!line.mine && line.key) add(t("Reply"), "reply", act.answer);
  if (!line.mine && !line.incoming && !line.notice && line.key) bar.append(drawReact(line, act));
  if (line.id && act.pin && line.verb !== "status") add(line.pinned ? t("Unpin") : t("Pin"), "pin", act.pin);
  if (line.last && !FIXED.has(line.state)) {
    if (line.text) add(t("Edit and send again"), "edit", act.edit);
    add(t("Send again"), "again", act.resend);
  }
  return bar;
}

// Each block of code gets a button of its own, and the name of its language.
export function frameCode(body) {
  for (const pre of body.querySelectorAll("pre")) {
    const frame = make("div", "code");
    const language = /language-([\w+#.-]{1,20})/.exec(pre.firstElementChild?.className ?? "")?.[1] ?? "";
    const head = make("div", "code-head");
    head.append(make("span", "language", language || "code"), makeCopyButton("action", t("Copy code"), () => pre.textContent));
    pre.replaceWith(frame);
    pre.tabIndex = 0; // a long line is scrolled to by keys
    frame.append(head, pre);
  }
}

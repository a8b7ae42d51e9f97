// Puts a chat with an agent on a page of another site: a button, and a frame that it opens.
//   <script src="https://gateway.example/static/widget.js" data-link="https://gateway.example/chat/TOKEN"></script>
// data-label: what the button says. data-side="left": where it stands. data-open: open from the start.
(() => {
  const { src, dataset } = document.currentScript;
  const link = new URL(dataset.link ?? "", src);
  if (link.origin !== new URL(src).origin || !/^\/chat\/[\w-]+$/.test(link.pathname)) {
    console.error("gatepost: data-link must be the address of a chat link of the same gateway as this script");
    return;
  }
  const label = dataset.label || "Chat with us";
  const side = dataset.side === "left" ? "left" : "right";
  const host = document.createElement("div");
  const shadow = host.attachShadow({ mode: "open" }); // styles of the page do not reach in
  const button = document.createElement("button");
  const frame = document.createElement("iframe");
  const above = { position: "fixed", [side]: "20px", zIndex: "2147483000" };
  Object.assign(button.style, above, {
    bottom: "20px", padding: "0 20px", height: "48px", border: "0", borderRadius: "24px", background: "#2f6f5e",
    color: "#fff", font: "600 15px/1 system-ui, sans-serif", boxShadow: "0 4px 18px rgb(0 0 0 / 22%)", cursor: "pointer",
  });
  Object.assign(frame.style, above, {
    bottom: "80px", width: "min(400px, calc(100vw - 40px))", height: "min(600px, calc(100dvh - 110px))", border: "0",
    borderRadius: "16px", boxShadow: "0 8px 40px rgb(0 0 0 / 28%)", colorScheme: "normal", background: "Canvas", display: "none",
  });
  Object.assign(button, { type: "button", textContent: label });
  Object.assign(frame, { title: label, id: "gatepost-frame", referrerPolicy: "no-referrer" });
  button.setAttribute("aria-controls", frame.id);
  button.setAttribute("aria-expanded", "false");

  function show(open) {
    if (open && !frame.src) frame.src = link.href; // nobody is asked for anything before
    frame.style.display = open ? "block" : "none";
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Close" : label;
    (open ? frame : button).focus();
  }

  button.addEventListener("click", () => show(frame.style.display === "none"));
  window.addEventListener("message", (event) => {
    if (event.source === frame.contentWindow && event.origin === link.origin && event.data?.gatepost === "close") show(false);
  });
  shadow.append(frame, button);
  const put = () => {
    document.body.append(host);
    if ("open" in dataset) show(true);
  };
  if (document.body) put();
  else document.addEventListener("DOMContentLoaded", put);
})();

// Elements of the page. Texts are set as text.
export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

// A button that is a picture: `label` is what it is called, `path` how it is drawn.
export function makeIconButton(className, label, path) {
  const button = make("button", className);
  button.type = "button";
  button.title = label;
  button.setAttribute("aria-label", label);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  svg.append(line);
  button.append(svg);
  return button;
}

export const newId = (prefix) => {
  const noise = crypto.getRandomValues(new Uint8Array(12));
  return prefix + Array.from(noise, (byte) => byte.toString(16).padStart(2, "0")).join("");
};

// Our own texts in the reader's language: the page brings those that its scripts use. The English text is the key.
const TEXTS = JSON.parse(document.getElementById("texts")?.textContent ?? "{}");

// `{name}` stands for what is put in.
export function t(text, values = {}) {
  return (TEXTS[text] ?? text).replace(/\{([a-z]+)\}/gi, (hole, name) => values[name] ?? hole);
}

// What the browser keeps for this page. One that keeps nothing, or is full, takes nothing away from the page.
export function getKept(name) {
  try {
    return localStorage.getItem(name) ?? "";
  } catch {
    return "";
  }
}

// An empty text is not kept.
export function keep(name, text) {
  try {
    if (text) localStorage.setItem(name, text);
    else localStorage.removeItem(name);
  } catch {
    // it is still on the page
  }
}

// Who signs out leaves nothing for the next one.
export function forgetKept() {
  try {
    localStorage.clear();
  } catch {
    // nothing was kept
  }
}

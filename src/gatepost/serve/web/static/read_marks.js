// How far somebody has read, by conversation, kept in this browser.
const nameOf = ({ room, thread }) => `read ${room} ${thread}`;

// 0: not known.
export function readMark(place) {
  try {
    return Number(localStorage.getItem(nameOf(place))) || 0;
  } catch {
    return 0;
  }
}

export function setMark(place, id) {
  try {
    if (id > readMark(place)) localStorage.setItem(nameOf(place), String(id));
  } catch {
    // a browser that keeps nothing marks what comes while the page is open
  }
}

// How far somebody has read, by conversation, kept in this browser.
import { getKept, keep } from "/static/storage.js";

const nameOf = ({ room, thread }) => `read ${room} ${thread}`;

// 0: not known.
export function readMark(place) {
  return Number(getKept(nameOf(place))) || 0;
}

export function setMark(place, id) {
  if (id > readMark(place)) keep(nameOf(place), String(id));
}

// The address of each conversation: a room, and the thread in it. The page itself is the first conversation.
const PATH = "/chat/with/";
const THREAD = "in";

export function addressOf(room, thread, first) {
  if (room === first && !thread) return "/";
  const path = room.slice(room.indexOf(":") + 1).split("/").map(encodeURIComponent).join("/");
  return `${PATH}${path}${thread ? `?${new URLSearchParams({ [THREAD]: thread })}` : ""}`;
}

// The conversation of this address; null: the page's first one.
export function readAddress({ pathname, search } = location) {
  if (!pathname.startsWith(PATH)) return null;
  let path = "";
  try {
    path = pathname.slice(PATH.length).split("/").map(decodeURIComponent).join("/");
  } catch {
    // no address of ours
  }
  return { room: `web:${path}`, thread: new URLSearchParams(search).get(THREAD) ?? "" };
}

// `replaces`: nothing to go back to.
export function showAddress(address, replaces) {
  if (location.pathname + location.search === address) return;
  if (replaces) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
}

// Signing in as the person whom the proxy before this page names.
import { signIn } from "/static/login.js";

export function show(place, way) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button primary";
  button.textContent = way.label;
  button.addEventListener("click", () => signIn("/login/proxy_header", {}));
  place.append(button);
}

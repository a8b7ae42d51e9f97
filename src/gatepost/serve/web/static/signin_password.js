// Signing in by name and password.
import { signIn } from "/static/login.js";

export function show(place, way) {
  const form = document.createElement("form");
  const name = makeInput("Name", "text", "username webauthn");
  const password = makeInput("Password", "password", "current-password");
  const button = document.createElement("button");
  button.className = "button primary";
  button.textContent = way.label;
  form.append(name, password, button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true; // a second try would wait for the first one
    await signIn("/login/password", { name: name.control.value, password: password.control.value });
    button.disabled = false;
  });
  place.append(form);
}

function makeInput(label, type, autocomplete) {
  const made = document.createElement("label");
  const input = document.createElement("input");
  Object.assign(input, { type, autocomplete, required: true, maxLength: 1024 });
  made.append(label, input);
  return made;
}

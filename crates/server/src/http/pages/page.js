// What both pages share: elements made from text, and requests with the tab's key.

const KEY = "sandyard-key";

// A sign-in link carries the key in its fragment, which no server and no referrer sees.
const fromLink = new URLSearchParams(location.hash.slice(1)).get("key");
if (fromLink) {
  sessionStorage.setItem(KEY, fromLink);
  history.replaceState(null, "", location.pathname + location.search);
}

export function key() {
  return sessionStorage.getItem(KEY) ?? "";
}

export function setKey(value) {
  sessionStorage.setItem(KEY, value.trim());
}

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export function request(path, options = {}) {
  const headers = new Headers(options.headers);
  if (key()) headers.set("authorization", `Bearer ${key()}`);
  return fetch(path, { ...options, headers });
}

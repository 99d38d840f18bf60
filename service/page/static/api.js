// Requests to the server: the key, single requests, requests with retries, and event streams opened with a ticket.

export const root = new URL("../", import.meta.url);
const KEPT = "hinged-key"; // name in sessionStorage; it is used only if the user asked the page to remember the key
const PAUSE_MS = [200, 500, 1000, 2000]; // waits before the 2nd, 3rd, 4th and each further try, in milliseconds

let key = sessionStorage.getItem(KEPT);

// The name, role and models of the key. `signIn` sets this value.
export const who = { name: "", role: "reader", models: [] };
const ROLES = ["reader", "annotator", "writer", "admin"];

export const may = (role) => ROLES.indexOf(who.role) >= ROLES.indexOf(role);

// An error answer. `status` is 0 if the server could not be reached.
export class Refused extends Error {
  constructor(status, code, message, details = {}) {
    super(message);
    Object.assign(this, { status, code, details });
  }
  get passing() {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

// Sign in with a key. If it is null, use the remembered key, or no key. Throws Refused 401 if the server does not know
// the key.
export async function signIn(text, keep) {
  if (text !== null) key = text.trim() || null;
  Object.assign(who, await ask("GET", "key"));
  if (keep && key) sessionStorage.setItem(KEPT, key);
}

export function signOut() {
  key = null;
  sessionStorage.removeItem(KEPT);
}

// A path of segments. A browser would shorten a path that contains a segment of dots, and so ask for another path.
export const path = (...parts) => {
  if (parts.some((part) => /^\.\.?$/.test(part))) throw new Error(`no URL can name ${JSON.stringify(parts)}`);
  return parts.map(encodeURIComponent).join("/");
};

// Send one request. Returns the answer's JSON, or throws Refused. The event "unknown-key" of the window means that the
// server does not know the key, or does not know it any more.
export async function ask(method, to, body, more = {}) {
  const headers = {};
  if (key) headers.authorization = `Bearer ${key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(to, root), {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", ...more,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "unreachable", "the server cannot be reached");
  }
  let answer;
  try {
    answer = await response.json();
  } catch {
    throw new Refused(response.ok ? 0 : response.status, "unreachable", "the answer was cut off");
  }
  if (response.ok) return answer;
  if (response.status === 401) dispatchEvent(new Event("unknown-key"));
  const { code = "unknown", message = `status ${response.status}`, details } = answer.error ?? {};
  throw new Refused(response.status, code, message, details);
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Send a request until the server answers it or refuses it for good. The request must be safe to repeat.
export async function insist(method, to, body, waiting = () => {}, stopped = () => false) {
  for (let tries = 0; ; tries++) {
    try {
      const answer = await ask(method, to, body);
      waiting(null);
      return answer;
    } catch (error) {
      if (!error.passing || stopped()) throw error;
      waiting(error);
      await pause(PAUSE_MS[Math.min(tries, PAUSE_MS.length - 1)]);
    }
  }
}

const TOLD_EVERY_MS = 400; // minimum time between two calls of `tell`; if it is lower, the page sends more requests

// Follow a model's events. Calls `tell(kinds)` with the Set of kinds since the last call, at most every TOLD_EVERY_MS,
// and `state(true or false)` when the stream opens or closes. Returns a function that stops following.
export function follow(model, tell, state = () => {}) {
  let source = null, ended = false, timer = null, tries = 0;
  let kinds = new Set();
  const pass = () => {
    timer = null;
    const told = kinds;
    kinds = new Set();
    tell(told);
  };
  const note = (kind) => {
    kinds.add(kind);
    timer ??= setTimeout(pass, TOLD_EVERY_MS);
  };
  const open = async () => {
    if (ended) return;
    try {
      const { ticket } = await ask("POST", "tickets");
      if (ended) return;
      source = new EventSource(new URL(`models/${path(model)}/events?named=false&ticket=${encodeURIComponent(ticket)}`, root));
      source.onopen = () => { tries = 0; state(true); note("opened"); };
      source.onerror = () => { source.close(); again(); };
      source.onmessage = (event) => note(JSON.parse(event.data).kind);
    } catch (error) {
      if (error.status === 401) return state(false);
      again();
    }
  };
  const again = () => {
    state(false);
    if (!ended) setTimeout(open, PAUSE_MS[Math.min(tries++, PAUSE_MS.length - 1)]);
  };
  open();
  return () => {
    ended = true;
    clearTimeout(timer);
    source?.close();
  };
}

// Asking the server: the key, requests and their refusals, event streams by ticket.

export const root = new URL("../", import.meta.url);
const KEPT = "hinged-key"; // for this tab, if somebody asked for it
const PAUSE_MS = [200, 500, 1000, 2000]; // between two tries

let key = sessionStorage.getItem(KEPT);

// Who uses the page: {name, role, models}, once `signIn` has found out.
export const who = { name: "", role: "reader", models: [] };
const ROLES = ["reader", "annotator", "writer", "admin"];

export const may = (role) => ROLES.indexOf(who.role) >= ROLES.indexOf(role);

// An answer that is none: `status` 0 where the server could not be reached.
export class Refused extends Error {
  constructor(status, code, message, details = {}) {
    super(message);
    Object.assign(this, { status, code, details });
  }
  get passing() {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

// Take a key (null: the one that is kept, or none) and learn what it may do. Throws Refused 401 for none that is known.
export async function signIn(text, keep) {
  if (text !== null) key = text.trim() || null;
  Object.assign(who, await ask("GET", "key"));
  if (keep && key) sessionStorage.setItem(KEPT, key);
}

export function signOut() {
  key = null;
  sessionStorage.removeItem(KEPT);
}

export const path = (...parts) => parts.map(encodeURIComponent).join("/");

// One request. The answer's JSON, or Refused.
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
  const { code = "unknown", message = `status ${response.status}`, details } = answer.error ?? {};
  throw new Refused(response.status, code, message, details);
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// The same until it is answered or refused for good: what is asked must bear being asked twice.
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

const KINDS = [
  "created", "class_added", "learned", "revised", "finished", "predicted", "offered", "shown", "leased", "renewed", "released",
  "voted", "skipped", "unskipped", "forgotten", "corrected", "reconfigured", "promoted", "retired", "intended", "swapped", "settled",
  "imported", "rolled_back", "erased", "set_aside", "drift", "snapshot",
];
const TOLD_EVERY_MS = 400;

// Tell of a model's events, many at once and never more often than the eye sees: `tell(kinds)` with a Set of them.
// `state(true or false)` says whether the stream is open. Returns what ends it.
export function follow(model, tell, state = () => {}) {
  let source = null, ended = false, timer = null, tries = 0;
  let kinds = new Set();
  const pass = () => {
    timer = null;
    const told = kinds;
    kinds = new Set();
    tell(told);
  };
  const note = (event) => {
    kinds.add(event.type);
    timer ??= setTimeout(pass, TOLD_EVERY_MS);
  };
  const open = async () => {
    if (ended) return;
    try {
      const { ticket } = await ask("POST", "tickets");
      if (ended) return;
      source = new EventSource(new URL(`models/${path(model)}/events?ticket=${encodeURIComponent(ticket)}`, root));
      source.onopen = () => { tries = 0; state(true); note({ type: "opened" }); };
      source.onerror = () => { source.close(); again(); };
      for (const kind of KINDS) source.addEventListener(kind, note);
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

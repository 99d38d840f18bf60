// The questions of one annotator: fetched ahead, their leases kept alive, given back on leaving; and the answers on
// their way, which are sent one after the other until each is taken or refused for good.

import { ask, insist, path, pause } from "./api.js";

const AHEAD = 2;
const LEASE_S = 120;
const LEAVING_S = 10; // for which leases stay when the page goes: loaded anew it takes them up again
const NOTHING_MS = 3000; // between two looks at a pool that has nothing to ask

export class Questions {
  // changed(): something is to be shown anew. taken(answer, result), refused(answer, error): what became of an answer.
  constructor(model, annotator, strategy, { changed, taken, refused }) {
    Object.assign(this, { model, annotator, strategy, changed, taken, refused });
    this.waiting = []; // fetched and not yet answered; the first is the one on the screen
    this.later = new Set(); // leases of those that came last because somebody was not sure
    this.done = new Set(); // leases that are answered, skipped or given back
    this.skips = new Map(); // by lease: the skip, or its taking back, that is on its way
    this.before = this.#left(); // leases of this tab from before it was loaded anew
    this.outbox = this.#kept();
    this.away = null; // why the server cannot be reached
    this.error = null;
    this.fetching = false;
    this.asked = false; // whether the pool has said what it has
    this.ended = false;
    for (const answer of this.outbox) this.done.add(answer.lease);
    this.beating = setInterval(() => this.#beat(), (1000 * LEASE_S) / 3);
    this.leaving = () => this.#leave();
    addEventListener("pagehide", this.leaving);
    this.fill();
    this.#send();
  }

  get present() { return this.waiting[0] ?? null; }

  async fill() {
    if (this.fetching || this.ended || this.waiting.length > AHEAD) return;
    this.fetching = true;
    try {
      // Those in hand come with the others; another tab of the same annotator has its own.
      const body = {
        n: 1 + AHEAD, annotator: this.annotator, strategy: this.strategy, lease_s: LEASE_S, request_id: random(),
        held: [...this.waiting.map((q) => q.lease), ...this.before],
      };
      const { queries } = await insist("POST", `models/${path(this.model)}/queries`, body, (error) => this.#say(error), () => this.ended);
      const held = new Set(this.waiting.map((q) => q.lease)), going = new Set(this.outbox.map((answer) => answer.id));
      const found = queries.filter((q) => !held.has(q.lease) && !this.done.has(q.lease) && !going.has(q.id));
      if (this.ended) { for (const q of found) this.#release(q.lease); return; }
      this.waiting.push(...found);
      if (this.before.length) this.#beat(); // they were to end soon
      this.before = [];
      this.error = null;
      this.asked = true;
      if (!this.waiting.length) setTimeout(() => this.fill(), NOTHING_MS);
    } catch (error) {
      if (!this.ended) { this.error = error; setTimeout(() => this.fill(), NOTHING_MS); }
    } finally {
      this.fetching = false;
      if (!this.ended) this.changed();
    }
  }

  // Answer what is on the screen: the next question is there at once, the answer goes its way. `act` comes back with
  // what becomes of it.
  answer(label, act) {
    const question = this.#take();
    this.outbox.push({ id: question.id, lease: question.lease, y: label, x: question.x, act, tried: false });
    this.#keep();
    this.#send();
    return question;
  }

  // Take back an answer that has not been sent yet; false where it has.
  recall(lease) {
    const at = this.outbox.findIndex((answer) => answer.lease === lease && !answer.tried);
    if (at < 0) return false;
    const [{ id, x }] = this.outbox.splice(at, 1);
    this.done.delete(lease);
    this.waiting.unshift({ id, x, lease, reason: "again", score: null });
    this.#keep();
    this.changed();
    return true;
  }

  // Once the answer under a lease is taken, or refused for good.
  async settled(lease) {
    while (this.outbox.some((answer) => answer.lease === lease)) await pause(50);
  }

  // Pass over what is on the screen: "me" is not asked it again, or "all".
  skip(whom) {
    const question = this.#take();
    this.#change(question.lease, () => this.#insist("POST", question.lease, { for: whom })).catch((error) => {
      if (error.status !== 404) this.refused(null, error); // it had run out: nobody is the worse for it
    });
    return question;
  }

  // Take a skip back: the question is on the screen at once, and leaves it again where it is another's by now.
  unskip(question) {
    this.done.delete(question.lease);
    this.waiting.unshift(question);
    this.changed();
    this.#change(question.lease, () => this.#insist("DELETE", question.lease)).catch((error) => {
      if (!this.waiting.includes(question)) return; // answered meanwhile, which says what became of it
      this.#drop(question.lease);
      this.refused(null, error);
    });
  }

  // What is done about the skip of a lease, one after the other; its answer waits for it.
  #change(lease, work) {
    const done = (this.skips.get(lease) ?? Promise.resolve()).catch(() => {}).then(work);
    this.skips.set(lease, done);
    done.catch(() => {}).then(() => { if (this.skips.get(lease) === done) this.skips.delete(lease); });
    return done;
  }

  #insist(method, lease, body) {
    return insist(method, `models/${path(this.model)}/queries/${path(lease)}/skip`, body, (error) => this.#say(error), () => this.ended);
  }

  // Ask this one again behind the others.
  postpone() {
    const question = this.waiting.shift();
    this.later.add(question.lease);
    this.waiting.push(question);
    this.changed();
  }

  // Give all back.
  close() {
    if (!this.#end()) return;
    for (const { lease } of this.waiting) this.#release(lease);
  }

  // The page goes, or is loaded anew: which of them it is nobody can tell. Leases end soon, unless this tab comes back.
  #leave() {
    if (!this.#end() || !this.waiting.length) return;
    try { sessionStorage.setItem(this.#leases, JSON.stringify(this.waiting.map((q) => q.lease))); } catch { /* full */ }
    for (const { lease } of this.waiting) this.#renew(lease, LEAVING_S, { keepalive: true }).catch(() => {});
  }

  // Read once: a copy of the tab must not find them.
  #left() {
    try {
      const left = JSON.parse(sessionStorage.getItem(this.#leases)) ?? [];
      sessionStorage.removeItem(this.#leases);
      return left;
    } catch { return []; }
  }

  #end() {
    if (this.ended) return false;
    this.ended = true;
    clearInterval(this.beating);
    removeEventListener("pagehide", this.leaving);
    return true;
  }

  #take() {
    const question = this.waiting.shift();
    this.done.add(question.lease);
    this.later.delete(question.lease);
    if (!this.waiting.length) this.asked = false; // whether nothing is left, the next answer of the server tells
    this.changed();
    this.fill();
    return question;
  }

  async #send() {
    if (this.sending) return;
    this.sending = true;
    while (this.outbox.length) {
      const answer = this.outbox[0];
      answer.tried = true;
      const example = { id: answer.id, y: answer.y, lease: answer.lease };
      await this.skips.get(answer.lease)?.catch(() => {});
      try {
        const { results: [result] } = await insist("POST", `models/${path(this.model)}/learn`, { examples: [example] }, (error) => this.#say(error));
        this.outbox.shift();
        this.taken(answer, result);
      } catch (error) {
        this.outbox.shift();
        this.refused(answer, error);
      }
      this.#keep();
      this.changed();
    }
    this.sending = false;
    this.fill();
  }

  #say(error) {
    if ((error === null) === (this.away === null)) return;
    this.away = error;
    if (!this.ended) this.changed();
  }

  async #beat() {
    for (const { lease } of [...this.waiting]) {
      try {
        if (!this.skips.has(lease)) await this.#renew(lease, LEASE_S);
      } catch (error) {
        if (error.status === 404 && !this.skips.has(lease)) this.#drop(lease); // else the server is away for a moment
      }
      await pause(0);
    }
  }

  #renew(lease, lease_s, more) {
    return ask("POST", `models/${path(this.model)}/queries/${path(lease)}/heartbeat`, { lease_s }, more);
  }

  // A question that is this annotator's no more.
  #drop(lease) {
    this.waiting = this.waiting.filter((q) => q.lease !== lease);
    this.done.add(lease);
    this.changed();
    this.fill();
  }

  #release(lease) {
    ask("POST", `models/${path(this.model)}/queries/${path(lease)}/release`, undefined, { keepalive: true }).catch(() => {});
  }

  // What is on its way survives the page being loaded anew.
  #keep() {
    try {
      sessionStorage.setItem(this.#name, JSON.stringify(this.outbox.map(({ x, act, ...answer }) => answer)));
    } catch { /* full: it is in memory still */ }
  }

  #kept() {
    try {
      return JSON.parse(sessionStorage.getItem(this.#name)) ?? [];
    } catch { return []; }
  }

  get #name() { return `hinged-answers-${this.model}-${this.annotator}`; }

  get #leases() { return `hinged-leases-${this.model}-${this.annotator}`; }
}

// Not of randomUUID, which pages of plain HTTP on a network lack.
const random = () => [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(36)).join("-");

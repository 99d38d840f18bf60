// The questions of one annotator: fetched ahead, their leases kept alive, given back on leaving; and the answers on
// their way, which are sent one after the other until each is taken or refused for good.

import { ask, insist, path, pause } from "./api.js";

const AHEAD = 2;
const LEASE_S = 120;
const NOTHING_MS = 3000; // between two looks at a pool that has nothing to ask

export class Questions {
  // changed(): something is to be shown anew. taken(answer, result), refused(answer, error): what became of an answer.
  constructor(model, annotator, strategy, { changed, taken, refused }) {
    Object.assign(this, { model, annotator, strategy, changed, taken, refused });
    this.waiting = []; // fetched and not yet answered; the first is the one on the screen
    this.later = new Set(); // leases of those that came last because somebody was not sure
    this.done = new Set(); // leases that are answered, skipped or given back
    this.outbox = this.#kept();
    this.away = null; // why the server cannot be reached
    this.error = null;
    this.fetching = false;
    this.asked = false; // whether the pool has said what it has
    this.ended = false;
    for (const answer of this.outbox) this.done.add(answer.lease);
    this.beating = setInterval(() => this.#beat(), (1000 * LEASE_S) / 3);
    this.leaving = () => this.close();
    addEventListener("pagehide", this.leaving);
    this.fill();
    this.#send();
  }

  get present() { return this.waiting[0] ?? null; }

  async fill() {
    if (this.fetching || this.ended || this.waiting.length > AHEAD) return;
    this.fetching = true;
    try {
      // Those in hand are open, and come with the others.
      const body = { n: 1 + AHEAD + this.outbox.length, annotator: this.annotator, strategy: this.strategy, lease_s: LEASE_S };
      const { queries } = await insist("POST", `models/${path(this.model)}/queries`, body, (error) => this.#say(error), () => this.ended);
      const held = new Set(this.waiting.map((q) => q.lease));
      const found = queries.filter((q) => !held.has(q.lease) && !this.done.has(q.lease));
      if (this.ended) { for (const q of found) this.#release(q.lease); return; }
      this.waiting.push(...found);
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

  // Answer what is on the screen: the next question is there at once, the answer goes its way.
  answer(label) {
    const question = this.#take();
    this.outbox.push({ id: question.id, lease: question.lease, y: label, x: question.x, tried: false });
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

  async skip(whom) {
    const { lease } = this.#take();
    try {
      await insist("POST", `models/${path(this.model)}/queries/${path(lease)}/skip`, { for: whom }, (error) => this.#say(error), () => this.ended);
    } catch (error) {
      if (error.status !== 404) this.refused(null, error); // it had run out: nobody is the worse for it
    }
  }

  // Ask this one again behind the others.
  postpone() {
    const question = this.waiting.shift();
    this.later.add(question.lease);
    this.waiting.push(question);
    this.changed();
  }

  close() {
    if (this.ended) return;
    this.ended = true;
    clearInterval(this.beating);
    removeEventListener("pagehide", this.leaving);
    for (const { lease } of this.waiting) this.#release(lease);
  }

  #take() {
    const question = this.waiting.shift();
    this.done.add(question.lease);
    this.later.delete(question.lease);
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
        await ask("POST", `models/${path(this.model)}/queries/${path(lease)}/heartbeat`, { lease_s: LEASE_S });
      } catch (error) {
        if (error.status !== 404) continue; // the server is away for a moment
        this.waiting = this.waiting.filter((q) => q.lease !== lease);
        this.done.add(lease);
        this.changed();
        this.fill();
      }
      await pause(0);
    }
  }

  #release(lease) {
    ask("POST", `models/${path(this.model)}/queries/${path(lease)}/release`, undefined, { keepalive: true }).catch(() => {});
  }

  // What is on its way survives the page being loaded anew.
  #keep() {
    try {
      sessionStorage.setItem(this.#name, JSON.stringify(this.outbox));
    } catch { /* full: it is in memory still */ }
  }

  #kept() {
    try {
      return JSON.parse(sessionStorage.getItem(this.#name)) ?? [];
    } catch { return []; }
  }

  get #name() { return `hinged-answers-${this.model}-${this.annotator}`; }
}

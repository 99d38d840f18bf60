// The questions of one annotator. The class fetches questions in advance, renews their leases, and returns the
// questions when the annotator leaves. The class sends answers one after the other, until the server accepts or finally
// refuses each.

import { ask, insist, path, pause } from "./api.js";

const AHEAD = 2; // number of questions fetched in addition to the question on the screen
const LEASE_S = 120; // seconds that a lease lasts without a heartbeat; a heartbeat is sent every third of this
const LEAVING_S = 10; // seconds that leases last after the page is left; a reloaded page renews them
const CONFLICTS_MAX = 20; // maximum number of conflicts held; further conflicts are questions
const NOTHING_MS = 3000; // milliseconds to wait before asking again if the pool has no question

export class Questions {
  // settles: whether the annotator settles conflicts, which are then no questions.
  // Calls changed() when the view must be drawn again, taken(answer, result) when the server has accepted an answer,
  // and refused(answer, error) when the server has finally refused an answer.
  constructor(model, annotator, strategy, settles, { changed, taken, refused }) {
    Object.assign(this, { model, annotator, strategy, settles, changed, taken, refused });
    this.waiting = []; // questions that are fetched and not yet answered; the first question is on the screen
    this.conflicts = []; // questions that the annotator settles as conflicts; nobody else gets their leases
    this.later = new Set(); // leases of questions that the annotator postponed
    this.done = new Set(); // leases of questions that were answered, skipped or returned
    this.skips = new Map(); // by lease: the current request to skip the question or to undo the skip
    this.before = this.#left(); // leases that this tab had before it was reloaded
    this.outbox = this.#kept();
    this.away = null; // the reason why the server cannot be reached
    this.error = null;
    this.fetching = false;
    this.asked = false; // whether the server has answered since the last question was removed from the list
    this.ended = false;
    for (const answer of this.outbox) this.done.add(answer.lease);
    this.beating = setInterval(() => this.#beat(), (1000 * LEASE_S) / 3);
    this.leaving = () => this.#leave();
    addEventListener("pagehide", this.leaving);
    this.fill();
    this.#send();
  }

  get present() { return this.waiting[0] ?? null; }

  get held() { return [...this.waiting, ...this.conflicts]; }

  async fill() {
    if (this.fetching || this.ended || this.waiting.length > AHEAD) return;
    this.fetching = true;
    try {
      // `held` names the leases of this tab, and the server repeats only these. Other tabs of the annotator have other
      // leases.
      const body = {
        n: Math.max(1 + AHEAD + this.conflicts.length, this.before.length), annotator: this.annotator, strategy: this.strategy, lease_s: LEASE_S, request_id: random(),
        held: [...this.held.map((q) => q.lease), ...this.before],
      };
      const { queries } = await insist("POST", `models/${path(this.model)}/queries`, body, (error) => this.#say(error), () => this.ended);
      const held = new Set(this.waiting.map((q) => q.lease)), going = new Set(this.outbox.map((answer) => answer.id));
      const found = queries.filter((q) => !held.has(q.lease) && !this.done.has(q.lease) && !going.has(q.id));
      if (this.ended) { for (const q of found) this.#release(q.lease); return; }
      const before = this.conflicts.length;
      this.conflicts = found.filter((q) => this.settles && q.disputed).slice(0, CONFLICTS_MAX); // the server repeats those that are held
      this.waiting.push(...found.filter((q) => !this.conflicts.includes(q)));
      if (this.before.length) this.#beat(); // `#leave` has shortened these leases
      this.before = [];
      this.error = null;
      this.asked = true;
      if (this.conflicts.length > before) setTimeout(() => this.fill()); // conflicts took the place of questions
      else if (!this.waiting.length) setTimeout(() => this.fill(), NOTHING_MS);
    } catch (error) {
      if (!this.ended) { this.error = error; setTimeout(() => this.fill(), NOTHING_MS); }
    } finally {
      this.fetching = false;
      if (!this.ended) this.changed();
    }
  }

  // Leave out a question that a writer has settled.
  drop(id) {
    for (const { lease } of this.held.filter((q) => q.id === id)) this.#drop(lease);
  }

  // Answer the question on the screen. The next question is shown at once, and the answer is sent in the background.
  // `act` is passed to taken() and refused().
  answer(label, act) {
    const question = this.#take();
    this.outbox.push({ id: question.id, lease: question.lease, y: label, x: question.x, act, tried: false });
    this.#keep();
    this.#send();
    return question;
  }

  // Take back an answer that has not been sent yet. Returns false if the answer has already been sent.
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

  // Wait until the server has accepted the answer under a lease, or has finally refused it.
  async settled(lease) {
    while (this.outbox.some((answer) => answer.lease === lease)) await pause(50);
  }

  // Skip the question on the screen, for "me" or for "all".
  skip(whom) {
    const question = this.#take();
    this.#change(question.lease, () => this.#insist("POST", question.lease, { for: whom })).catch((error) => {
      if (error.status !== 404) this.refused(null, error); // 404: the lease had expired, which does no harm
    });
    return question;
  }

  // Undo a skip. The question is shown at once. The question is removed again if another annotator has it by now.
  unskip(question) {
    this.done.delete(question.lease);
    this.waiting.unshift(question);
    this.changed();
    this.#change(question.lease, () => this.#insist("DELETE", question.lease)).catch((error) => {
      if (!this.waiting.includes(question)) return; // answered meanwhile: the request with the answer reports errors
      this.#drop(question.lease);
      this.refused(null, error);
    });
  }

  // Send the requests about the skip of a lease one after the other. The answer under the lease waits for these
  // requests.
  #change(lease, work) {
    const done = (this.skips.get(lease) ?? Promise.resolve()).catch(() => {}).then(work);
    this.skips.set(lease, done);
    done.catch(() => {}).then(() => { if (this.skips.get(lease) === done) this.skips.delete(lease); });
    return done;
  }

  #insist(method, lease, body) {
    return insist(method, `models/${path(this.model)}/queries/${path(lease)}/skip`, body, (error) => this.#say(error), () => this.ended);
  }

  // Move the question on the screen to the end of the fetched questions.
  postpone() {
    const question = this.waiting.shift();
    this.later.add(question.lease);
    this.waiting.push(question);
    this.changed();
  }

  // Return all questions to the pool.
  close() {
    if (!this.#end()) return;
    for (const { lease } of this.held) this.#release(lease);
  }

  // The page is being closed or reloaded; the page cannot know which. Its leases end soon, unless a reloaded page
  // renews them.
  #leave() {
    if (!this.#end() || !this.held.length) return;
    try { sessionStorage.setItem(this.#leases, JSON.stringify(this.held.map((q) => q.lease))); } catch { /* full */ }
    for (const { lease } of this.held) this.#renew(lease, LEAVING_S, { keepalive: true }).catch(() => {});
  }

  // The leases that #leave has stored. Reading removes them, so that a copy of the tab does not find them.
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
    if (!this.waiting.length) this.asked = false; // only the server's next answer says whether questions are left
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
        if (error.status === 401) break; // the page keeps the answer until somebody signs in again
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
    for (const { lease } of this.held) {
      try {
        if (!this.skips.has(lease)) await this.#renew(lease, LEASE_S);
      } catch (error) {
        if (error.status === 404 && !this.skips.has(lease)) this.#drop(lease); // other errors do not last
      }
      await pause(0);
    }
  }

  #renew(lease, lease_s, more) {
    return ask("POST", `models/${path(this.model)}/queries/${path(lease)}/heartbeat`, { lease_s }, more);
  }

  // Remove a question whose lease this annotator has lost.
  #drop(lease) {
    this.waiting = this.waiting.filter((q) => q.lease !== lease);
    this.conflicts = this.conflicts.filter((q) => q.lease !== lease);
    this.done.add(lease);
    this.changed();
    this.fill();
  }

  #release(lease) {
    ask("POST", `models/${path(this.model)}/queries/${path(lease)}/release`, undefined, { keepalive: true }).catch(() => {});
  }

  // Store the answers that have not been sent yet, so that they survive a reload.
  #keep() {
    try {
      sessionStorage.setItem(this.#name, JSON.stringify(this.outbox.map(({ x, act, ...answer }) => answer)));
    } catch { /* full: the answers are still in memory */ }
  }

  #kept() {
    try {
      return JSON.parse(sessionStorage.getItem(this.#name)) ?? [];
    } catch { return []; }
  }

  get #name() { return `hinged-answers-${this.model}-${this.annotator}`; }

  get #leases() { return `hinged-leases-${this.model}-${this.annotator}`; }
}

// Do not use randomUUID: browsers do not offer it on plain HTTP pages other than localhost.
const random = () => [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(36)).join("-");

// Send the rows of a file to a model in the background. The upload continues while the user looks at another view.

import { Answered } from "./answered.js";
import { ask, insist, path } from "./api.js";
import { cellOf, labelOf, recordOf } from "./read.js";

const ROWS = 100; // rows per request
const REFUSED_KEPT = 10_000; // maximum number of refused rows kept with their reasons; further rows are only counted

export class Upload {
  // plan: {file, source, columns, model, form: "named" | "dense" | "sparse" | "text", dim, base, route: "learn" | "predict" |
  // "decide", stops: whether to stop at a refused row, classes: the classes whose probabilities are columns}
  constructor(plan, changed) {
    Object.assign(this, plan, { plan, changed });
    Object.assign(this, { read: 0, sent: 0, learned: 0, offered: 0, repeated: 0, refused: [], refusedCount: 0, state: "running", away: null, error: null, outside: new Map(), questions: 0, alerts: 0, lacking: 0 });
    this.answered = this.route === "learn" ? null : new Answered(this.classes);
    this.more = this.answered && this.classes.length ? { probabilities: true } : {};
    this.run();
  }

  stop() { if (this.state === "running") { this.state = "stopping"; this.changed(); } }

  // Resume where the upload stopped, and set refused rows aside. Some rows may be sent twice. Each row has an id, and an
  // id is learned only once.
  resume() {
    if (this.state !== "stopped") return;
    this.stops = false;
    this.state = "running";
    this.error = null;
    this.run(this.read);
  }

  async run(after = 0) {
    let batch = [], seen = 0;
    try {
      for await (const [number, row] of this.source.rows()) {
        if (++seen <= after) continue;
        if (row instanceof Error) {
          if (this.stops && batch.length) { await this.#send(batch); batch = []; this.read = seen - 1; }
          this.#refuse({ number, row: row.row }, row.message);
        } else batch.push({ number, row, ...this.#example(number, row) });
        if (batch.length === ROWS) {
          await this.#send(batch);
          batch = [];
          this.read = seen;
          this.changed();
          if (this.state !== "running") break;
        }
      }
      if (this.state === "running") {
        if (batch.length) await this.#send(batch);
        this.read = seen;
        this.state = "done";
      } else this.state = "stopped";
    } catch (error) {
      this.error = error;
      this.state = "stopped";
    }
    this.changed();
  }

  #example(number, row) {
    const { form, columns, base, dim } = this;
    if (this.source.kind === "libsvm") {
      const indices = row.indices.map((index) => index - base);
      const x = form === "named" ? Object.fromEntries(row.indices.map((index, i) => [String(index), row.values[i]])) : { indices, values: row.values };
      return { id: `${this.name}-${number}`, x, y: this.labelled ? labelOf(row.label) : undefined };
    }
    const of = (use) => columns.find((c) => c.use === use)?.name;
    const given = row[of("id")], label = labelOf(row[of("label")]);
    const features = featuresOf(columns);
    const x = form === "text" ? String(row[features[0].name] ?? "") : form === "named" ? recordOf(row, features)
      : features.slice(0, dim).map((c) => cellOf(row[c.name], c) ?? 0);
    const y = label === "" ? undefined : label;
    return { id: given === undefined || given === null || given === "" ? `${this.name}-${number}` : String(given), x, y };
  }

  async #send(batch) {
    if (this.answered) {
      // Predictions without an id do not wait for a label. A decision needs the id for its question.
      await this.#each(this.route, batch, ({ id, x }) => (this.route === "decide" ? { id, x } : { x }), ({ number }, result) => {
        this.answered.add(number, result);
        for (const name of result.outside ?? []) this.outside.set(name, (this.outside.get(name) ?? 0) + 1);
        this.questions += result.question !== undefined;
        this.alerts += result.alert !== undefined;
        this.lacking = result.lacking ?? 0;
      });
      return;
    }
    const labelled = batch.filter((e) => e.y !== undefined), unlabelled = batch.filter((e) => e.y === undefined);
    await this.#each("learn", labelled, ({ id, x, y }) => ({ id, x, y }), (_, result) => {
      if (result.duplicate) this.repeated += 1; else this.learned += 1;
    });
    await this.#each("pool", unlabelled, ({ id, x }) => ({ id, x }));
  }

  // Send a batch in one request. If the server refuses a row, send the batch again without that row.
  async #each(route, batch, body, done = () => {}) {
    let left = batch;
    while (left.length) {
      try {
        const answer = await insist("POST", `models/${path(this.model)}/${route}`, { ...this.more, examples: left.map(body) },
          (error) => { this.away = error; this.changed(); }, () => this.state !== "running");
        if (route === "pool") { this.offered += answer.added; this.repeated += left.length - answer.added; }
        else answer.results.forEach((result, i) => done(left[i], result));
        this.sent += left.length;
        return;
      } catch (error) {
        const index = error.details?.index;
        if (![409, 410, 422].includes(error.status) || index === undefined || !left[index]) throw error;
        this.#refuse(left[index], error.message.replace(/^examples\[\d+\]\.?:? ?/, ""));
        left = left.filter((_, i) => i !== index);
      }
    }
  }

  #refuse({ number, id, row }, reason) {
    if (this.stops) throw new Error(`row ${number}: ${reason}. Mend the file, or resume: the page then sets refused rows aside`);
    this.refusedCount += 1;
    if (this.refused.length < REFUSED_KEPT) this.refused.push({ number, id, reason, row });
  }

  // The refused rows as JSON lines, as the option --bad-rows of the commands writes them.
  refusedFile() {
    return new Blob(this.refused.map(({ number, reason, row }) => `${JSON.stringify({ number, reason, row })}\n`), { type: "application/jsonl" });
  }
}

// Return a prefix for the ids of rows without an id. The same file always gets the same prefix.
export async function nameOf(file) {
  const bytes = new Uint8Array(await file.slice(0, 2 ** 16).arrayBuffer());
  let hash = 0x811c9dc5 ^ file.size;
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0; // FNV-1a
  const stem = file.name.replace(/\.[^.]*$/, "").replace(/[^\w-]+/g, "-").slice(0, 40) || "file";
  return `${stem}-${hash.toString(16).padStart(8, "0")}`;
}

// The columns from which the model learns.
export const featuresOf = (columns) => columns.filter((c) => ["feature", "text", "category"].includes(c.use));

// The configuration of a new model for a file. The server finds C in a race. In the warm-up, the server finds the
// scales, gamma or the weights of words.
export async function configurationFor(source, columns, rows) {
  const warmup = Math.max(20, Math.min(1000, Math.floor(rows / 5)));
  if (source.kind === "libsvm") {
    const features = { type: "sparse", dim: await widthOf(source), warmup };
    return { configuration: { kernel: { type: "rbf" }, features }, form: "sparse" };
  }
  const texts = columns.filter((c) => c.use === "text"), features = featuresOf(columns);
  if (features.length && features.every((c, i) => c.name === String(i) && c.type === "number"))
    return { configuration: { kernel: { type: "rbf" }, features: { type: "dense", dim: features.length, warmup } }, form: "dense", dim: features.length };
  if (texts.length === 1 && features.length === 1)
    return { configuration: { kernel: { type: "linear" }, features: { type: "text", warmup } }, form: "text" };
  const said = columns.filter((c) => c.use === "text" || c.use === "category");
  const declared = said.length ? { columns: Object.fromEntries(said.map((c) => [c.name, { type: c.use }])) } : {};
  return { configuration: { kernel: { type: "rbf" }, features: { type: "named", warmup, ...declared } }, form: "named" };
}

async function widthOf(source) {
  let most = 0;
  for await (const [, row] of source.rows()) {
    if (row instanceof Error) continue;
    for (const index of row.indices) most = Math.max(most, index);
  }
  return most + 1;
}

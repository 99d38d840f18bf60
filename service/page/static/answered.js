// The file that the page makes of predictions or decisions: the rows of the user's file, with the server's answers in
// further columns.

import { shownLabel } from "./parts.js";

const asJson = (value) => (value === undefined ? undefined : JSON.stringify(value));
const chances = (r) => Object.fromEntries(Object.entries(r.probabilities ?? {}).map(([name, p]) => [`probability of ${name}`, p]));

// By route, the cells that an answer fills, by column. A column is left out if its cell is undefined in every row.
const CELLS = {
  predict: (r) => ({ prediction: r.prediction, probability: r.probability, ...chances(r), set: asJson(r.set), outside: (r.outside ?? []).join(", ") }),
  decide: (r) => ({ decision: r.decision, probability: r.probability, ...chances(r), cost: r.cost, reason: r.reason, gain: r.gain, rank: r.gain, question: r.question, set: asJson(r.set) }),
};

export class Answered {
  constructor(route) {
    this.cellsOf = CELLS[route];
    this.columns = new Map(); // by name of a column, whether at least one answer fills it
    this.rows = new Map(); // by the number of a row, its cells by column
    this.labels = new Map(); // by label, the number of rows with this prediction or decision
    this.reasons = new Map(); // by reason, the number of rows with a decision
    this.gains = []; // [gain, number] of the rows that a person should see
  }

  add(number, result) {
    const label = shownLabel(result.prediction ?? result.decision ?? ""), cells = this.cellsOf(result);
    this.labels.set(label, (this.labels.get(label) ?? 0) + 1);
    if (result.reason) this.reasons.set(result.reason, (this.reasons.get(result.reason) ?? 0) + 1);
    if (result.gain !== undefined) this.gains.push([result.gain, number]);
    for (const [name, cell] of Object.entries(cells)) this.columns.set(name, this.columns.get(name) || cell !== undefined);
    this.rows.set(number, cells);
  }

  // The file as a Blob. It has all rows that can be read, in the order of the user's file. The file is read again,
  // because a file may be too long for the memory. If the server refused a row, the new cells of this row are empty.
  // Rank 1 is the row that gains most by a look.
  async file(source) {
    const own = await namesOf(source), separator = source.separator ?? ",", used = new Set(own);
    const shown = [...this.columns].flatMap(([name, filled]) => (filled ? [name] : []));
    this.gains.sort(([a, i], [b, j]) => b - a || i - j).forEach(([, number], i) => { this.rows.get(number).rank = i + 1; });
    const line = (cells) => `${cells.map((cell) => asCell(cell, separator)).join(separator)}\r\n`;
    const lines = [line([...own, ...shown.map((name) => unused(name, used))])];
    for await (const [number, row] of source.rows()) {
      if (row instanceof Error) continue;
      const cells = source.kind === "libsvm" ? { label: row.label, features: row.indices.map((index, i) => `${index}:${row.values[i]}`).join(" ") } : row;
      const answer = this.rows.get(number) ?? {};
      lines.push(line([...own.map((name) => cells[name]), ...shown.map((name) => answer[name])]));
    }
    return new Blob(lines, { type: "text/csv" });
  }
}

// The columns of the user's file. Each line of JSONL may add columns.
async function namesOf(source) {
  if (source.names) return source.names;
  if (source.kind === "libsvm") return ["label", "features"];
  const names = new Set();
  for await (const [, row] of source.rows()) if (!(row instanceof Error)) for (const name of Object.keys(row)) names.add(name);
  return [...names];
}

// A name that the user's file does not have: "prediction", "prediction 2", and so on.
function unused(name, used) {
  let free = name;
  for (let n = 2; used.has(free); n++) free = `${name} ${n}`;
  used.add(free);
  return free;
}

function asCell(value, separator) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? JSON.stringify(value) : String(value);
  return /["\r\n]/.test(text) || text.includes(separator) ? `"${text.replaceAll('"', '""')}"` : text;
}

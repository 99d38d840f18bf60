// The file that the page makes of predictions or decisions: the rows of the user's file, with the server's answers in
// further columns.

import { shownLabel } from "./parts.js";

const asJson = (value) => (value === undefined ? undefined : JSON.stringify(value));

// By route, the columns that the answers fill. A column is left out if its cell is undefined in every row.
const COLUMNS = {
  predict: { prediction: (r) => r.prediction, probability: (r) => r.probability, set: (r) => asJson(r.set), outside: (r) => (r.outside ?? []).join(", ") },
  decide: { decision: (r) => r.decision, probability: (r) => r.probability, cost: (r) => r.cost, reason: (r) => r.reason, question: (r) => r.question, set: (r) => asJson(r.set) },
};

export class Answered {
  constructor(route) {
    this.columns = Object.entries(COLUMNS[route]);
    this.filled = new Set(); // the names of the columns that at least one answer fills
    this.rows = new Map(); // by the number of a row, its cells
    this.labels = new Map(); // by label, the number of rows with this prediction or decision
    this.reasons = new Map(); // by reason, the number of rows with a decision
  }

  add(number, result) {
    const label = shownLabel(result.prediction ?? result.decision ?? "");
    this.labels.set(label, (this.labels.get(label) ?? 0) + 1);
    if (result.reason) this.reasons.set(result.reason, (this.reasons.get(result.reason) ?? 0) + 1);
    this.rows.set(number, this.columns.map(([name, of]) => {
      const cell = of(result);
      if (cell !== undefined) this.filled.add(name);
      return cell;
    }));
  }

  // The file as a Blob. It has all rows that can be read, in the order of the user's file. The file is read again,
  // because a file may be too long for the memory. If the server refused a row, the new cells of this row are empty.
  async file(source) {
    const own = await namesOf(source), separator = source.separator ?? ",", used = new Set(own);
    const shown = this.columns.flatMap(([name], i) => (this.filled.has(name) ? [i] : []));
    const line = (cells) => `${cells.map((cell) => asCell(cell, separator)).join(separator)}\r\n`;
    const lines = [line([...own, ...shown.map((i) => unused(this.columns[i][0], used))])];
    for await (const [number, row] of source.rows()) {
      if (row instanceof Error) continue;
      const cells = source.kind === "libsvm" ? { label: row.label, features: row.indices.map((index, i) => `${index}:${row.values[i]}`).join(" ") } : row;
      const answer = this.rows.get(number) ?? [];
      lines.push(line([...own.map((name) => cells[name]), ...shown.map((i) => answer[i])]));
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

// The file that the page makes of predictions or decisions: the rows of the user's file, with the server's answers in
// further columns.

import { shownLabel, typedLabel } from "./parts.js";

// A label as the user's own file has it, in quotes only if a reader would take it for another label ("7", not "007").
const labelled = (label) => (label === null || (typeof label === "string" && typedLabel(label) === label.trim()) ? label : JSON.stringify(label));

// The cells that an answer fills, by column. chances: the probabilities of classes.
const cellsOf = (r, chances) => {
  const set = r.set && { set: JSON.stringify(r.set) };
  return r.decision === undefined ? { prediction: labelled(r.prediction), probability: r.probability, ...chances, ...set, outside: (r.outside ?? []).join(", ") }
    : { decision: labelled(r.decision), probability: r.probability, ...chances, cost: r.cost, reason: r.reason, gain: r.gain, rank: null, question: r.question, ...set };
};

export class Answered {
  // classes: the names of the classes in the order of their columns. In the answer, a browser puts integers first.
  constructor(classes) {
    this.classes = classes;
    this.rows = new Map(); // by the number of a row, its cells by column
    this.labels = new Map(); // by label, the number of rows with this prediction or decision
    this.reasons = new Map(); // by reason, the number of rows with a decision
    this.worth = 0; // number of rows that a person should see
  }

  add(number, result) {
    const label = shownLabel(result.prediction ?? result.decision ?? ""), chances = this.classes.map((name) => [`probability of ${name}`, result.probabilities?.[name]]);
    this.labels.set(label, (this.labels.get(label) ?? 0) + 1);
    if (result.reason) this.reasons.set(result.reason, (this.reasons.get(result.reason) ?? 0) + 1);
    this.worth += result.gain !== undefined;
    this.rows.set(number, cellsOf(result, Object.fromEntries(chances)));
  }

  // The file as a Blob. It has all rows that can be read, in the order of the user's file. The file is read again,
  // because a file may be too long for the memory. If the server refused a row, the new cells of this row are empty.
  // Rank 1 is the row that gains most by a look, or has the highest expected cost if no row needs a look.
  async file(source) {
    const own = await namesOf(source), separator = source.separator ?? ",", used = new Set(own);
    const [first = {}] = this.rows.values(), shown = Object.keys(first);
    const by = this.worth ? "gain" : "cost", ranked = [...this.rows].filter(([, cells]) => typeof cells[by] === "number");
    ranked.sort(([i, a], [j, b]) => b[by] - a[by] || i - j).forEach(([, cells], i) => { cells.rank = i + 1; });
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

// Read files of examples in CSV, JSONL or LIBSVM. The files are read piece by piece, so that a long file does not fill
// the memory.

import { iso, orderIn, ordersOf } from "./dates.js";

const PIECE = 2 ** 20; // bytes read at a time
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

export async function* linesOf(file) {
  const decoder = new TextDecoder();
  let rest = "";
  for (let at = 0; at < file.size; at += PIECE) {
    const buffer = await file.slice(at, at + PIECE).arrayBuffer();
    rest += decoder.decode(buffer, { stream: at + PIECE < file.size });
    const lines = rest.split(/\r?\n/);
    // A piece may end in the middle of a line, or between "\r" and " ".
    rest = lines.pop();
    yield* lines;
  }
  if (rest) yield rest.replace(/\r$/, "");
}

// The cells of each CSV record (RFC 4180). A cell in quotes may contain separators and line ends. Spaces before a cell
// do not count.
async function* recordsOf(file, separator) {
  let cells = [], cell = "", quoted = false, first = true; // first: whether the cell has no character yet
  for await (const line of linesOf(file)) {
    if (quoted) cell += "\n";
    else if (!line) continue;
    for (let i = 0; i < line.length; i++) {
      const c = line[i];
      if (quoted) {
        if (c !== '"') cell += c;
        else if (line[i + 1] === '"') { cell += '"'; i++; } else quoted = false;
      } else if (c === separator) {
        cells.push(cell);
        cell = "";
        first = true;
      } else if (first && c === '"') { quoted = true; first = false; } else if (!first || c !== " ") { cell += c; first = false; }
    }
    if (quoted) continue;
    yield [...cells, cell];
    cells = [];
    cell = "";
    first = true;
  }
  if (quoted) yield [...cells, cell];
}

export function kindOf(name, first) {
  if (/\.(jsonl|ndjson)$/i.test(name) || /^\s*\{/.test(first)) return "jsonl";
  if (/\.(libsvm|svm|svmlight)$/i.test(name) || /^\s*\S+(\s+\d+:[-+.\deE]+)+\s*(#.*)?$/.test(first)) return "libsvm";
  return "csv";
}

// The texts that count as missing unless the user names other texts. An empty text is always missing.
const MISSING = ["NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>"];
const missing = (v, words) => v === null || v === undefined || (typeof v === "string" && (v.trim() === "" || words.includes(v.trim())));

// The number that a text represents, or null. comma: whether its decimals follow a comma.
function numberOf(text, comma = false) {
  const trimmed = text.trim(), between = comma ? "." : ",", plain = (comma ? COMMA : COMMAS_BETWEEN).test(trimmed) ? trimmed.replaceAll(between, "") : trimmed;
  const number = comma ? plain.replaceAll(",", ".") : plain;
  return NUMBER.test(number) && !(comma && plain.includes(".")) && Number.isFinite(Number(number)) ? Number(number) : null;
}

// x of a row: the values of its features by name.
export const recordOf = (row, features) => Object.fromEntries(features.map((c) => [c.name, cellOf(row[c.name], c)]).filter(([, v]) => v !== null));

// The value of a cell for the server, or null if it is missing. The command line reads a table in the same way.
export function cellOf(v, column) {
  if (missing(v, column.words)) return null;
  if (column.use === "category") return String(v).trim();
  return typeof v !== "string" ? v : (column.type === "number" ? numberOf(v, column.comma) : column.order ? iso(v, column.order) : null) ?? v.trim();
}

// A label becomes a number only if it is written as an integer, so that 7, "7.0" and "007" stay different labels.
export function labelOf(v) {
  const label = typeof v === "string" ? v.trim() : v ?? "";
  return typeof label === "string" && /^([+-]?[1-9]\d{0,14}|0)$/.test(label) ? Number(label) : label;
}

// The formats of files that are not text, by their first bytes.
const FORMATS = { PAR1: "Parquet", ARROW1: "Arrow", "PK\u0003\u0004": "a ZIP archive or a spreadsheet", "\u001f\u008b": "compressed with gzip" };

// Refuse a file that is not text, and name the commands that can read it.
async function refuseBinary(file) {
  const head = new Uint8Array(await file.slice(0, 2 ** 16).arrayBuffer()), begin = String.fromCharCode(...head.slice(0, 8));
  const [, format] = Object.entries(FORMATS).find(([magic]) => begin.startsWith(magic)) ?? [];
  if (format === "Parquet" || format === "Arrow") {
    const name = /^[\w.-]+$/.test(file.name) ? file.name : `"${file.name}"`;
    throw new Error(`it is ${format}, which the page does not read. In a terminal "hinged replay ${name} --label COLUMN --model NAME" learns it, "hinged offer NAME ${name}" puts it into a pool, and "hinged predict NAME ${name}" predicts it`);
  }
  if (format || head.includes(0)) throw new Error(`it is ${format ?? "not UTF-8 text"}; the page reads CSV, JSONL and LIBSVM`);
}

export const SEPARATORS = { ",": "comma", "\t": "tab", ";": "semicolon", "|": "bar" };

// Open a file, and return {kind, names, missing, rows()}, for a table also its separator. A row of a table is
// [number, cells by name]. A row of LIBSVM is [number, {label, indices, values}]. An invalid line is [number, Error]; the
// error's `row` is what was read. separator: null if the page finds it. words: the texts that count as missing.
export async function open(file, { separator = null, missing: words = MISSING } = {}) {
  await refuseBinary(file);
  let first = "";
  for await (const line of linesOf(file)) if (line.trim()) { first = line; break; }
  const kind = kindOf(file.name, first);
  if (kind === "csv") return { ...(await openTable(file, separator ?? await separatorOf(file))), missing: words };
  return { kind, names: null, missing: words, rows: kind === "jsonl" ? () => objects(file) : () => vectors(file) };
}

// The separator with which most of the first records are as wide as the head.
async function separatorOf(file) {
  let best = null, most = -1;
  for (const separator of Object.keys(SEPARATORS)) {
    const widths = [];
    for await (const cells of recordsOf(file, separator)) if (widths.push(cells.length) === 20) break;
    const fit = widths[0] > 1 ? 1e6 * widths.filter((width) => width === widths[0]).length + widths[0] : 0;
    if (fit > most) [best, most] = [separator, fit];
  }
  return best;
}

async function openTable(file, separator) {
  const records = recordsOf(file, separator), { value: head = [] } = await records.next();
  const named = head.every((cell) => cell.trim() !== "" && !NUMBER.test(cell.trim())) && new Set(head).size === head.length;
  const names = named ? head.map((name) => name.trim()) : head.map((_, i) => `column ${i + 1}`);
  async function* rows() {
    let number = 0;
    for await (const cells of recordsOf(file, separator)) {
      if (number++ === 0 && named) continue;
      yield cells.length === names.length
        ? [number, Object.fromEntries(names.map((name, i) => [name, cells[i]]))]
        : [number, unreadable(`expected ${names.length} cells, got ${cells.length}`, cells)];
    }
  }
  return { kind: "csv", separator, names, rows };
}

const unreadable = (why, row) => Object.assign(new Error(why), { row });

async function* objects(file) {
  let number = 0;
  for await (const line of linesOf(file)) {
    number++;
    if (!line.trim()) continue;
    try {
      const found = JSON.parse(line);
      if (found === null || typeof found !== "object" || Array.isArray(found)) throw new Error(`got ${found === null ? "null" : Array.isArray(found) ? "an array" : `a ${typeof found}`}`);
      const { x, ...more } = found; // an example as programs send it: each part of its x is a column
      yield [number, x !== null && typeof x === "object" ? { ...more, ...x } : found];
    } catch (error) { yield [number, unreadable(`not a JSON object: ${error.message}`, line)]; }
  }
}

async function* vectors(file) {
  let number = 0;
  for await (const line of linesOf(file)) {
    number++;
    const text = line.replace(/#.*/, "").trim();
    if (!text) continue;
    const [label, ...parts] = text.split(/\s+/), indices = [], values = [];
    let wrong = null;
    for (const part of parts) {
      const [index, v] = part.split(":");
      if (!/^\d+$/.test(index) || !NUMBER.test(v ?? "")) { wrong = part; break; }
      indices.push(Number(index));
      values.push(Number(v));
    }
    yield [number, wrong === null ? { label, indices, values } : unreadable(`expected index:value, got ${wrong.slice(0, 40)}`, line)];
  }
}

const WORDS = 4; // mean number of words per cell from which a column counts as text; the words of a text are features
const TIME = /^\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)?)?$/;
const COMMA = /^[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+$/;
const COMMAS_BETWEEN = /^[+-]?\d{1,3}(,\d{3})+\.\d+$/; // a number with commas between its thousands
const POINT = new RegExp(`(?=.*[.])${NUMBER.source}`);
const NEARLY = 0.95; // minimum share of matching cells in a column of times (as in the server) or of decimal commas

const UNLIKE_MIN = 50, UNLIKE_SHARE = 0.9; // minimum number and share of different texts that nearly all differ (as in the server)
const MISSING_SHARE = 0.95; // minimum share of missing cells in a column that is left out

const ofAny = (cells, form) => cells.some((v) => typeof v === "string" && form.test(v.trim()));

// Guess the kind and the role of each column. The role is id, label, feature, text (whose words are features), category
// (each value apart), or leave. `useless` says why a model learns little from a column: "unlike" (nearly all its texts
// differ) or "missing". Such a column is left out, unless it is the only feature.
export function guess(names, rows, { kind, missing: words }) {
  const table = kind === "csv"; // cells of a table are texts; texts of JSON are never numbers
  const columns = names.map((name) => {
    const cells = rows.map((row) => row[name]).filter((v) => !missing(v, words));
    const share = (form) => cells.filter((v) => typeof v === "string" && form.test(v.trim())).length / (cells.length || 1);
    const numeric = (comma) => cells.length > 0 && cells.every((v) => typeof v === "number" || (table && numberOf(v, comma) !== null));
    const type = numeric(false) ? "number" : cells.length > 0 && cells.every((v) => typeof v === "boolean") ? "yes or no" : share(TIME) >= NEARLY ? "time" : "text";
    const perCell = cells.reduce((sum, v) => sum + String(v).trim().split(/\s+/).length, 0) / (cells.length || 1);
    const orders = type === "text" ? ordersOf(cells) : [];
    const withComma = numeric(true), commas = type === "text" && share(COMMA) >= NEARLY, distinct = new Set(cells.map(String)).size;
    const unlike = type === "text" && !withComma && !commas && !orders.length && distinct >= Math.max(UNLIKE_MIN, UNLIKE_SHARE * cells.length);
    const gone = 1 - cells.length / rows.length;
    return { name, type, cells, words, withComma, commas, orders, distinct, perCell, missing: gone, useless: gone >= MISSING_SHARE ? "missing" : unlike ? "unlike" : null, use: "feature" };
  });
  const n = rows.length;
  const id = columns.find((c) => /^(id|uuid|key|_id)$/i.test(c.name)) ?? columns.find((c) => /(^|[_ ])id$/i.test(c.name) && c.distinct === n && n > 1);
  if (id) id.use = "id";
  const free = columns.filter((c) => c.use === "feature");
  const label = free.find((c) => /^(y|label|class|target|category)$/i.test(c.name))
    ?? [free.at(-1), free[0]].find((c) => c && !["number", "time"].includes(c.type) && !c.commas && !c.orders.length && c.distinct > 1 && c.distinct <= Math.min(50, n / 2));
  if (label) label.use = "label";
  for (const c of columns) if (c.use === "feature" && c.type === "text" && !c.withComma && !c.orders.length && c.perCell >= WORDS && c.distinct > c.cells.length / 2) c.use = "text";
  if (columns.some((c) => c.use === "text" || (c.use === "feature" && !c.useless)))
    for (const c of columns) if (c.use === "feature" && c.useless) c.use = "leave";
  return columns;
}

// The columns for a model that exists: what it has learned as a feature stays a feature, nothing warns of a column that
// it never used, and a model of texts alone takes the column with the longest texts.
export function known(columns, form, features) {
  if (form === "text") {
    const [text] = columns.filter((c) => c.type === "text" && !["id", "label"].includes(c.use)).sort((a, b) => b.perCell - a.perCell);
    return columns.map((c) => (text && !["id", "label"].includes(c.use) ? { ...c, use: c === text ? "text" : "leave", unused: c !== text } : c));
  }
  const names = new Set([...(features?.fields ?? []).map((field) => field.name), ...(features?.texts ?? [])]);
  return columns.map((c) => (["label", "leave"].includes(c.use) && names.has(c.name) ? { ...c, use: "feature" } : c.use === "leave" && names.size ? { ...c, unused: true } : c));
}

// The columns as their cells are read: `comma` (the decimals of a number follow a comma), `order` (which part of a date
// comes first), and the type that follows. choices: {decimal, dates}, as the options of the command line. Without a
// choice, a comma is a decimal comma if it separates no cells, some feature has only such numbers, and none has a
// decimal point; and an order is found if it is the only order that fits all features.
export function readAs(columns, { kind, separator }, { decimal, dates } = {}) {
  const features = columns.filter((c) => c.use === "feature"), table = kind === "csv";
  const comma = table && (decimal ? decimal === "," : separator !== "," && features.some((c) => c.withComma && ofAny(c.cells, COMMA)) && !features.some((c) => ofAny(c.cells, POINT)));
  const order = orderIn(features.map((c) => c.orders), dates);
  return columns.map((c) => {
    if (c.use !== "feature") return c;
    if (c.orders.includes(order)) return { ...c, order, type: "time" };
    if (!comma || !["number", "text"].includes(c.type)) return c;
    return { ...c, comma: c.withComma, type: c.withComma ? "number" : "text", commas: c.withComma ? ofAny(c.cells, COMMA) : c.commas };
  });
}

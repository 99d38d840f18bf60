// Read files of examples in CSV, JSONL or LIBSVM. The files are read piece by piece, so that a long file does not fill
// the memory.

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

// The cells of each CSV record (RFC 4180). A cell in quotes may contain separators and line ends.
async function* recordsOf(file, separator) {
  let cells = [], cell = "", quoted = false, begun = false;
  for await (const line of linesOf(file)) {
    if (quoted) cell += "\n";
    for (let i = 0; i < line.length; i++) {
      const c = line[i];
      if (quoted) {
        if (c !== '"') cell += c;
        else if (line[i + 1] === '"') { cell += '"'; i++; } else quoted = false;
      } else if (c === '"' && cell === "") { quoted = true; begun = true; } else if (c === separator) {
        cells.push(cell);
        cell = "";
        begun = true;
      } else { cell += c; begun = true; }
    }
    if (quoted) continue;
    if (begun || cell) yield [...cells, cell];
    cells = [];
    cell = "";
    begun = false;
  }
  if (quoted) yield [...cells, cell];
}

export function kindOf(name, first) {
  if (/\.(jsonl|ndjson)$/i.test(name) || /^\s*\{/.test(first)) return "jsonl";
  if (/\.(libsvm|svm|svmlight)$/i.test(name) || /^\s*\S+(\s+\d+:[-+.\deE]+)+\s*(#.*)?$/.test(first)) return "libsvm";
  return "csv";
}

const separatorOf = (line) => [",", ";", "\t"].map((s) => [line.split(s).length, s]).sort((a, b) => b[0] - a[0])[0][1];
export const value = (text) => (NUMBER.test(text.trim()) && Math.abs(Number(text)) < 1e300 ? Number(text) : text === "" ? null : text);
// A label becomes a number only if it is written as an integer, so that 7 and "7.0" stay different labels.
export const labelOf = (v) => (typeof v === "string" && /^-?\d{1,15}$/.test(v) ? Number(v) : v);

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

// Open a file, and return {kind, names, rows()}, for a table also its separator. A row of a table is [number, cells by name]. A row of LIBSVM is
// [number, {label, indices, values}]. An invalid line is [number, Error].
export async function open(file) {
  await refuseBinary(file);
  let first = "";
  for await (const line of linesOf(file)) if (line.trim()) { first = line; break; }
  const kind = kindOf(file.name, first);
  if (kind === "csv") return openTable(file, separatorOf(first));
  return { kind, names: null, rows: kind === "jsonl" ? () => objects(file) : () => vectors(file) };
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
        : [number, new Error(`expected ${names.length} cells, got ${cells.length}`)];
    }
  }
  return { kind: "csv", separator, names, rows };
}

async function* objects(file) {
  let number = 0;
  for await (const line of linesOf(file)) {
    number++;
    if (!line.trim()) continue;
    try {
      const found = JSON.parse(line);
      if (found === null || typeof found !== "object" || Array.isArray(found)) throw new Error(`got ${found === null ? "null" : Array.isArray(found) ? "an array" : `a ${typeof found}`}`);
      yield [number, found];
    } catch (error) { yield [number, new Error(`not a JSON object: ${error.message}`)]; }
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
    yield [number, wrong === null ? { label, indices, values } : new Error(`expected index:value, got ${wrong.slice(0, 40)}`)];
  }
}

const WORDS = 4; // mean number of words per cell from which a column counts as text; the words of a text are features
const TIME = /^\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?([Zz]|[+-]\d\d:?\d\d)?)?$/;
const COMMA = /^\s*[+-]?\d+(\.\d{3})*,\d+\s*$/;
const NEARLY = 0.95; // minimum share of matching cells in a column of times (as in the server) or decimal commas

// Guess the kind and the role of each column. The role is id, label, feature, or text, whose words are features.
export function guess(names, rows) {
  const columns = names.map((name) => {
    const cells = rows.map((row) => row[name]).filter((v) => v !== "" && v !== null && v !== undefined);
    const numeric = cells.length > 0 && cells.every((v) => typeof v === "number" || (typeof v === "string" && typeof value(v) === "number"));
    const truth = cells.length > 0 && cells.every((v) => typeof v === "boolean");
    const share = (form) => cells.filter((v) => typeof v === "string" && form.test(v)).length / (cells.length || 1);
    const type = numeric ? "number" : truth ? "yes or no" : share(TIME) >= NEARLY ? "time" : "text";
    const words = cells.reduce((sum, v) => sum + String(v).trim().split(/\s+/).length, 0) / (cells.length || 1);
    return { name, type, commas: type === "text" && share(COMMA) >= NEARLY, distinct: new Set(cells.map(String)).size, filled: cells.length, words, use: "feature" };
  });
  const n = rows.length;
  const id = columns.find((c) => /^(id|uuid|key|_id)$/i.test(c.name)) ?? columns.find((c) => /(^|[_ ])id$/i.test(c.name) && c.distinct === n && n > 1);
  if (id) id.use = "id";
  const free = columns.filter((c) => c.use === "feature");
  const label = free.find((c) => /^(y|label|class|target|category)$/i.test(c.name))
    ?? [free.at(-1), free[0]].find((c) => c && !["number", "time"].includes(c.type) && !c.commas && c.distinct > 1 && c.distinct <= Math.min(50, n / 2));
  if (label) label.use = "label";
  for (const c of columns) if (c.use === "feature" && c.type === "text" && c.words >= WORDS && c.distinct > c.filled / 2) c.use = "text";
  return columns;
}

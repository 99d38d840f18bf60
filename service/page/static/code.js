// Programs that send examples to this server: curl, Python and JavaScript, with the model's own columns.

import { html, useRef, useState } from "./vendor/htm-preact.js";
import { ask, may, path, root, who } from "./api.js";
import { copied, Problem, usePolled } from "./parts.js";

const EVERY_MS = 60_000;
const LANGUAGES = { curl: "curl", python: "Python", javascript: "JavaScript" };
const NEW = "my-model"; // name of the model in the programs, if the server has no model
const server = root.href.replace(/\/$/, "");

// An x in the form that the model takes, if it has learned no example.
export function sampleOf({ features }, fields = []) {
  if (features.type === "dense") return Array(features.dim).fill(0);
  if (features.type === "sparse") return { indices: [0], values: [1] };
  if (features.type === "text") return "a text";
  return fields.length ? Object.fromEntries(fields.map(({ name, number }) => [name, number ? 1 : "a text"])) : { size: 1.5, colour: "red" };
}

// The newest facts about a model that its programs need: {x, y}.
async function sample(model) {
  const to = `models/${path(model)}`;
  const [figures, { examples }] = await Promise.all([
    ask("GET", to), may("annotator") ? ask("GET", `${to}/examples?n=1&x=true`) : { examples: [] }]);
  const known = examples[0];
  return { x: known?.x ?? sampleOf(figures.configuration, figures.features?.fields), y: known?.label ?? figures.classes[0] ?? "good" };
}

// A value of JSON on one line. words: how the language writes null, true and false.
function written(value, words = {}) {
  if (Array.isArray(value)) return `[${value.map((v) => written(v, words)).join(", ")}]`;
  if (value !== null && typeof value === "object") return `{${Object.entries(value).map(([name, v]) => `${JSON.stringify(name)}: ${written(v, words)}`).join(", ")}}`;
  return words[value] && typeof value !== "string" ? words[value] : JSON.stringify(value);
}
const json = (value) => written(value);
const python = (value) => written(value, { null: "None", true: "True", false: "False" });
const shell = (value) => `'${json(value).replaceAll("'", "'\\''")}'`;

// The programs by language. fresh: whether the programs create the model first. keyed: whether the server needs a key.
export function programs({ model, x, y, fresh, keyed }) {
  const learned = { examples: [{ id: "my-1", x, y }] }, asked = { examples: [{ x }] }, at = `${server}/models/${path(model)}`;
  const configuration = { kernel: { type: "rbf" }, features: { type: "named" } };
  const key = keyed ? ' -H "authorization: Bearer $HINGED_KEY"' : "";
  const call = (method, to, body) => `curl -X ${method} ${to} -H 'content-type: application/json'${key} \\\n  -d ${shell(body)}\n`;
  const send = (method, to, body) => `await call("${method}", "${to}", ${json(body)})`;
  return {
    curl: (fresh ? call("PUT", at, configuration) : "") + call("POST", `${at}/learn`, learned) + call("POST", `${at}/predict`, asked),
    python: `${keyed ? "import os\n\n" : ""}from hinged import Client

client = Client(${JSON.stringify(server)}${keyed ? ', key=os.environ["HINGED_KEY"]' : ""})
${fresh ? `client.create_model(${JSON.stringify(model)}, kernel=${python(configuration.kernel)}, features=${python(configuration.features)})\n` : ""}client.learn(${JSON.stringify(model)}, ${python(learned.examples)})
answer = client.predict(${JSON.stringify(model)}, ${python(asked.examples)})
print(answer["results"][0]["prediction"])
`,
    javascript: `const call = async (method, to, body) => {
  const headers = { "content-type": "application/json"${keyed ? ", authorization: `Bearer ${key}`" : ""} };
  const answer = await fetch("${at}" + to, { method, headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error((await answer.json()).error.message);
  return answer.json();
};
${fresh ? `${send("PUT", "", configuration)};\n` : ""}${send("POST", "/learn", learned)};
const answer = ${send("POST", "/predict", asked)};
console.log(answer.results[0].prediction);
`,
  };
}

// model: null if the server has no model yet. The programs then create one.
export function Code({ model }) {
  const [language, setLanguage] = useState("curl");
  const [found, error, again] = usePolled(async () => (model === null ? { x: sampleOf({ features: {} }), y: "good" } : sample(model)), EVERY_MS, [model]);
  const box = useRef();
  if (!found) return error ? html`<${Problem} error=${error} again=${again} />` : html`<p class="waiting">Loading…</p>`;
  const text = programs({ ...found, model: model ?? NEW, fresh: model === null, keyed: who.name !== "everyone" })[language];
  return html`<div class="code-box"><div class="row" role="group" aria-label="Language">${Object.entries(LANGUAGES).map(([name, word]) => html`
      <button class="plain" aria-pressed=${name === language} onClick=${() => setLanguage(name)}>${word}</button>`)}
      <span class="room"></span><button onClick=${() => copied(text, box.current)}>Copy</button></div>
    <pre class="code" tabindex="0" role="group" aria-label="Program"><code ref=${box}>${text}</code></pre>
    ${language === "python" && html`<p class="soft"><code>pip install hinged</code> installs the client.</p>`}</div>`;
}

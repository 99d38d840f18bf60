// A client of hinged for browsers and Node (22, or 20.10 with --experimental-websocket). Copy it and change it.
//
//   const client = new Hinged("http://127.0.0.1:8000", { key });
//   await client.learn("weather", [{ x: [0.9, 0.1], y: "sun" }]);
//   const { results } = await client.predict("weather", [{ x: [0.3, 0.6] }]);

const AGAIN = [429, 502, 503, 504]; // statuses after which a request is sent again
const COMING = ["compiling", "loading"]; // states of a model that will soon serve by itself
const COMING_MS = 300_000; // how long a call waits for such a model, without counting its answers as tries

export class HingedError extends Error {
  constructor(status, { code, message, details } = {}) {
    super(message ?? `status ${status}`);
    Object.assign(this, { status, code, details });
  }
}

export class Hinged {
  constructor(url, { key, tries = 5 } = {}) {
    Object.assign(this, { url: url.replace(/\/$/, ""), key, tries });
  }

  // Send a request, and send it again after a pause if the server was away or too busy.
  async call(method, path, body) {
    const headers = { "content-type": "application/json", ...(this.key && { authorization: `Bearer ${this.key}` }) };
    const patience = Date.now() + (this.tries > 1 ? COMING_MS : 0);
    for (let tried = 1; ; ) {
      const answer = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) }).catch((error) => {
        if (tried >= this.tries) throw error;
      });
      if (answer?.ok) return answer.status === 204 ? null : answer.json();
      const { error } = (await answer?.json().catch(() => {})) ?? {};
      const coming = COMING.includes(error?.details?.state) && Date.now() < patience;
      if (answer && !coming && (tried >= this.tries || !AGAIN.includes(answer.status))) throw new HingedError(answer.status, error);
      const seconds = Number(answer?.headers.get("retry-after")) || 0.1 * 2 ** tried;
      if (!coming) tried++;
      await new Promise((wake) => setTimeout(wake, 1000 * seconds));
    }
  }

  model = (name, { full = false } = {}) => this.call("GET", pathOf(name) + (full ? "?full=true" : ""));
  create = (name, configuration) => this.call("PUT", pathOf(name), configuration);
  predict = (name, examples, options) => this.call("POST", `${pathOf(name)}/predict`, { examples, ...options });
  // Each example gets an id, so that a repeated request learns it once.
  learn = (name, examples) => this.call("POST", `${pathOf(name)}/learn`, { examples: withIds(examples) });

  // Open the model's WebSocket. It takes many requests at once and answers them in order.
  async stream(name) {
    const { ticket } = this.key ? await this.call("POST", "/tickets") : {}; // a browser's WebSocket sends no headers
    const query = ticket ? `?ticket=${encodeURIComponent(ticket)}` : "";
    const socket = new WebSocket(`${this.url.replace(/^http/, "ws")}${pathOf(name)}/stream${query}`);
    const waiting = new Map();
    let refs = 0;
    socket.onmessage = ({ data }) => {
      const { ref, ok, error, ...answer } = JSON.parse(data);
      const { resolve, reject } = waiting.get(ref) ?? {};
      waiting.delete(ref);
      if (ok) resolve?.(answer);
      else reject?.(new HingedError(null, error));
    };
    await new Promise((open, fail) => Object.assign(socket, { onopen: open, onerror: () => fail(new HingedError(null)) }));
    socket.onclose = ({ code }) => waiting.forEach(({ reject }) => reject(new HingedError(null, { message: `closed: ${code}` })));
    const send = (op, body) => new Promise((resolve, reject) => {
      if (socket.readyState !== WebSocket.OPEN) return reject(new HingedError(null, { message: "the stream is closed" }));
      const ref = String(++refs);
      waiting.set(ref, { resolve, reject });
      socket.send(JSON.stringify({ op, ref, ...body }));
    });
    const learn = (examples) => send("learn", { examples: withIds(examples) });
    return { send, learn, predict: (examples) => send("predict", { examples }), close: () => socket.close() };
  }
}

const pathOf = (name) => `/models/${encodeURIComponent(name)}`;
const withIds = (examples) => examples.map((example) => ({ id: crypto.randomUUID(), ...example }));

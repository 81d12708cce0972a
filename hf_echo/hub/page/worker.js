// The model, in a thread of its own: sentences in, normalised embeddings out. The page stays responsive meanwhile.
//
//   in:  {id, texts}
//   out: {loaded, total} bytes while the files arrive, then {ready: true} or {error}
//        {id, done} after each batch, then {id, vectors: Float32Array[]} or {id, error}

import { AutoModel, AutoTokenizer, LogLevel, env } from "./vendor/transformers.min.js";

const BATCH = 8;
let settings;
let loaded = 0;

/** `fetch` that reports how many bytes of all files have arrived. */
async function counted(...request) {
  const response = await fetch(...request);
  if (!response.ok) return response;
  const count = new TransformStream({
    transform(chunk, out) {
      loaded += chunk.length;
      postMessage({ loaded, total: settings.bytes });
      out.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(count), response);
}

async function load() {
  settings = await (await fetch("settings.json")).json();
  const runtime = "vendor/ort-wasm-simd-threaded";
  const wasm = await counted(`${runtime}.wasm`);
  if (!wasm.ok) throw new Error(`${runtime}.wasm: ${wasm.status}`);
  Object.assign(env.backends.onnx.wasm, {
    wasmBinary: await wasm.arrayBuffer(),
    wasmPaths: { mjs: new URL(`${runtime}.mjs`, self.location).href },
  });
  Object.assign(env, {
    fetch: counted,
    allowRemoteModels: false, // nothing from any other place
    allowLocalModels: true,
    localModelPath: new URL(".", self.location).pathname,
    useBrowserCache: false, // sw.js keeps the files
    useWasmCache: false,
    logLevel: LogLevel.ERROR, // `echo` is a model type that it does not know: it then runs the graph as it is
  });
  const options = { device: "wasm", dtype: "q8" };
  const tokenizer = await AutoTokenizer.from_pretrained("model");
  return { tokenizer, model: await AutoModel.from_pretrained("model", options) };
}

const opened = load();
opened.then(
  () => postMessage({ ready: true }),
  (error) => postMessage({ error: `The model did not open: ${error.message}` }),
);

self.onmessage = async ({ data: { id, texts } }) => {
  try {
    const { tokenizer, model } = await opened;
    const vectors = [];
    const order = [...texts.keys()].sort((a, b) => texts[a].length - texts[b].length); // little padding
    for (let start = 0; start < order.length; start += BATCH) {
      const batch = order.slice(start, start + BATCH);
      const prompted = batch.map((i) => settings.prompt + texts[i]);
      const inputs = tokenizer(prompted, { padding: true, truncation: true });
      const { data, dims } = (await model(inputs)).sentence_embedding;
      batch.forEach((i, row) => (vectors[i] = data.slice(row * dims[1], (row + 1) * dims[1])));
      postMessage({ id, done: start + batch.length });
    }
    postMessage({ id, vectors });
  } catch (error) {
    postMessage({ id, error: error.message });
  }
};

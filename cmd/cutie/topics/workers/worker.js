// Uncompresses gzip files: node worker.js [BASE QUEUE]
const { createHash } = require("node:crypto");
const { gunzipSync } = require("node:zlib");
const [base, queue] = process.argv.length > 3 ? process.argv.slice(2) : ["http://127.0.0.1:8080/", "jobs"];

async function ask(method, path, headers, body) {
  const answer = await fetch(base + path, { method, headers, body });
  const octets = Buffer.from(await answer.arrayBuffer());
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${octets}`);
  return [octets, answer.headers];
}

async function next() {
  const [payload, head] = await ask("POST", `consume/${queue}?wait=20&lease=30`, { Accept: "application/octet-stream" });
  if (!head.has("Cutie-Lease")) return; // no job came
  const job = head.get("Content-Location").split("/").pop(), lease = { "Cutie-Lease": head.get("Cutie-Lease") };
  let text, outcome = { outcome: "completed" };
  if (head.get("Repr-Digest") !== `sha-256=:${createHash("sha256").update(payload).digest("base64")}:`)
    outcome = { outcome: "error", type: "transient", message: "damaged" };
  else try { text = gunzipSync(payload); } catch (why) { outcome = { outcome: "error", type: "fatal", message: why.message }; }
  if (text) await ask("PUT", `result/${queue}/${job}/text`, lease, text);
  await ask("POST", `outcome/${queue}/${job}?${new URLSearchParams(outcome)}`, lease);
}

async function work() {
  for (;;) {
    try { await next(); } catch (why) { // the daemon is away, or the lease is gone: the job comes again
      console.error(why.message);
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}
work();

// The TypeScript SDK's client against the example library: `node typescript.mjs CLIENT_MODULE URL`.
// Prints one line a check, "ok …" or "not ok …", and exits 1 if one is not.
import { strict as assert } from 'node:assert';
import { once, EventEmitter } from 'node:events';

const { Client, StreamableHTTPClientTransport } = await import(process.argv[2]);
const client = new Client({ name: 'typescript', version: '1' }, { versionNegotiation: { mode: 'auto' } });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[3])));

const checks = {
  'negotiates this revision': async () => {
    assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
  },
  'lists the tools': async () => {
    const names = (await client.listTools()).tools.map((tool) => tool.name);
    assert.deepEqual(names, ['search', 'place_hold', 'reindex']);
  },
  'calls a tool with a mirrored parameter': async () => {
    const call = { name: 'search', arguments: { query: 'treasure', region: 'eu' } };
    const result = await client.callTool(call);
    assert.deepEqual(result.structuredContent.map((book) => book.title), ['Treasure Island']);
  },
  'sees progress': async () => {
    const told = [];
    const call = { name: 'reindex', arguments: { steps: 4, delay: 0.01 } };
    await client.callTool(call, { onprogress: ({ progress }) => told.push(progress) });
    assert.deepEqual(told, [1, 2, 3, 4]);
  },
  'reads a resource': async () => {
    const result = await client.readResource({ uri: 'library://books/3' });
    assert.equal(JSON.parse(result.contents[0].text).title, 'Frankenstein');
  },
  'leaves a call, which then stops': async () => {
    const leave = new AbortController();
    const call = { name: 'reindex', arguments: { steps: 40, delay: 0.05 } };
    const onprogress = ({ progress }) => progress >= 6 && leave.abort();
    await assert.rejects(client.callTool(call, { onprogress, signal: leave.signal }));
    const deadline = Date.now() + 5000;
    let run;
    do {
      const result = await client.readResource({ uri: 'library://runs' }, { cacheMode: 'refresh' });
      run = JSON.parse(result.contents[0].text)[0];
    } while (run.state === 'runs' && Date.now() < deadline);
    assert.equal(run.state, 'cancelled');
    assert.ok(run.done <= 7, `${run.done} steps were done`);
  },
  'hears a change': async () => {
    const heard = new EventEmitter();
    client.setNotificationHandler('notifications/resources/updated', (note) => {
      heard.emit('updated', note.params.uri);
    });
    const listen = await client.listen({ resourceSubscriptions: ['library://holds'] });
    const updated = once(heard, 'updated', { signal: AbortSignal.timeout(5000) });
    await client.callTool({ name: 'place_hold', arguments: { book_id: 9 } });
    assert.deepEqual(await updated, ['library://holds']);
    await listen.close();
  },
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`not ok ${name}: ${error.stack}`);
  }
}
await client.close();
process.exit(failed ? 1 : 0);

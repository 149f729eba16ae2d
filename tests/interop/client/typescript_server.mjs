// The TypeScript SDK's server with the tools that `test_their_servers` calls; prints its port.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

// The packages stand wherever the test says, not beside this file.
const require = createRequire(process.argv[2] + '/package.json');
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { McpServer, createMcpHandler } = await load('@modelcontextprotocol/server');
const { toNodeHandler } = await load('@modelcontextprotocol/node');
const { z } = await load('zod');

let stepsDone = 0;
let handler;
const text = (value) => ({ content: [{ type: 'text', text: String(value) }] });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function makeServer() {
    const server = new McpServer({ name: 'theirs', version: '1' });
    server.registerTool(
        'add',
        { inputSchema: z.object({ a: z.number(), b: z.number() }) },
        async ({ a, b }) => text(a + b)
    );
    server.registerTool(
        'reindex',
        { inputSchema: z.object({ steps: z.number() }) },
        async ({ steps }, ctx) => {
            stepsDone = 0;
            const progressToken = ctx.mcpReq._meta?.progressToken;
            for (let step = 1; step <= steps && !ctx.mcpReq.signal.aborted; step++) {
                stepsDone = step;
                if (progressToken !== undefined) {
                    await ctx.mcpReq.notify({
                        method: 'notifications/progress',
                        params: { progressToken, progress: step, total: steps }
                    });
                }
                await sleep(20);
            }
            return text('done');
        }
    );
    server.registerTool('steps_done', { inputSchema: z.object({}) }, async () => text(stepsDone));
    server.registerTool('change', { inputSchema: z.object({}) }, async () => {
        handler.notify.toolsChanged();
        return text('told');
    });
    server.registerResource('text', 'data://text', {}, async (uri) => ({
        contents: [{ uri: uri.href, text: 'the text' }]
    }));
    server.registerPrompt('greet', { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Hello ${name}` } }]
    }));
    return server;
}

handler = createMcpHandler(makeServer);
const listener = createServer(toNodeHandler(handler));
listener.listen(0, '127.0.0.1', () => console.log(listener.address().port));

// The smallest MCP server with a tool that writes a file: `save`, with `path` and `text`.
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";

const tool = {
    name: "save",
    description: "Writes text to a file.",
    inputSchema: {
        type: "object",
        properties: { path: { type: "string" }, text: { type: "string" } },
        required: ["path", "text"],
    },
};

function save({ path, text }) {
    try {
        writeFileSync(path, text);
        return { content: [{ type: "text", text: "saved" }] };
    } catch (error) {
        return { content: [{ type: "text", text: error.message }], isError: true };
    }
}

function answer({ method, params }) {
    switch (method) {
        case "initialize":
            return {
                protocolVersion: params.protocolVersion,
                capabilities: { tools: {} },
                serverInfo: { name: "files", version: "1.0.0" },
            };
        case "tools/list":
            return { tools: [tool] };
        case "tools/call":
            return save(params.arguments);
        default:
            return {};
    }
}

for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    if (request.id !== undefined) {
        console.log(JSON.stringify({ jsonrpc: "2.0", id: request.id, result: answer(request) }));
    }
}

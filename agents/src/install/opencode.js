// mala: asks before a tool writes, so that agents in one checkout do not hurt each other.
// Written by `mala init`; `mala init --undo` removes it.
import { spawnSync } from "node:child_process"

const MALA = "MALA"

// A call that mala cannot answer is refused: nobody knows what it would have said.
function ask(event, session, cwd, fields) {
  const call = { hook_event_name: event, session_id: session ?? "unknown", cwd, ...fields }
  const result = spawnSync(MALA, ["hook", "opencode"], {
    input: JSON.stringify(call),
    encoding: "utf8",
    timeout: 30000,
    maxBuffer: 16 * 1024 * 1024,
  })
  if (result.error) throw new Error(`mala did not answer: ${result.error.message}`)
  if (result.status !== 0) throw new Error(result.stderr?.trim() || `mala ended with ${result.status ?? result.signal}`)
  return JSON.parse(result.stdout)
}

// For events that decide nothing.
function tell(event, session, cwd, fields) {
  try {
    return ask(event, session, cwd, fields)
  } catch {
    return {}
  }
}

export const Mala = async ({ client, directory, worktree }) => {
  const cwd = directory ?? worktree ?? process.cwd()
  const sentBack = new Set()
  return {
    // Its tools, unless somebody has set them up already.
    config: async (config) => {
      config.mcp = { mala: { type: "local", command: [MALA, "mcp"], enabled: true }, ...config.mcp }
    },
    "tool.execute.before": async (input, output) => {
      const answer = ask("PreToolUse", input.sessionID, cwd, {
        tool_name: input.tool,
        tool_input: output.args ?? {},
        tool_use_id: input.callID,
      })
      if (answer.deny) throw new Error(answer.deny)
      if (answer.args) Object.assign(output.args, answer.args)
    },
    "tool.execute.after": async (input, output) => {
      const answer = tell("PostToolUse", input.sessionID, cwd, {
        tool_name: input.tool,
        tool_input: input.args ?? {},
        tool_use_id: input.callID,
        tool_response: { metadata: output.metadata ?? null },
      })
      if (answer.context) output.output = `${output.output ?? ""}\n\n${answer.context}`
    },
    event: async ({ event }) => {
      const session = event.properties?.sessionID ?? event.properties?.info?.id
      if (event.type === "session.created") tell("SessionStart", session, cwd, { source: "startup" })
      if (event.type === "session.deleted") tell("SessionEnd", session, cwd, { reason: "deleted" })
      if (event.type !== "session.idle") return
      const answer = tell("Stop", session, cwd, { stop_hook_active: sentBack.has(session) })
      if (!answer.send_back) {
        sentBack.delete(session)
        return
      }
      sentBack.add(session)
      await client?.session?.prompt({
        path: { id: session },
        body: { parts: [{ type: "text", text: answer.send_back }] },
      })
    },
  }
}

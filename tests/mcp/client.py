"""The official MCP client, put to work on `mala mcp`: `client.py MODE CHECK MALA`.

MODE is how the client opens the connection: `legacy` (initialize) or a version of the protocol that has no such thing.
Each check is a function. It prints nothing; whatever it expects and does not find ends it with an exception.
"""

import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters

TOOLS = [
    "lock_acquire", "lock_release", "lock_status", "lock_ask", "lock_answer", "lock_take", "lock_cancel", "test_run", "commit",
    "gate_check", "message_send", "message_inbox", "issue_wait", "issue_note",
]


def connect(mode, mala):
    # Few variables reach the server: that is how this library starts one.
    return Client(StdioServerParameters(command=mala, args=["mcp"]), mode=mode)


async def handshake(client):
    assert client.server_info.name == "mala", client.server_info
    assert client.server_capabilities.tools is not None
    assert "lock" in client.instructions
    if client.protocol_version < "2026":
        await client.session.send_ping()


async def tools(client):
    listed = (await client.list_tools()).tools
    assert [tool.name for tool in listed] == TOOLS, listed
    for tool in listed:
        assert tool.description and tool.input_schema["type"] == "object", tool
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in listed) < 8 * 1024


async def calls(client):
    locked = await client.call_tool("lock_acquire", {"paths": ["mine.txt"], "reason": "a check"})
    assert not locked.is_error, locked
    granted = locked.structured_content["granted"]
    assert [lock["path"] for lock in granted] == ["mine.txt"]
    assert granted[0]["agent"].startswith("python"), granted
    assert "mine.txt" in locked.content[0].text
    status = await client.call_tool("lock_status", {})
    assert ("mine.txt", granted[0]["agent"]) in [(lock["path"], lock["agent"]) for lock in status.structured_content["locks"]]
    tested = await client.call_tool("test_run", {"command": ["sh", "-c", "echo '{\"jsonrpc\":\"2.0\"}'; exit 3"]})
    assert tested.is_error and tested.structured_content["exit_code"] == 3, tested
    assert "jsonrpc" in tested.structured_content["output"]
    released = await client.call_tool("lock_release", {"all": True})
    assert [lock["path"] for lock in released.structured_content["released"]] == ["mine.txt"]


async def errors(client):
    refused = await client.call_tool("lock_acquire", {"paths": ["held.txt"]})
    assert refused.is_error, refused
    assert refused.structured_content["conflicts"][0]["agent"] == "other"
    assert "lock_ask" in refused.structured_content["hint"]
    assert "`other`" in refused.content[0].text and "lock_ask" in refused.content[0].text
    wrong = await client.call_tool("lock_acquire", {"paths": "held.txt"})
    assert wrong.is_error and "`paths` must be a list of texts" in wrong.content[0].text, wrong
    try:
        await client.call_tool("no_such_tool", {})
        raise AssertionError("an unknown tool was called")
    except MCPError as error:
        assert "lock_acquire" in error.error.message, error
    assert not (await client.call_tool("lock_status", {})).is_error


async def cancellation(client):
    """A call that waits is given up; meanwhile, and afterwards, others are answered."""
    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def wait():
            with scope:
                await client.call_tool("lock_acquire", {"paths": ["held.txt"], "wait": "10m"})
                raise AssertionError("it was granted")

        group.start_soon(wait)
        with anyio.fail_after(60):
            while not await waiting(client):
                await anyio.sleep(0.01)
            scope.cancel()
            while await waiting(client):
                await anyio.sleep(0.01)


async def waiting(client):
    status = await client.call_tool("lock_status", {})
    return [waiter["path"] for waiter in status.structured_content["waiters"]]


async def progress(client):
    told = []

    async def tell(progress, total, message):
        told.append((progress, message))

    refused = await client.call_tool("lock_acquire", {"paths": ["held.txt"], "wait": "3s"}, progress_callback=tell)
    assert refused.is_error and refused.structured_content["cause"] == "timeout", refused
    assert told == sorted(told) and told, told
    assert "held by `other`" in told[0][1], told


async def main(mode, check, mala):
    async with connect(mode, mala) as client:
        await globals()[check](client)


anyio.run(main, *sys.argv[1:4])

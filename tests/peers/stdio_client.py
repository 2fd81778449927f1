"""A client of mcp 1.30 or 2.3 on standard input and output: runs a server, lists its tools and calls one.

    python stdio_client.py TOOL COMMAND [ARG ...]

Prints what it saw as one JSON object.
"""

import asyncio
import json
import sys

from mcp.client.stdio import StdioServerParameters, stdio_client


async def main() -> None:
    tool, command, *arguments = sys.argv[1:]
    server = StdioServerParameters(command=command, args=arguments)
    try:
        from mcp.client.client import Client
    except ImportError:
        from mcp import ClientSession

        async with stdio_client(server) as streams, ClientSession(*streams) as client:
            await client.initialize()
            await show(client, tool)
    else:
        async with Client(server) as client:
            await show(client, tool)


async def show(client, tool: str) -> None:
    listed = await client.list_tools()
    called = await client.call_tool(tool, {})
    seen = {"tools": [one.name for one in listed.tools], "text": called.content[0].text}
    print(json.dumps(seen))  # noqa: T201 - the caller reads it


asyncio.run(main())

"""grpc-web and connect-web, in a page of another origin, call a server of grpcio."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import penstock
from penstock.config import Forwarding, GrpcWeb, OriginHttp2
from penstock.web import Gateway
from support.browser import Page
from support.servers import running_grpc_server
from support.waiting import in_time

from .conftest import Serve, page

_SECONDS = 30
# Both return what came of a call: the messages, and the code and the text of an error.
_PAGE = """<!doctype html><meta charset=utf-8><link rel=icon href=data:,><title>calls</title>%s
<script type="module">
import { GrpcWebClientBase, MethodDescriptor } from 'grpc-web'
import { create, createFileRegistry } from '@bufbuild/protobuf'
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt'
import { createClient } from '@connectrpc/connect'
import { createGrpcWebTransport } from '@connectrpc/connect-web'

const text = (bytes) => new TextDecoder().decode(bytes), bytes = (text) => new TextEncoder().encode(text)

window.byGrpcWeb = (url, format, method, request, fields) => new Promise((done) => {
  const messages = [], known = {}
  const client = new GrpcWebClientBase({ format })
  const kind = method === 'Many' ? 'server_streaming' : 'unary'
  const description = new MethodDescriptor(`/test.Test/${method}`, kind, Object, Object, bytes, text)
  const call = client.serverStreaming(`${url}/test.Test/${method}`, request, fields, description)
  call.on('metadata', (fields) => { known.first = fields['x-first'] })
  call.on('data', (message) => messages.push(message))
  call.on('status', (status) => { known.code = status.code; known.last = status.metadata['x-last'] })
  call.on('error', (error) => done([messages, error.code, error.message]))
  call.on('end', () => done([messages, known.code, known.first, known.last]))
})

const BYTES = 12, OPTIONAL = 1
const method = (name, serverStreaming) => ({
  name, inputType: '.test.Bytes', outputType: '.test.Bytes', serverStreaming })
const file = create(FileDescriptorProtoSchema, {
  name: 'test.proto', package: 'test', syntax: 'proto3',
  messageType: [{ name: 'Bytes', field: [{ name: 'data', jsonName: 'data', number: 1, type: BYTES, label: OPTIONAL }] }],
  service: [{ name: 'Short', method: [method('Unary', false), method('Many', true)] }],
})
const service = createFileRegistry(file, () => undefined).getService('test.Short')

window.byConnect = async (url, format, method, request, fields) => {
  const transport = createGrpcWebTransport({ baseUrl: url })
  const client = createClient(service, transport), messages = [], known = {}
  const options = {
    headers: fields,
    onHeader: (fields) => { known.first = fields.get('x-first') },
    onTrailer: (fields) => { known.last = fields.get('x-last') },
  }
  try {
    const data = { data: bytes(request) }
    if (method === 'Many') {
      for await (const message of client.many(data, options)) messages.push(text(message.data))
    } else {
      messages.push(text((await client.unary(data, options)).data))
    }
    return [messages, 0, known.first, known.last]
  } catch (error) {
    return [messages, error.code, error.rawMessage]
  }
}
window.ready = true
</script>"""
CLIENTS = {
    "grpc-web binary": ("byGrpcWeb", "binary"),
    "grpc-web text": ("byGrpcWeb", "text"),
    "connect-web": ("byConnect", "binary"),
}


@pytest.fixture
async def server() -> AsyncIterator[str]:
    async with running_grpc_server() as server:
        yield f"http://{server}"


@pytest.fixture
def engine_options(server: str) -> dict[str, Any]:
    return {"http2": OriginHttp2(origins=[server])}


@pytest.fixture
async def page_url(packages: Path, import_map: str) -> AsyncIterator[str]:
    """A page that penstock does not serve."""

    app = web.Application()
    app.add_routes([page(_PAGE % import_map), web.static("/packages", packages)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("client", CLIENTS)
async def test_calls_of_a_page(
    engine: penstock.Engine, serve: Serve, server: str, page_url: str, tab: Page, client: str
) -> None:
    gateway = Gateway(
        server, engine=engine, forwarding=Forwarding(grpc_web=GrpcWeb(origins=[page_url], expose=["x-first"]))
    )
    app = web.Application()
    app.add_routes([gateway.native("/")])
    front = await serve(app, engine)
    await tab.open(page_url)
    await tab.until("window.ready", seconds=_SECONDS)
    function, form = CLIENTS[client]

    async def call(method: str, request: str, **fields: str) -> list[object]:
        called = f"{function}('{front.url}', '{form}', '{method}', '{request}', {fields})"
        result: list[object] = await in_time(tab.evaluate(called), called)
        return result

    # grpc-web keeps the last of two trailers of one name.
    last = "2, 3" if client == "connect-web" else "3"
    assert await call("Unary", "hello") == [["hello"], 0, "1", last]
    assert await call("Unary", "fail 5") == [[], 5, "50 % of é\nfailed"]
    assert await call("Many", "3 2") == [["\0\0", "\1\1", "\2\2"], 0, None, None]
    # Messages that came before an error are the page's.
    assert await call("Many", "2 1 15") == [["\0", "\1"], 15, "after some"]
    # A field of the caller's own goes through a preflight.
    assert await call("Unary", "field", **{"x-a": "from a page"}) == [["from a page"], 0, "1", last]

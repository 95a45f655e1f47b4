"""A scripted editor: initialize, open a program, hover, definition, diagnostics, shutdown."""

import json
import subprocess

import pytest

PROGRAM = """\
func.func @f(%x: tensor<4x8xf32>, %w: tensor<8x2xf32>) -> tensor<4x2xf32> {
  %0 = aten.mm(%x, %w) : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
"""
URI = "file:///program.mlir"


class Client:
    """The base protocol over the server's pipes: a header with the length, then JSON."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.last = 0

    def send(self, method, params, request=True):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request:
            self.last += 1
            message["id"] = self.last
        text = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self.process.stdin.flush()

    def read(self, wanted):
        """The next message for which `wanted` holds."""
        while True:
            length = None
            while (line := self.process.stdout.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            assert length is not None, "the server closed its output"
            message = json.loads(self.process.stdout.read(length))
            if wanted(message):
                return message

    def request(self, method, params):
        self.send(method, params)
        return self.read(lambda message: message.get("id") == self.last)["result"]

    def open(self, text):
        document = {"uri": URI, "languageId": "mlir", "version": 1, "text": text}
        self.send("textDocument/didOpen", {"textDocument": document}, request=False)
        published = lambda message: message.get("method") == "textDocument/publishDiagnostics"
        return self.read(published)["params"]["diagnostics"]


@pytest.fixture
def client(build_dir):
    client = Client(build_dir / "bin" / "cleave-lsp-server")
    result = client.request(
        "initialize", {"processId": None, "rootUri": None, "capabilities": {}, "trace": "off"}
    )
    assert result["capabilities"]["hoverProvider"]
    client.send("initialized", {}, request=False)
    yield client
    client.process.kill()
    client.process.wait()


def position(text, word, occurrence=0):
    """Line and column of `word` in the program."""
    offset = -1
    for _ in range(occurrence + 1):
        offset = text.index(word, offset + 1)
    before = text[:offset]
    return {"line": before.count("\n"), "character": offset - (before.rfind("\n") + 1)}


def test_hover_and_definition(client):
    assert client.open(PROGRAM) == []
    place = {"textDocument": {"uri": URI}, "position": position(PROGRAM, "aten.mm")}
    assert "aten.mm" in client.request("textDocument/hover", place)["contents"]["value"]

    place["position"] = position(PROGRAM, "%0", 1)
    definition = client.request("textDocument/definition", place)
    assert definition[0]["range"]["start"] == position(PROGRAM, "%0")


def test_diagnostics_name_the_line(client):
    wrong = PROGRAM.replace("tensor<8x2xf32>", "tensor<7x2xf32>")
    (diagnostic,) = client.open(wrong)
    assert "mat2" in diagnostic["message"]
    assert diagnostic["range"]["start"]["line"] == 1


def test_shutdown(client):
    assert client.request("shutdown", None) is None
    client.send("exit", None, request=False)
    assert client.process.wait(timeout=10) == 0

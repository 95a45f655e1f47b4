"""`python -m cleave.status_page status.json`: a page that shows how a run is doing.

Serves it on this machine, as `cleave-run --status status.json` keeps the file up to date: progress, losses, and where each
rank is and for whom it waits. With `-o page.html` it is written once, as the file is now.
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import pathlib
import sys
from typing import Any

_TEMPLATE = pathlib.Path(__file__).with_name("status_page.html")


class PageError(Exception):
    """A file that is not a run's status, or cannot be read or written."""


def read(path: pathlib.Path) -> dict[str, Any]:
    """The status in a file. PageError where there is none."""
    try:
        status = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PageError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise PageError(f"{path}: expected JSON: {error}") from None
    if not isinstance(status, dict) or not isinstance(status.get("ranks"), list):
        raise PageError(f"{path}: expected what cleave-run --status writes")
    if status.get("version") != 1:
        raise PageError(f"{path}: expected version 1 of the status, found {status.get('version')!r}")
    return status


def render(status: dict[str, Any] | None) -> str:
    """The page: of one status, or, of None, one that asks its server for it again and again."""
    # "</script" inside a string would end the script element.
    text = json.dumps(status, separators=(",", ":")).replace("<", "\\u003c")
    before, after = _TEMPLATE.read_text(encoding="utf-8").split("/*DATA*/null")
    return before + text + after


class _Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, *arguments, path: pathlib.Path):
        self.status_file = path
        super().__init__(*arguments)

    def do_GET(self):
        if self.path == "/":
            self._send(200, "text/html; charset=utf-8", render(None))
        elif self.path == "/status.json":
            try:
                self._send(200, "application/json", json.dumps(read(self.status_file)))
            except PageError as error:
                self._send(503, "text/plain; charset=utf-8", str(error))
        else:
            self._send(404, "text/plain; charset=utf-8", "not found")

    def _send(self, code: int, kind: str, text: str):
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing: the page asks every second."""


def make_server(path: pathlib.Path, port: int) -> http.server.ThreadingHTTPServer:
    """Serves the page of a status file on this machine; port 0 is any that is free."""
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), functools.partial(_Handler, path=path))
    except (OSError, OverflowError) as error:
        raise PageError(f"cannot listen on port {port}: {error}") from None


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m cleave.status_page", description=__doc__)
    parser.add_argument("status", help="file written by cleave-run --status")
    parser.add_argument("-o", "--out", help="write the page to this file, instead of serving it")
    parser.add_argument("--port", type=int, default=8765, help="port to serve on (default: 8765; 0: any)")
    options = parser.parse_args(argv)
    source = pathlib.Path(options.status)
    try:
        if options.out:
            try:
                pathlib.Path(options.out).write_text(render(read(source)), encoding="utf-8")
            except OSError as error:
                raise PageError(f"cannot write {options.out}: {error.strerror or error}") from None
            print(options.out)
            return 0
        with make_server(source, options.port) as server:
            print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
            server.serve_forever()
    except PageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

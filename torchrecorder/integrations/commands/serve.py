"""torchrecorder serve: show the page of a model to a browser on another machine."""

from __future__ import annotations

import argparse
import secrets
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from torchrecorder.errors import InvalidArgument
from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.drawing_arguments import (
    add_drawing_arguments, check, rendered, to_draw,
)
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.targets import add_target_arguments

LOCAL = "127.0.0.1"


class ServeCommand(Command):
    """Serve the page of a model over HTTP, for a browser on another machine.

    examples:
      torchrecorder serve torchvision.models:resnet18 --eval --shape 1,3,224,224
      torchrecorder serve run.json.gz --port 8123
      torchrecorder serve run.json.gz --host 0.0.0.0

    It prints the address. By default only programs on this machine can connect: from another
    machine, use ssh -L 8000:127.0.0.1:8000 THIS-MACHINE, or --host. The address has a random
    part, so that others cannot guess it. Ctrl-C stops the server.
    """

    name = "serve"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_target_arguments(parser)
        served = parser.add_argument_group("serving it")
        served.add_argument("--port", type=int, default=8000, help="(8000); 0 takes a free one")
        served.add_argument(
            "--host", default=LOCAL, help=f"address to listen on ({LOCAL}: this machine only)"
        )
        add_drawing_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        target, chosen = to_draw(options)
        check([Path("page.html")], chosen)
        with _server(options.host, options.port) as server:
            with Progress() as progress:
                recording = target.recording(progress)
                progress.now("making the page")
                server.page = rendered(recording, "page.html", **chosen)
            print(server.address, flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                print("torchrecorder: stopped", file=sys.stderr)
        return 0


class Server(ThreadingHTTPServer):
    """Serves one page, under a random path."""

    daemon_threads = True
    page: bytes = b""

    def __init__(self, host: str, port: int) -> None:
        self.path = f"/{secrets.token_urlsafe(12)}/"
        super().__init__((host, port), _Handler)

    @property
    def address(self) -> str:
        """The address of the page."""
        host, port = self.server_address[:2]
        return f"http://{host!s}:{port}{self.path}"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version: ClassVar[str] = "torchrecorder"  # type: ignore[misc]

    def do_GET(self) -> None:
        """Send the page, if the path is correct."""
        self._answer(body=True)

    def do_HEAD(self) -> None:
        """Send the headers of `do_GET`."""
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        if self.path != self.server.path:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(self.server.page)))
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        if body:
            self.wfile.write(self.server.page)

    def log_message(self, format: str, *args: Any) -> None:
        """Do not log requests."""


def _server(host: str, port: int) -> Server:
    try:
        return Server(host, port)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it must be from 0 to 65535"
        raise InvalidArgument(
            f"port {port} of {host} cannot be used: {reason}; --port 0 takes a free one"
        ) from None

"""Request: the target or code of a directive, and how to record it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any

from torchrecorder.integrations.import_target import ModelFailed
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.sphinx import sources
from torchrecorder.integrations.targets import Target
from torchrecorder.recording import Recording


@dataclass(frozen=True)
class Request:
    """A target, or code whose last line is a model or a model and inputs for it."""

    target: Target  # its path is empty if there is code
    code: str = ""
    file: str = ""  # the document that the code is in
    line: int = 1  # of that document, in which the code begins

    @property
    def name(self) -> str:
        """The name of the target in messages."""
        return self.target.path or "the code of the directive"

    def identity(self) -> str:
        """A text that is equal for requests with the same recording."""
        return repr((self.target, self.code))

    def run(self) -> tuple[Recording, sources.Dependencies]:
        """The recording, and the files that the model depends on.

        Raises:
            TorchRecorderError: The target cannot be found or used, or its code raised.
        """
        if self.code:
            return self._run_code()
        recording = self.target.recording(Progress())
        if self.target.is_file:
            return recording, sources.Dependencies(files=(self.target.path,)) + self._sources()
        return recording, self._sources(self.target.path)

    def _run_code(self) -> tuple[Recording, sources.Dependencies]:
        names: dict[str, Any] = {"__name__": "__torchrecorder__", "__file__": self.file}
        found = recording = _executed(self, names)
        if not isinstance(found, Recording):
            target = replace(self.target, path=self.name)
            recording = target.record(lambda: lambda: found, Progress())
        return recording, sources.used(names) + self._sources()

    def _sources(self, *paths: str) -> sources.Dependencies:
        found = sources.Dependencies()
        for path in filter(None, (*paths, self.target.inputs)):
            found += sources.behind(path)
        return found


def _executed(request: Request, names: dict[str, Any]) -> Any:
    """The value of the last line, after all lines have run with *names*."""
    try:
        tree = ast.parse("\n" * (request.line - 1) + request.code, request.file)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, request.file, "exec"), names)
        if isinstance(last, ast.Expr):
            return eval(compile(ast.Expression(last.value), request.file, "eval"), names)
    except (Exception, SystemExit) as error:
        raise ModelFailed(request.name, error) from error
    raise ModelFailed(
        request.name, SyntaxError("its last line must be a model, or a model and inputs for it")
    )

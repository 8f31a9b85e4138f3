"""torchrecorder run: record the model of a script that has its own main."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchrecorder.annotations import flags_for
from torchrecorder.errors import InvalidArgument, TorchRecorderError
from torchrecorder.integrations.commands.command import Command
from torchrecorder.integrations.drawing_arguments import (
    Drawable, add_drawing_arguments, add_output_argument, check, drawing_options, write,
)
from torchrecorder.integrations.flags import add_flags, given_options
from torchrecorder.integrations.progress import Progress
from torchrecorder.integrations.scripts import Script
from torchrecorder.integrations.targets import TARGET_OPTIONS
from torchrecorder.options import shown_numbers
from torchrecorder.ranks.merge import merge
from torchrecorder.ranks.ranks import Ranks
from torchrecorder.recording import Recording

RECORDED = ("flops", "compiled", "stats", "name")
"""Options of the recorder; the script itself runs the backward pass."""

NOTHING = 1
"""Exit code if a script succeeds without calling its model."""

FAILED_LATER = "the script failed after the recorded steps; --steps 0 records it to its end"
"""Advice: a recording of the failure says where it was, and why."""


class RunCommand(Command):
    """Run a script, and draw the first step of its model.

    examples:
      torchrecorder run train.py
      torchrecorder run train.py --model-var net -o net.svg -- --epochs 1 data/
      torchrecorder run -m package.train --steps 3 -o run.json.gz -- --batch-size 8
      torchrecorder run train.py --model-var trainer.model --view backward
      torchrecorder run train.py --compiled --color-by compiled_graph

    What follows -- are the script's own arguments. Without --model-var the model is the first
    module with parameters that is called. A step is one call of it with everything until the
    next one: loss, backward, optimizer. Then the script runs on without recording. Its output
    and exit code do not change; if it succeeds without calling the model, the exit code is 1.
    With --compiled the recorded calls are repeated, with the whole model compiled, before the
    script runs on: output of the model appears twice. Under torchrun, each process writes its
    recording beside the output, and the first one joins them:
    torchrun --nproc-per-node 4 -m torchrecorder run train.py -o step.html
    Use summary, top, compare and open on a recording (-o run.json.gz).
    """

    name = "run"
    takes_rest = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("script", nargs="?", help="path of the script")
        parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module by its name")
        recorded = parser.add_argument_group("recording it")
        recorded.add_argument("--model-var", metavar="NAME", help="variable that holds the model")
        recorded.add_argument(
            "--steps", type=int, default=1, help="steps to record (1); 0 for all of them"
        )
        add_flags(recorded, (TARGET_OPTIONS[name] for name in RECORDED))
        add_output_argument(parser)
        add_drawing_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        from torchrecorder.drawing import file_name

        script = _script(options)
        chosen = drawing_options(options)
        check(options.output or [Path("a.svg")], chosen)
        here = Path.cwd()  # the script may change it
        beside = (options.output or [Path(f"{Path(script.path).stem}.svg")])[0]
        parts = Parts.of_job(here / beside)
        if parts is not None:
            parts.clear()
        with DelayedEnd() as end:
            recorder = _recorder_options(options, chosen)
            if parts is not None:
                recorder["save"] = parts.file
            code, recording, failed = script.run(
                options.steps, recorder, end.begin if parts is not None else None
            )
            sys.stdout.flush()
            if recording is None:
                print(f"torchrecorder: {_nothing(script)}", file=sys.stderr)
                return code or NOTHING
            if failed and recording.run.failure is None:
                print(f"torchrecorder: {FAILED_LATER}", file=sys.stderr)
            paths = options.output or [Path(f"{file_name(recording.name)}.svg")]
            if Path.cwd() != here:
                paths = [here / path for path in paths]
            written = _write(recording, paths, chosen, parts, end.told)
        return code or written


def _script(options: argparse.Namespace) -> Script:
    if (options.script is None) == (options.module is None):
        raise InvalidArgument("give either a script or a module with -m")
    if options.steps < 0:
        raise InvalidArgument(f"--steps must be 0 or more, not {options.steps}")
    path = options.script if options.module is None else options.module
    script = Script(path, options.module is not None, tuple(options.rest), options.model_var)
    script.check()
    return script


def _recorder_options(options: argparse.Namespace, chosen: dict[str, Any]) -> dict[str, Any]:
    """Options of the recorder: the given ones, and those that the numbers in the figure need."""
    needed = flags_for(shown_numbers(chosen)) & {*RECORDED}
    return {**dict.fromkeys(needed, True), **given_options(options, RECORDED)}


def _nothing(script: Script) -> str:
    if script.variable is None:
        return f"{script.path} called no module with parameters: nothing was recorded"
    return (
        f"{script.path} called no module that a variable named {script.variable!r} held; "
        "without --model-var the first module with parameters is taken"
    )


def _write(
    recording: Recording,
    paths: Sequence[Path],
    chosen: dict[str, Any],
    parts: Parts | None,
    told: threading.Event,
) -> int:
    """Write the recording; paths are printed on stderr, because stdout belongs to the script."""
    drawn: Drawable = recording
    try:
        if parts is not None and recording.run.rank is None:
            parts.clear()  # it has not joined the other processes
            with contextlib.suppress(OSError):  # other files are in it
                parts.folder.rmdir()
        elif parts is not None:
            if parts.rank > 0:
                return 0
            drawn = run = parts.together(told)
            for problem in run.problems:
                print(f"torchrecorder: {problem}", file=sys.stderr)
        with Progress() as progress:
            written = write(drawn, paths, chosen, progress)
    except (TorchRecorderError, OSError) as error:
        print(f"torchrecorder: error: {error}", file=sys.stderr)
        return 1
    for path in written:
        print(f"torchrecorder: wrote {path}", file=sys.stderr)
    return 0


PATIENCE = 60.0
"""The time that the first process waits for the others after its own end, in seconds."""

GRACE = 3.0
"""The same once a launcher has told it to end, because a process has failed."""


@dataclass(frozen=True)
class Parts:
    """The files of the recordings of one job, for the process of a rank."""

    folder: Path  # beside the file that is to be written; one for all processes
    rank: int
    world: int  # the number of processes

    @staticmethod
    def of_job(output: Path, environment: Mapping[str, str] = os.environ) -> Parts | None:
        """The parts of the job that ``torchrun`` or another launcher started; None if none did."""
        rank, world = environment.get("RANK", ""), environment.get("WORLD_SIZE", "")
        if not (rank.isdigit() and world.isdigit() and int(world) > 1):
            return None
        return Parts(output.with_name(f"{output.name}.ranks"), int(rank), int(world))

    @property
    def file(self) -> Path:
        """The file of this process."""
        return self._file(self.rank)

    def clear(self) -> None:
        """Remove the file of this process."""
        self.file.unlink(missing_ok=True)

    def together(self, told: threading.Event, patience: float = PATIENCE) -> Ranks:
        """The joined recordings of the processes that end in time; *told*: this one has to end."""
        until = time.monotonic() + patience
        hurries = False
        while time.monotonic() < until and not all(map(Path.exists, self._files())):
            if told.is_set() and not hurries:
                hurries, until = True, min(until, time.monotonic() + GRACE)
            time.sleep(0.1)
        return merge([file for file in self._files() if file.exists()])

    def _files(self) -> list[Path]:
        return [self._file(rank) for rank in range(self.world)]

    def _file(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.json.gz"


class DelayedEnd:
    """A context in which ``SIGTERM`` is delayed to its end, after `begin` in the main thread.

    When one process of a job fails, launchers such as ``torchrun`` tell all others to end with this
    signal, and kill those that have not ended after a while. *told* is set when it comes.
    """

    def __init__(self) -> None:
        self.told = threading.Event()
        self._begun = False
        self._previous: Any = None

    def __enter__(self) -> DelayedEnd:
        return self

    def begin(self) -> None:
        """Delay the signal from now on."""
        if threading.current_thread() is threading.main_thread():
            self._begun = True
            self._previous = signal.signal(signal.SIGTERM, lambda *_: self.told.set())

    def __exit__(self, *error: object) -> None:
        if not self._begun:
            return
        # it is None for a handler that was set outside of Python
        signal.signal(signal.SIGTERM, self._previous or signal.SIG_DFL)
        if self.told.is_set():
            signal.raise_signal(signal.SIGTERM)

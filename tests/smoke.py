"""Away from the source tree: does what was installed do the main job?"""

import pathlib
import subprocess
import sys
import tempfile

import torch

import torchrecorder

MODEL = """
import torch


def net():
    return torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
"""


def main() -> None:
    """Record, draw in every picture format, and the same from the shell."""
    home = pathlib.Path(torchrecorder.__file__).parent
    assert "site-packages" in home.parts, f"not the installed package: {home}"
    assert (home / "py.typed").exists()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten())
        recording = torchrecorder.record(model, input_shapes=(1, 3, 8, 8))
        for suffix, start in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
            path = recording.render(folder / f"model.{suffix}")
            assert path.read_bytes().startswith(start), path
        assert "Conv2d" in recording.summary()
        (folder / "shop.py").write_text(MODEL)
        command = [sys.executable, "-m", "torchrecorder", "render", "shop:net", "--shape", "1,4"]
        subprocess.run([*command, "-o", "net.svg"], cwd=folder, check=True)
        assert b"Linear" in (folder / "net.svg").read_bytes()
    print("the installed package does the main job")


if __name__ == "__main__":
    main()

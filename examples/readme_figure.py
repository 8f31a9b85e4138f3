"""The figure at the top of the README: the Transformer of 2017, its equal layers drawn once."""

from first_picture import transformer

import torchrecorder

if __name__ == "__main__":
    recording = torchrecorder.record(*transformer())
    for theme in ("light", "dark"):
        options = {"depth": 2, "direction": "LR", "theme": theme, "background": "transparent"}
        print(recording.render(f"readme-{theme}.svg", **options))

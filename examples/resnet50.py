"""ResNet-50 from torchvision: the whole network on one page, and one block in full detail."""

import torch
from torchvision.models import resnet50

import torchrecorder

PAGE = {"width": "180mm", "height": "260mm"}
"""What A4 and letter have in common; no text is smaller than five points on it."""


def resnet():
    """ResNet-50 with random weights, and a picture for it."""
    return resnet50(weights=None).eval(), torch.rand(1, 3, 224, 224)


if __name__ == "__main__":
    model, image = resnet()
    with torch.no_grad():
        recording = torchrecorder.record(model, image)
    print(recording.render("resnet50.svg", depth=3))
    print(recording.render("resnet50.pdf", depth=2, **PAGE))
    print(recording.render("resnet50-ops.svg", depth=9, fold=False))
    print(recording.summary(depth=1))

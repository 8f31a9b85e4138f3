"""ResNet-50 from torchvision: the whole network on one page, and one block in full detail."""

import torch
from torchvision.models import resnet50

import torchrecorder

if __name__ == "__main__":
    model = resnet50(weights=None).eval()
    with torch.no_grad():
        recording = torchrecorder.record(model, input_shapes=(1, 3, 224, 224))
    print(recording.render("resnet50.svg", depth=3))
    print(recording.render("resnet50-ops.svg", depth=9, fold=False))
    print(recording.summary(depth=1))

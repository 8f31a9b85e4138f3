"""ResNet-50 colored by the time its blocks take in backward, and the most expensive modules."""

import torch
from torchvision.models import resnet50

import torchrecorder

if __name__ == "__main__":
    model = resnet50()
    recording = torchrecorder.record(model, torch.rand(1, 3, 224, 224), backward=True, repeat=5)
    print(recording.render("backward_time.svg", color_by="backward_time", depth=2, fold=False))
    for place in recording.top("backward_time", 10):
        print(f"{place.text:>8}  {place.name}")

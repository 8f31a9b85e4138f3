"""Two models that train each other, a generator and a critic, as one figure."""

import torch
from torch import nn

import torchrecorder


def mlp(*widths: int) -> nn.Sequential:
    """Linear layers of these widths, with a ReLU between them."""
    layers = [nn.Linear(*pair) for pair in zip(widths, widths[1:])]
    return nn.Sequential(*[part for layer in layers for part in (layer, nn.ReLU())][:-1])


def program() -> torchrecorder.Recording:
    """The recording of four training steps of a Wasserstein GAN."""
    torch.manual_seed(0)
    generator, critic = mlp(16, 64, 2), mlp(2, 64, 1)
    for_generator = torch.optim.RMSprop(generator.parameters(), lr=1e-4)
    for_critic = torch.optim.RMSprop(critic.parameters(), lr=1e-4)
    with torchrecorder.Recorder(name="GAN") as recorder:
        for _ in range(4):
            real, fake = torch.randn(32, 2), generator(torch.randn(32, 16))
            for_critic.zero_grad()
            (critic(fake.detach()).mean() - critic(real).mean()).backward()
            for_critic.step()
            for_generator.zero_grad()
            (-critic(fake).mean()).backward()
            for_generator.step()
    return recorder.recording


if __name__ == "__main__":
    print(program().render("gan.svg", depth=1))

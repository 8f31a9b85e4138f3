"""One recording, many figures: a network opened level by level, as 1.x scripts did."""

from sample_network import SampleNet

from torchrecorder import make_dot, record

if __name__ == "__main__":
    recording = record(SampleNet(), name="Sample Net", input_shapes=(1, 3))
    for depth in range(4):
        graph = make_dot(recording, render_depth=depth)
        graph.format = "svg"
        graph.attr(rankdir="LR")
        graph.render(f"sample_net-{depth}", directory="./", cleanup=True)

"""Residual streams whose mix is doubly stochastic, and whose mean is the output (glm5-next), in float64, for reference_logits.py."""
import numpy as np

from deepseek4_layers import stream_weights


class MixedStreams:
    """The residual streams, [T, n, dim]."""

    def __init__(self, g, x):
        self.g, self.streams = g, np.repeat(x[:, None], g("hyper_connection.count"), 1)

    def half(self, part, f):
        """Applies f to the weighted sum of the streams. part: returns the tensors "fn", "base" and "scale" of this half of a layer."""
        into, out, mix = stream_weights(self.g, self.streams.reshape(len(self.streams), -1), part)
        h = f((into[..., None] * self.streams).sum(1))
        self.streams = out[..., None] * h[:, None] + np.einsum("tij,tid->tjd", mix, self.streams)

    def mean(self):
        return self.streams.mean(1)

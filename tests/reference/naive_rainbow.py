"""Noisy dueling networks, layer by layer in float64: independent of the package's layers and agents."""

import jax
import numpy as np


def signed_root(noise):
    return np.sign(noise) * np.sqrt(np.abs(noise))


def noisy(layer, key):
    """Kernel and bias of one layer with the noise that a key gives it, as matrices (Fortunato et al. 2018)."""
    kernel, bias, kernel_sigma, bias_sigma = (
        np.asarray(layer[name], np.float64) for name in ("kernel", "bias", "kernel_sigma", "bias_sigma")
    )
    if key is None:
        return kernel, bias
    noise = signed_root(np.asarray(jax.random.normal(key, (sum(kernel.shape),)), np.float64))
    inputs, outputs = noise[: len(kernel)], noise[len(kernel) :]
    return kernel + kernel_sigma * np.outer(inputs, outputs), bias + bias_sigma * outputs


def plain(layer):
    return tuple(np.asarray(layer[name], np.float64) for name in ("kernel", "bias"))


def dense(inputs, weights):
    return inputs @ weights[0] + weights[1]


def relu(values):
    return np.maximum(values, 0)


class NaiveStreams:
    """The value's and the advantages' two noisy layers each; keys in the order of the layers."""

    def __init__(self, layers, key):
        keys = [None] * 4 if key is None else jax.random.split(jax.random.clone(key), 4)
        self.layers = [noisy(layers[f"NoisyDense_{i}"], keys[i]) for i in range(4)]

    def __call__(self, inputs):
        first, second, third, fourth = self.layers
        return dense(relu(dense(inputs, first)), second), dense(relu(dense(inputs, third)), fourth)


class NaiveFQFRainbow:
    """F of every action at a fraction: V + A, less the mean of A over all actions and midpoints."""

    def __init__(self, params, key, num_cosines):
        self.torso = plain(params["torso"]["params"]["Dense_0"])
        self.embedding = plain(params["embedding"]["params"]["Dense_0"])
        self.proposal = plain(params["proposal"]["params"])
        self.streams, self.num_cosines = NaiveStreams(params["head"]["params"], key), num_cosines

    def edges(self, observation):
        logits = dense(relu(dense(observation, self.torso)), self.proposal)
        widths = np.exp(logits - logits.max())
        return np.concatenate([[0.0], np.cumsum(widths / widths.sum())[:-1], [1.0]])

    def at(self, observation, tau):
        cosines = np.array([np.cos(np.pi * i * tau) for i in range(1, self.num_cosines + 1)])
        return self.streams(relu(dense(observation, self.torso)) * relu(dense(cosines, self.embedding)))

    def midpoints(self, observation):
        taus = self.edges(observation)
        return (taus[1:] + taus[:-1]) / 2

    def quantile(self, observation, tau):
        value, advantages = self.at(observation, tau)
        baseline = np.mean([self.at(observation, other)[1] for other in self.midpoints(observation)])
        return value[0] + advantages - baseline

    def q(self, observation):
        widths = np.diff(self.edges(observation))
        return sum(
            width * self.quantile(observation, tau)
            for width, tau in zip(widths, self.midpoints(observation), strict=True)
        )

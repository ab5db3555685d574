"""FQF's loss of one transition, as loops over numbers: slow, plain, and independent of the package's losses."""

import numpy as np


def huber(delta, kappa):
    return 0.5 * delta * delta if abs(delta) <= kappa else kappa * (abs(delta) - 0.5 * kappa)


def softmax(logits):
    exponentials = np.exp(logits - np.max(logits))
    return exponentials / np.sum(exponentials)


def dense(layer):
    return np.asarray(layer["kernel"], np.float64), np.asarray(layer["bias"], np.float64)


class NaiveNetwork:
    """A torso of one dense layer, cosine embedding, one hidden layer and a linear proposal, in float64."""

    def __init__(self, params, num_cosines):
        self.num_cosines = num_cosines
        self.torso = dense(params["torso"]["params"]["Dense_0"])
        self.embedding = dense(params["embedding"]["params"]["Dense_0"])
        self.hidden = dense(params["head"]["params"]["Dense_0"])
        self.output = dense(params["head"]["params"]["Dense_1"])
        self.proposal = dense(params["proposal"]["params"])

    def features(self, observation):
        return np.maximum(observation @ self.torso[0] + self.torso[1], 0)

    def widths(self, observation):
        return softmax(self.features(observation) @ self.proposal[0] + self.proposal[1])

    def quantile(self, observation, tau):
        """F(tau) of every action."""
        cosines = np.array([np.cos(np.pi * i * tau) for i in range(1, self.num_cosines + 1)])
        phi = np.maximum(cosines @ self.embedding[0] + self.embedding[1], 0)
        hidden = np.maximum((self.features(observation) * phi) @ self.hidden[0] + self.hidden[1], 0)
        return hidden @ self.output[0] + self.output[1]


def edges(widths):
    return np.concatenate([[0.0], np.cumsum(widths[:-1]), [1.0]])


def naive_losses(online, target, transition, kappa, target_fractions, target_weights, value_fractions):
    """Quantile loss, and dW1/dtau at the inner edges."""
    observation, action, reward, discount, next_observation = transition
    taus, next_taus = edges(online.widths(observation)), edges(target.widths(next_observation))
    tau_hats, next_tau_hats = (taus[1:] + taus[:-1]) / 2, (next_taus[1:] + next_taus[:-1]) / 2
    count = len(tau_hats)

    q = sum(
        width * target.quantile(next_observation, tau)
        for width, tau in zip(np.diff(next_taus), next_tau_hats, strict=True)
    )
    greedy = int(np.argmax(q))
    asked, weights = (tau_hats, np.diff(taus)) if target_fractions == "current" else (next_tau_hats, np.diff(next_taus))
    if target_weights == "equal":
        weights = np.full(count, 1 / count)
    targets = [reward + discount * target.quantile(next_observation, tau)[greedy] for tau in asked]

    trained = {
        "midpoints": tau_hats,
        "midpoints_and_edges": np.concatenate([tau_hats, taus[1:-1]]),
        "edges_and_last_midpoint": np.append(taus[1:-1], tau_hats[-1]),
    }[value_fractions]
    loss = 0.0
    for tau in trained:
        for weight, goal in zip(weights, targets, strict=True):
            delta = goal - online.quantile(observation, tau)[action]
            loss += weight * abs(tau - (delta < 0)) * huber(delta, kappa) / kappa
    F = lambda tau: online.quantile(observation, tau)[action]  # noqa: E731
    gradient = [2 * F(taus[i]) - F(tau_hats[i]) - F(tau_hats[i - 1]) for i in range(1, count)]
    return loss * count / len(trained), np.array(gradient)

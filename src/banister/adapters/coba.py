"""coba: a Banister policy as a learner in its experiments, a Banister environment as one of its own.

coba asks for methods, not for base classes, so nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from banister.contract import Choices, Environment, Outcomes, Policy, Requests
from banister.data import as_matrix
from banister.errors import InputError, UnknownTaskError

_UNKNOWN = float("nan")


class PolicyLearner:
    """A Banister policy that coba's experiments can use as a learner.

    Args:
        policy: any policy of the package; one that plays mixtures needs `mixing=False`, since only listed
            actions can be played there.
        tasks: the labels of all tasks.
        task: the label of a context.
        features: the rows (K, d) of the actions offered in a context; by default the actions themselves,
            which are then lists of numbers.
        baseline: the index of the action that the policy in place would play.
        baseline_reward: what it is expected to earn; None if nobody knows.
        epoch: interactions after which the policy is told that an epoch ended; None: never.
        seed: of the policy's randomness.

    Examples:
        >>> from banister import BaselineOnly
        >>> learner = PolicyLearner(BaselineOnly(), tasks=["a"], task=lambda c: "a", baseline=lambda c, a: 1)
        >>> learner.predict(None, [[1.0, 0.0], [0.0, 1.0]])[0]
        [0.0, 1.0]
    """

    def __init__(
        self,
        policy: Policy,
        *,
        tasks: Sequence[Hashable],
        task: Callable[[Any], Hashable],
        baseline: Callable[[Any, Sequence[Any]], int],
        baseline_reward: Callable[[Any, Sequence[Any]], float] | None = None,
        features: Callable[[Any, Sequence[Any]], ArrayLike] | None = None,
        epoch: int | None = None,
        seed: int = 0,
    ) -> None:
        self.policy, self.epoch, self.seed = policy, epoch, seed
        self._task, self._baseline, self._reward, self._features = task, baseline, baseline_reward, features
        self._codes = {label: code for code, label in enumerate(tasks)}
        self._seen = 0
        policy.reset(len(self._codes), np.random.default_rng(seed))

    @property
    def params(self) -> Mapping[str, Any]:
        """What coba's tables call it."""
        return {"family": f"banister.{type(self.policy).__name__}", "seed": self.seed}

    def predict(self, context: Any, actions: Sequence[Any]) -> tuple[list[float], dict[str, Any]]:
        """The probability of each action, one of which is 1; and what `learn` needs to know again."""
        request = self._request(context, actions)
        choice = self.policy.decide(request)
        index = int(choice.index[0])
        if index < 0:
            raise InputError("The policy played a mixture, which is no listed action; make it mixing=False.")
        chances = np.eye(len(actions))[index].tolist()
        return chances, {"task": int(request.task[0]), "row": choice.features[0].tolist()}

    def learn(self, context: Any, action: Any, reward: float, probability: float, **kept: Any) -> None:
        """Take in the reward of what was predicted last."""
        row = np.array([kept["row"]])
        self.policy.learn(Outcomes(np.array([kept["task"]]), row, np.array([reward])))
        self._seen += 1
        if self.epoch is not None and self._seen % self.epoch == 0:
            self.policy.end_epoch()

    def _request(self, context: Any, actions: Sequence[Any]) -> Requests:
        label = self._task(context)
        if label not in self._codes:
            raise UnknownTaskError(f"Task {label!r} is not among the {len(self._codes)} tasks given.")
        rows = actions if self._features is None else self._features(context, actions)
        known = _UNKNOWN if self._reward is None else self._reward(context, actions)
        return Requests(
            np.array([self._codes[label]]),
            as_matrix(rows, "features")[None],
            np.array([self._baseline(context, actions)]),
            np.array([known], dtype=float),
        )


class EnvironmentSimulation:
    """A Banister environment that coba's learners can play in: one interaction for each request.

    A context is a dictionary: the task, the index of the baseline's action and what it is expected to earn.
    Rewards include the noise, which is the same whatever is chosen.

    Args:
        env: any environment of the package whose baselines are listed actions.
        rounds: how many rounds of requests.
        seed: of the truth, the requests and the noise; reading again gives the same interactions.

    Examples:
        >>> from banister import Synthetic
        >>> env = Synthetic(dim=3, rank=1, tasks=2, actions=4, baseline_rank=2)
        >>> first = next(iter(EnvironmentSimulation(env, rounds=5).read()))
        >>> first["context"]["task"], len(first["actions"]), len(first["rewards"])
        (0, 4, 4)
    """

    def __init__(self, env: Environment, *, rounds: int, seed: int = 0) -> None:
        self.env, self.rounds, self.seed = env, rounds, seed

    @property
    def params(self) -> Mapping[str, Any]:
        """What coba's tables call it."""
        return {"env_type": f"banister.{type(self.env).__name__}", "rounds": self.rounds, "seed": self.seed}

    def read(self) -> Iterator[dict[str, Any]]:
        """The interactions, in the order in which they happen."""
        truth, ask, disturb = (np.random.default_rng([self.seed, stream]) for stream in range(3))
        self.env.reset(truth)
        for start in range(self.rounds):
            requests = self.env.requests(1, ask, start)
            rewards = self._rewards(requests, self.env.noise(requests, disturb))
            for i, offered in enumerate(requests.actions):
                context = {
                    "task": int(requests.task[i]),
                    "baseline": int(requests.baseline_index()[i]),
                    "baseline_reward": float(requests.baseline_reward[i]),
                }
                yield {"context": context, "actions": offered.tolist(), "rewards": rewards[i].tolist()}

    def _rewards(self, requests: Requests, noise: Any) -> Any:
        columns = []
        for k in range(requests.actions.shape[1]):
            every = Choices.of_index(requests, np.full(len(requests), k), "every")
            columns.append(self.env.reward(requests, self.env.expected(requests, every), noise))
        return np.column_stack(columns)

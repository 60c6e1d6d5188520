"""obp (Open Bandit Pipeline): a Banister policy in its offline simulation of online policies.

obp asks for methods, not for base classes, so nothing here imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banister.adapters.coba import PolicyLearner
from banister.contract import Policy
from banister.data import Float, as_matrix


class ObpPolicy:
    """A Banister policy that `obp.simulator.run_bandit_simulation` can play: one action a round.

    Args:
        policy: any policy of the package; one that plays mixtures needs `mixing=False`.
        n_actions: how many actions there are; obp names them 0, 1, …
        tasks: the labels of all tasks.
        task: the label of a context, a vector of numbers.
        baseline: the action that the policy in place would play in a context.
        baseline_reward: what it is expected to earn; None if nobody knows.
        features: the rows (n_actions, d) of the actions in a context; by default each action has a level and
            coefficients of its own.
        seed: of the policy's randomness.

    Examples:
        >>> from banister import BaselineOnly
        >>> policy = ObpPolicy(
        ...     BaselineOnly(), n_actions=3, tasks=["a"], task=lambda x: "a", baseline=lambda x: 2
        ... )
        >>> policy.select_action(np.array([[0.5, -0.5]])).tolist()
        [2]
        >>> policy.update_params(action=2, reward=1.0, context=np.array([[0.5, -0.5]]))
    """

    policy_type = "contextual"
    len_list = 1  # actions a round
    batch_size = 1  # rounds after which it learns

    def __init__(
        self,
        policy: Policy,
        *,
        n_actions: int,
        tasks: Sequence[Hashable],
        task: Callable[[Float], Hashable],
        baseline: Callable[[Float], int],
        baseline_reward: Callable[[Float], float] | None = None,
        features: Callable[[Float], ArrayLike] | None = None,
        seed: int = 0,
    ) -> None:
        self.policy, self.n_actions, self._tasks = policy, n_actions, list(tasks)
        self._task, self._rows = task, features or (lambda x: _own_part_each(x, n_actions))
        given: dict[str, Any] = {"seed": seed, "tasks": self._tasks, "task": task}
        given |= {
            "features": lambda x, _: self._rows(x), "baseline": lambda x, _: baseline(x),
            "baseline_reward": None if baseline_reward is None else lambda x, _: baseline_reward(x),
        }  # fmt: skip
        self._given = given
        self.initialize()

    def initialize(self) -> None:
        """Begin anew."""
        self.n_trial = 0
        self._learner = PolicyLearner(self.policy, **self._given)

    def select_action(self, context: Float) -> NDArray[np.int64]:
        """The action for a context (1, dim), in an array of one."""
        chances, _ = self._learner.predict(context[0], range(self.n_actions))
        return np.array([int(np.argmax(chances))])

    def update_params(self, action: int, reward: float, context: Float) -> None:
        """Learn what an action earned in a context (1, dim)."""
        x = context[0]
        row = as_matrix(self._rows(x), "features")[action].tolist()
        kept = {"task": self._tasks.index(self._task(x)), "row": row}
        self._learner.learn(x, action, reward, 1.0, **kept)
        self.n_trial += 1


def _own_part_each(x: Float, n_actions: int) -> Float:
    """(n_actions, n_actions·(1 + dim)): the context, a 1 in front, in each action's own part of its row."""
    rows: Float = np.kron(np.eye(n_actions), np.append(1.0, x))
    return rows

"""Gymnasium: one bandit task of a Banister environment, as agents of that world expect it."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.contract import Choices, Environment, Requests
from banister.data import Float
from banister.errors import MissingExtraError, SettingError

try:
    from gymnasium import Env, spaces
except ImportError as reason:
    raise MissingExtraError.of("gymnasium", "gym") from reason


class BanditTask(Env[Any, Any]):
    """One task: an observation is what is on offer, (K, d); an action is an index; a step is one request.

    What only a judge may know goes into `info`: the expected reward of the choice, of the best action and of
    the baseline, beside the baseline's index and what it was reported to earn.

    Args:
        env: any environment of the package.
        task: which of its tasks.
        rounds: requests in an episode.

    Examples:
        >>> import banister as bn
        >>> from banister.adapters.gymnasium import BanditTask
        >>> task = BanditTask(bn.Synthetic(dim=4, tasks=3, rank=1, actions=5), task=2, rounds=3)
        >>> offered, info = task.reset(seed=0)
        >>> offered.shape, task.action_space.n
        ((5, 4), np.int64(5))
        >>> for _ in range(3):
        ...     offered, reward, over, _, info = task.step(info["baseline"])
        >>> over
        True
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012, the name and form that Gymnasium asks for

    def __init__(self, env: Environment, *, task: int = 0, rounds: int = 200) -> None:
        if not 0 <= task < env.n_tasks:
            raise SettingError(f"task={task!r} is not there; the environment has {env.n_tasks}, from 0.")
        self.env, self.task, self.rounds = env, task, rounds
        env.reset(np.random.default_rng(0))
        offered = env.requests(1, np.random.default_rng(0)).actions.shape[1:]
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=offered, dtype=np.float64)
        self.action_space = spaces.Discrete(offered[0])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float, dict[str, Any]]:
        """A new truth, and the first request."""
        super().reset(seed=seed)
        self.env.reset(self.np_random)
        self._round = 0
        self._ask()
        return self._request.actions[0], self._info()

    def step(self, action: Any) -> tuple[Float, float, bool, bool, dict[str, Any]]:
        """Play an action: the next request, what was earned, whether the episode is over."""
        choice = Choices.of_index(self._request, np.array([int(action)]), "gymnasium")
        expected = self.env.expected(self._request, choice)
        noise = self.env.noise(self._request, self.np_random)
        reward = float(self.env.reward(self._request, expected, noise)[0])
        judged = {
            "expected": float(expected[0]),
            "best": float(self.env.best(self._request)[0]),
            "baseline_expected": float(self.env.baseline(self._request)[0]),
        }
        self._ask()
        over = self._round > self.rounds
        return self._request.actions[0], reward, over, False, {**self._info(), **judged}

    def _ask(self) -> None:
        """The task's next request; rounds in which it does not ask are passed over."""
        while True:
            requests = self.env.requests(1, self.np_random, self._round)
            self._round += 1
            own = requests[requests.task == self.task]
            if len(own):
                self._request: Requests = own[:1]
                return

    def _info(self) -> dict[str, Any]:
        return {
            "baseline": int(self._request.baseline_index()[0]),
            "baseline_reward": float(self._request.baseline_reward[0]),
        }

"""Every bound of the paper as a function, with its constants and hypotheses in the open.

Arguments are keyword-only, checked, and broadcast as numpy arrays do. Where the printed form is wrong there
are two functions: `…_printed` gives what the paper prints, the plain name what follows from its proof once
repaired. The module texts derive the repairs; `docs/theory.md` says what was measured.
"""

from banister.theory.bound import Bound, SampleSize
from banister.theory.comparison import SYSTEMS, Setting, System
from banister.theory.complexity import (
    bytes_per_iteration,
    communication_complexity,
    first_epoch_complexity,
    later_epoch_complexity,
    separate_complexity,
    sharing_tasks,
    time_complexity,
)
from banister.theory.concentration import bernstein_tail, centred_noise
from banister.theory.contraction import (
    contraction,
    first_epoch_distance,
    first_epoch_samples,
    first_step_size,
    iterations_to_reach,
    later_epoch_distance,
    later_epoch_samples,
    later_step_size,
    proved_coefficient,
)
from banister.theory.estimation import (
    EstimationErrors,
    estimation_errors,
    estimation_probability,
    gram_inverse,
    gram_inverse_exact,
    leakage,
    mixture_variance,
)
from banister.theory.gradient import (
    gradient_deviation,
    gradient_mean,
    gradient_part_deviation,
    gradient_probability_printed,
)
from banister.theory.initialisation import (
    estimated_truncation_multiplier,
    required_start,
    start_distance,
    start_samples,
    truncation_multiplier,
)
from banister.theory.iterations import (
    largest_safe_error,
    least_margin,
    safety_iterations,
    safety_iterations_printed,
    safety_margin,
    step_contraction,
)
from banister.theory.matrices import (
    condition_number,
    incoherence,
    incoherence_printed,
    noise_to_signal,
    norm_bound,
    singular_values,
    subspace_distance,
)
from banister.theory.order import expected_order
from banister.theory.regret import (
    failing_rounds,
    first_epoch_regret,
    first_epoch_regret_by_gap,
    first_epoch_slope,
    greedy_regret,
    greedy_regret_mean,
    regret_iterations,
)
from banister.theory.regret_printed import (
    accuracy_asked,
    first_epoch_regret_printed,
    later_epochs_regret_printed,
    regret_bound,
    regret_bound_two_roots,
    regret_iterations_printed,
)
from banister.theory.safety import (
    gaussian_radius,
    largest_safe_rho,
    largest_safe_rho_interval,
    largest_safe_rho_printed,
)

__all__ = [
    "Bound",
    "EstimationErrors",
    "SYSTEMS",
    "SampleSize",
    "Setting",
    "System",
    "accuracy_asked",
    "bernstein_tail",
    "bytes_per_iteration",
    "centred_noise",
    "communication_complexity",
    "condition_number",
    "contraction",
    "estimated_truncation_multiplier",
    "estimation_errors",
    "estimation_probability",
    "expected_order",
    "failing_rounds",
    "first_epoch_complexity",
    "first_epoch_distance",
    "first_epoch_regret",
    "first_epoch_regret_by_gap",
    "first_epoch_regret_printed",
    "first_epoch_samples",
    "first_epoch_slope",
    "first_step_size",
    "gaussian_radius",
    "gradient_deviation",
    "gradient_mean",
    "gradient_part_deviation",
    "gradient_probability_printed",
    "gram_inverse",
    "gram_inverse_exact",
    "greedy_regret",
    "greedy_regret_mean",
    "incoherence",
    "incoherence_printed",
    "iterations_to_reach",
    "largest_safe_error",
    "largest_safe_rho",
    "largest_safe_rho_interval",
    "largest_safe_rho_printed",
    "later_epoch_complexity",
    "later_epoch_distance",
    "later_epoch_samples",
    "later_epochs_regret_printed",
    "later_step_size",
    "leakage",
    "least_margin",
    "mixture_variance",
    "noise_to_signal",
    "norm_bound",
    "proved_coefficient",
    "regret_bound",
    "regret_bound_two_roots",
    "regret_iterations",
    "regret_iterations_printed",
    "required_start",
    "safety_iterations",
    "safety_iterations_printed",
    "safety_margin",
    "separate_complexity",
    "sharing_tasks",
    "singular_values",
    "start_distance",
    "start_samples",
    "step_contraction",
    "subspace_distance",
    "time_complexity",
    "truncation_multiplier",
]

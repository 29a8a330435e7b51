"""Robust regression with priors, on logarithms: Levenberg-Marquardt with reweighted residuals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

DIFFERENCE = 1e-3
"""Step of the finite differences, in logarithms."""
FIRST_DAMPING = 1e-2
LONGEST_STEP = 0.4
"""Largest change of a logarithm in one iteration."""
TRIES = 6
"""Dampings that are tried before the fit counts as converged."""
LESS_DAMPING, MORE_DAMPING = 4.0, 5.0
SMALL_GAIN = 1e-3
"""Relative gain below which the fit has converged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """Rows to fit, constants that are free, and what was believed of them.

    Cost: sum of w 2 log(1 + (r/scale)^2 / 2) over rows (Cauchy) plus ((x - prior) / spread)^2 over constants.
    """

    residuals: Callable[[FloatArray], FloatArray]
    """log(predicted / measured) of all rows for given logarithms of the constants."""
    prior: FloatArray
    """Mean of the Gaussian prior of each logarithm."""
    spread: FloatArray
    """Its standard deviation."""
    weights: FloatArray
    """Weight of each row."""
    scale: float
    """Residual at which a row starts to lose its say."""

    def cost(self, residuals: FloatArray, at: FloatArray) -> float:
        """Return the cost at the logarithms *at*, whose residuals are given."""
        data = np.sum(self.weights * 2 * np.log1p((residuals / self.scale) ** 2 / 2))
        return float(data + np.sum(((at - self.prior) / self.spread) ** 2))

    def expansion(self, residuals: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return curvature and gradient of half the cost, the rows' say held as it is (Holland and Welsch, 1977)."""
        slopes = np.empty((len(residuals), len(at)))
        for index in range(len(at)):
            moved = at.copy()
            moved[index] += DIFFERENCE
            slopes[:, index] = (self.residuals(moved) - residuals) / DIFFERENCE
        say = self.weights / (1 + (residuals / self.scale) ** 2 / 2) / self.scale**2
        curvature = slopes.T @ (say[:, None] * slopes) + np.diag(1 / self.spread**2)
        return curvature, slopes.T @ (say * residuals) + (at - self.prior) / self.spread**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Minimum of the cost."""

    logarithms: FloatArray
    covariance: FloatArray
    """Of the logarithms, from the curvature of the cost, shape (num_constants, num_constants)."""
    residuals: FloatArray
    """log(predicted / measured) at the minimum, shape (num_rows,)."""
    cost: float


def fit(job: Regression, start: FloatArray, *, max_iterations: int) -> Fit:
    """Return the logarithms at which the cost of *job* is least, searched from *start*."""
    at, residuals = start, job.residuals(start)
    cost, damping = job.cost(residuals, at), FIRST_DAMPING
    curvature, gradient = job.expansion(residuals, at)
    for _ in range(max_iterations):
        step = _step(job, at, cost, curvature, gradient, damping)
        if step is None:
            break
        at, residuals, gain, damping = step
        cost -= gain
        damping /= LESS_DAMPING
        curvature, gradient = job.expansion(residuals, at)
        if gain < SMALL_GAIN * cost:
            break
    covariance = np.asarray(np.linalg.inv(curvature), dtype=np.float64)
    return Fit(logarithms=at, covariance=covariance, residuals=residuals, cost=cost)


def _step(
    job: Regression, at: FloatArray, cost: float, curvature: FloatArray, gradient: FloatArray, damping: float
) -> tuple[FloatArray, FloatArray, float, float] | None:
    """Return a better point, its residuals, the gain and the damping that found it; None if none does."""
    for _ in range(TRIES):
        damped = curvature + damping * np.diag(np.diag(curvature))
        trial = at + np.clip(-np.linalg.solve(damped, gradient), -LONGEST_STEP, LONGEST_STEP)
        residuals = job.residuals(trial)
        gain = cost - job.cost(residuals, trial)
        if gain > 0:
            return trial, residuals, gain, damping
        damping *= MORE_DAMPING
    return None

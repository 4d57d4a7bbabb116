"""Mechanisms: parameters, cost and release of each, with its proof; and the sources of noise."""

from privfcd.mechanisms.covariance import AnalyticGaussian, NoisyCovariance, covariance_sensitivity
from privfcd.mechanisms.exact import Exact
from privfcd.mechanisms.exponential import GumbelMax
from privfcd.mechanisms.gaussian import Gaussian
from privfcd.mechanisms.laplace import Laplace
from privfcd.mechanisms.noise import NoiseSource, NoiseStream, SecureNoise, SimulatedNoise
from privfcd.mechanisms.noisy_max import LaplaceNoisyMax
from privfcd.mechanisms.opendp_noise import OpenDPNoise
from privfcd.mechanisms.permute_and_flip import PermuteAndFlip
from privfcd.mechanisms.top_m import TopM
from privfcd.mechanisms.vectors import GaussianVector, LaplaceVector

__all__ = [
    "AnalyticGaussian",
    "Exact",
    "Gaussian",
    "GaussianVector",
    "GumbelMax",
    "Laplace",
    "LaplaceNoisyMax",
    "LaplaceVector",
    "NoiseSource",
    "NoiseStream",
    "NoisyCovariance",
    "OpenDPNoise",
    "PermuteAndFlip",
    "SecureNoise",
    "SimulatedNoise",
    "TopM",
    "covariance_sensitivity",
]

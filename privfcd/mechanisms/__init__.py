"""Mechanisms: parameters, cost and release of each, with its proof; and the sources of noise."""

from privfcd.mechanisms.covariance import AnalyticGaussian, NoisyCovariance, covariance_sensitivity
from privfcd.mechanisms.exponential import GumbelMax
from privfcd.mechanisms.gaussian import Gaussian
from privfcd.mechanisms.laplace import Laplace
from privfcd.mechanisms.noise import NoiseSource, NoiseStream, SecureNoise, SimulatedNoise
from privfcd.mechanisms.opendp_noise import OpenDPNoise

__all__ = [
    "AnalyticGaussian",
    "Gaussian",
    "GumbelMax",
    "Laplace",
    "NoiseSource",
    "NoiseStream",
    "NoisyCovariance",
    "OpenDPNoise",
    "SecureNoise",
    "SimulatedNoise",
    "covariance_sensitivity",
]

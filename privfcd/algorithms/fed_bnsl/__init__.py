"""Fed-BNSL (NOTEARS-ADMM, Ng and Zhang 2022), Fed-BNSL-FW and DP-Fed-BNSL."""

from privfcd.algorithms.fed_bnsl.coordinator import FedBNSLCoordinator
from privfcd.algorithms.fed_bnsl.estimator import FedBNSL
from privfcd.algorithms.fed_bnsl.party import FedBNSLParty
from privfcd.algorithms.fed_bnsl.reconstruction import reconstructed_moments

__all__ = ["FedBNSL", "FedBNSLCoordinator", "FedBNSLParty", "reconstructed_moments"]

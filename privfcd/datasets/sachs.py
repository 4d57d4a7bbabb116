"""Real data that comes with the package, with its targets, sources and licences."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from privfcd.data.tables import read_table
from privfcd.graphs.interchange import read_graph


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set and the graphs that it is compared with.

    Attributes
    ----------
    name : str
    rows : ndarray of shape (n, d)
        float64, read-only.
    columns : tuple of d str
    targets : dict of str to networkx.DiGraph
        Graphs over `columns`, in their order. A target need not be acyclic.
    source, licence : str
        Where the data come from, and on what terms.
    """

    name: str
    rows: NDArray[np.float64]
    columns: tuple[str, ...]
    targets: dict[str, nx.DiGraph[str]]
    source: str
    licence: str


def sachs() -> Dataset:
    """Return the protein-signalling data of Sachs et al. (2005): 7466 rows, 11 variables, raw scale.

    The values are not centred, scaled or transformed; standard deviations go from 43 to 644.

    Targets
    -------
    "cdt18"
        The 18-edge target of the Causal Discovery Toolbox, which structure-learning papers report on. It has
        the directed cycle plcg -> PIP2 -> PIP3 -> plcg, so no DAG reaches SHD 0 on it.
    "consensus17"
        The 17-edge consensus network, a DAG, with its variables renamed to the columns of the data.

    Examples
    --------
    >>> data = sachs()
    >>> data.rows.shape, sorted((name, len(graph.edges)) for name, graph in data.targets.items())
    ((7466, 11), [('cdt18', 18), ('consensus17', 17)])
    """
    bundled = files("privfcd.datasets").joinpath("bundled")
    with as_file(bundled.joinpath("sachs.csv.gz")) as path:
        table = read_table(path)
    targets = {}
    for name in ("cdt18", "consensus17"):
        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(table.columns)
        with as_file(bundled.joinpath(f"sachs_{name}.csv")) as path:
            graph.add_edges_from(read_graph(path).edges(data=True))
        targets[name] = graph
    return Dataset(
        name="sachs",
        rows=table.rows,
        columns=table.columns,
        targets=targets,
        source="Sachs et al. (2005), Causal protein-signaling networks derived from multiparameter "
        "single-cell data, Science 308(5721), 523-529; rows and target cdt18 from cdt 0.6.0, target "
        "consensus17 from pgmpy 1.1.2",
        licence="MIT (cdt: Copyright (c) 2018 Diviyan Kalainathan; pgmpy: Copyright (c) 2013 - present, "
        "pgmpy); full text in privfcd/datasets/bundled/NOTICE.md",
    )

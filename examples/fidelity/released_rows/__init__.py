"""GRPE with the rows of P and E of its released code, which ``--user-dir`` imports.

The flags are the two differences that `grpe` has no flag for; their rows stand in the
tables, but are never read (see `graphormer_plugin.models.grpe`).
"""

from dataclasses import dataclass

from cython_ext.codes import RELATION_FAR, RELATION_SELF, RELATION_UNREACHABLE
from graphormer_plugin.models import register_model
from graphormer_plugin.models.grpe import GRPEConfig, GRPEModel
from graphormer_plugin.modules import option


@dataclass
class ReleasedRowsConfig(GRPEConfig):
    """Options of GRPE, and which rows are the released code's."""

    far_is_last: bool = option(False, "distances beyond L have the vector of L")
    self_is_no_edge: bool = option(
        False, "a node and itself have the bond vector of no edge"
    )


@register_model("grpe_released_rows", ReleasedRowsConfig)
class ReleasedRows(GRPEModel):
    """GRPE, with other rows for two relations."""

    @classmethod
    def build_model(cls, cfg: ReleasedRowsConfig, task) -> "ReleasedRows":
        """See `GRPEModel`."""
        model = super().build_model(cfg, task)
        for encoding in model.encoder.encodings:
            hops, bonds = encoding.rows
            if cfg.far_is_last:
                hops[RELATION_FAR] = cfg.max_hop
            if cfg.self_is_no_edge:
                bonds[RELATION_SELF] = bonds[RELATION_UNREACHABLE]
        return model

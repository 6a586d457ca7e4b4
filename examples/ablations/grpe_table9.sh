#!/usr/bin/env bash
# GRPE, components: Park et al. 2022, Table 9, test MAE on ZINC.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

RECIPE=zinc/grpe_small
without_topology=--no-topology-attention without_edge=--no-edge-attention
without_value=--no-graph-encoded-value

variant plain $without_topology $without_edge $without_value "$@"
variant topology $without_edge $without_value "$@"
variant edge $without_topology $without_value "$@"
variant value $without_topology $without_edge "$@"
variant topology-edge $without_value "$@"
variant topology-edge-value "$@"

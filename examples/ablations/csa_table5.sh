#!/usr/bin/env bash
# CSA, colour and edge values: Menegaux et al. 2023, Table 5, test MAE on ZINC.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../sweep.sh"

RECIPE=zinc/cgt_zinc_rings

variant mono-plain --attention mono --no-edge-values "$@"
variant chromatic-plain --no-edge-values "$@"
variant mono-value --attention mono "$@"
variant chromatic-value "$@"

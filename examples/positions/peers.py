"""SchNet and PaiNN of schnetpack, trained and tested on the rows of a file, on one core.

    python -m venv peers && peers/bin/pip install schnetpack
    peers/bin/python examples/positions/peers.py painn ROWS.npz --epochs 20

ROWS.npz, which `rows.py` writes, has `numbers` [atoms], `pos` [atoms, 3] in
angstrom, `sizes` [graphs], `target` [graphs], the row numbers `train`, `valid` and `test`,
and, for conservative forces, `forces` [atoms, 3]. Widths, layers and the cutoff are those of
schnetpack's own configurations. Targets and losses are those of our models: energies without
those of atoms, divided by the root mean square of the forces, or else standardised; L1. The
best epoch of the validation rows is tested; a line of JSON has the errors and the CPU time.
"""

import argparse
import importlib
import json
import time
import typing
from types import ModuleType

import numpy as np
import torch
import torch.utils.data.dataloader

CUTOFF = 5.0  # angstrom


def library() -> ModuleType:
    """schnetpack, whose version 2.0 takes a name from torch that torch 2.13 has no more."""
    torch.utils.data.dataloader.T_co = typing.TypeVar("T_co", covariant=True)
    return importlib.import_module("schnetpack")


class Rows:
    """Graphs of a file as batches of schnetpack.

    Attributes:
        offset: [graphs], what models do not learn of the targets.
        scale: by which the rest is divided.
    """

    def __init__(self, path: str) -> None:
        self.arrays = dict(np.load(path))
        self.sizes = self.arrays["sizes"]
        self.first = np.cumsum(self.sizes) - self.sizes
        self.with_forces = "forces" in self.arrays
        self.offset = np.zeros(len(self.sizes))
        self.scale = self.fit()
        self.near = [self.pairs(row) for row in range(len(self.sizes))]

    def fit(self) -> float:
        """Fit `offset` [graphs], and return the scale of the targets."""
        train = self.arrays["train"]
        target = self.arrays["target"]
        if not self.with_forces:
            self.offset += target[train].mean()
            return float(target[train].std())
        counts = np.zeros((len(self.sizes), self.arrays["numbers"].max() + 1))
        graphs = np.repeat(np.arange(len(self.sizes)), self.sizes)
        np.add.at(counts, (graphs, self.arrays["numbers"]), 1)
        self.offset = counts @ np.linalg.lstsq(counts[train], target[train])[0]
        forces = self.arrays["forces"][np.isin(graphs, train)]
        return float(np.sqrt(np.square(forces).mean()))

    def atoms(self, row: int) -> slice:
        """The atoms of a graph."""
        return slice(self.first[row], self.first[row] + self.sizes[row])

    def pairs(self, row: int) -> np.ndarray:
        """Atoms of a graph that are nearer than the cutoff, [2, pairs]."""
        pos = self.arrays["pos"][self.atoms(row)]
        distances = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
        np.fill_diagonal(distances, np.inf)
        return np.stack(np.nonzero(distances < CUTOFF))

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        """The input of a model, `target` [graphs] and `forces` [atoms, 3] in its scale."""
        properties = library().properties
        sizes = self.sizes[rows]
        first = np.cumsum(sizes) - sizes
        pairs = np.concatenate(
            [self.near[row] + start for row, start in zip(rows, first)], 1
        )
        atoms = np.concatenate([np.r_[self.atoms(row)] for row in rows])
        pos = torch.from_numpy(self.arrays["pos"][atoms]).float()
        batch = {
            properties.Z: torch.from_numpy(self.arrays["numbers"][atoms]).long(),
            properties.R: pos,
            properties.idx_i: torch.from_numpy(pairs[0]),
            properties.idx_j: torch.from_numpy(pairs[1]),
            properties.idx_m: torch.arange(len(rows)).repeat_interleave(
                torch.from_numpy(sizes)
            ),
            properties.n_atoms: torch.from_numpy(sizes),
            properties.offsets: torch.zeros(pairs.shape[1], 3),
        }
        target = (self.arrays["target"] - self.offset)[rows] / self.scale
        batch["target"] = torch.from_numpy(target).float()
        if self.with_forces:
            forces = torch.from_numpy(self.arrays["forces"][atoms] / self.scale)
            batch["true_forces"] = forces.float()
        return batch


def build(name: str, with_forces: bool) -> torch.nn.Module:
    """A model of schnetpack, `schnet` or `painn`, of a target `y`."""
    schnetpack = library()
    representation, layers = {
        "schnet": (schnetpack.representation.SchNet, 6),
        "painn": (schnetpack.representation.PaiNN, 3),
    }[name]
    encoder = representation(
        n_atom_basis=128,
        n_interactions=layers,
        radial_basis=schnetpack.nn.GaussianRBF(n_rbf=20, cutoff=CUTOFF),
        cutoff_fn=schnetpack.nn.CosineCutoff(CUTOFF),
    )
    mode = "sum" if with_forces else "avg"
    outputs = [schnetpack.atomistic.Atomwise(n_in=128, aggregation_mode=mode)]
    if with_forces:
        outputs.append(schnetpack.atomistic.Forces(energy_key="y"))
    return schnetpack.model.NeuralNetworkPotential(
        encoder, [schnetpack.atomistic.PairwiseDistances()], outputs
    )


def errors(model: torch.nn.Module, rows: Rows, chosen: np.ndarray) -> dict[str, float]:
    """Mean absolute errors of the targets and forces of rows."""
    model.eval()
    sums = {"mae": 0.0, "force_mae": 0.0}
    for part in np.array_split(chosen, -(-len(chosen) // 32)):
        batch = rows.batch(part)
        with torch.set_grad_enabled(rows.with_forces):
            output = model(batch)
        difference = (output["y"] - batch["target"]).abs().sum().item()
        sums["mae"] += difference * rows.scale / len(chosen)
        if rows.with_forces:
            difference = output["forces"] - batch["true_forces"]
            components = 3 * rows.sizes[chosen].sum()
            total = difference.abs().sum().item() * rows.scale
            sums["force_mae"] += total / components
    if not rows.with_forces:
        del sums["force_mae"]
    model.train()
    return sums


def loss_of(model: torch.nn.Module, batch: dict, force_weight: float) -> torch.Tensor:
    """L1 of the targets, and of the components of forces times their weight."""
    output = model(batch)
    loss = (output["y"] - batch["target"]).abs().mean()
    if "true_forces" in batch:
        error = output["forces"] - batch["true_forces"]
        loss = loss + force_weight * error.abs().mean()
    return loss


def main() -> None:
    """Train and test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=("schnet", "painn"))
    parser.add_argument("rows")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--force-weight", type=float, default=10)
    parser.add_argument("--validate-interval", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    rows = Rows(args.rows)
    model = build(args.model, rows.with_forces)
    optimizer = torch.optim.AdamW(model.parameters(), args.lr, weight_decay=0)
    train = rows.arrays["train"]
    steps = -(-len(train) // args.batch_size)
    updates = args.epochs * steps
    # As ours: a linear rise, and a linear fall to 0.
    warmup = updates // 20
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(
            (step + 1) / (warmup + 1), (updates - step) / (updates - warmup)
        ),
    )
    metric = "force_mae" if rows.with_forces else "mae"
    best = {metric: np.inf}
    started = time.process_time()
    for epoch in range(1, args.epochs + 1):
        order = train[torch.randperm(len(train)).numpy()]
        for part in np.array_split(order, steps):
            optimizer.zero_grad()
            loss_of(model, rows.batch(part), args.force_weight).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5)
            optimizer.step()
            schedule.step()
        if epoch % args.validate_interval and epoch < args.epochs:
            continue
        found = errors(model, rows, rows.arrays["valid"])
        print(epoch, round(time.process_time() - started), found, flush=True)
        if found[metric] < best[metric]:
            best = found
            state = {name: value.clone() for name, value in model.state_dict().items()}
    seconds = time.process_time() - started
    model.load_state_dict(state)
    parameters = sum(weight.numel() for weight in model.parameters())
    result = {
        "model": args.model,
        "parameters": parameters,
        "epochs": args.epochs,
        "seconds": round(seconds),
        "valid": best,
        "test": errors(model, rows, rows.arrays["test"]),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()

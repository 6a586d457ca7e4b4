"""Cost of structure: a training step of an architecture next to a plain Transformer.

    python examples/speed/train_step.py --arch grpe_small

Both models see the same padded batches of the `nci` molecules, or of a table, in turn, so that a
drifting machine slows both alike. The plain model is `torch.nn.TransformerEncoder` of
the same depth, width, heads, feed-forward width and dropout. It has a virtual node and
a padding mask, and reads only the atomic numbers. Beside a message-passing model it has
at most 8 heads, and a feed-forward width of twice the width if the model has none. A step
is forward, mean absolute error, backward and AdamW. Prints graphs/s of both (medians over
the rounds) and their ratio; above 1 the architecture is faster.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from measuring import in_turn, ratio, store_collator
from torch import Tensor, nn
from torch.nn import functional as F

from graphormer_plugin.data import DatasetOptions, get_store
from graphormer_plugin.models import build_model, model_config

PLAIN = "plain Transformer"


class PlainTransformer(nn.Module):
    """Atomic numbers and a virtual node through `nn.TransformerEncoder`."""

    def __init__(self, cfg: Any, num_atoms: int, dropout: float) -> None:
        super().__init__()
        embed_dim = cfg.encoder_embed_dim
        heads = getattr(cfg, "encoder_attention_heads", 0)
        encoder_layer = nn.TransformerEncoderLayer(
            embed_dim,
            heads or next(count for count in (8, 4, 2, 1) if embed_dim % count == 0),
            getattr(cfg, "encoder_ffn_embed_dim", 0) or 2 * embed_dim,
            dropout,
            activation="gelu",
            batch_first=True,
            norm_first=getattr(cfg, "pre_layernorm", True),
        )
        self.embedding = nn.Embedding(num_atoms + 1, embed_dim)
        self.encoder = nn.TransformerEncoder(
            encoder_layer, cfg.encoder_layers, enable_nested_tensor=False
        )
        self.norm = nn.LayerNorm(embed_dim)
        self.head = nn.Linear(embed_dim, 1)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        atoms = F.pad(batch["x"][..., 0].long() + 1, (1, 0))
        padding = F.pad(~batch["node_mask"], (1, 0))
        states = self.encoder(self.embedding(atoms), src_key_padding_mask=padding)
        return self.head(self.norm(states)[:, 0])


def make_step(
    model: nn.Module, batches: list[dict], bfloat16: bool = False
) -> Callable[[], None]:
    """A function that trains one pass over the batches."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        for sample in batches:
            optimiser.zero_grad()
            device = sample["target"].device.type
            with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
                out = model(sample["net_input"]["batch"])
                loss = F.l1_loss(out, sample["target"].to(out.dtype))
            loss.backward()
            optimiser.step()
        if out.device.type == "cuda":
            torch.cuda.synchronize()

    return step


def size(text: str) -> dict[str, int]:
    """LAYERSxWIDTHxHEADS as options of a model."""
    layers, width, heads = map(int, text.split("x"))
    return {
        "encoder_layers": layers,
        "encoder_embed_dim": width,
        "encoder_attention_heads": heads,
        "encoder_ffn_embed_dim": width,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default="grpe_small", help="default: %(default)s")
    parser.add_argument(
        "--size",
        type=size,
        default={},
        metavar="LAYERSxWIDTHxHEADS",
        help="in place of the preset's; the feed-forward networks are as wide",
    )
    parser.add_argument("--csv", default="nci", help="a table; default: RDKit's NCI")
    parser.add_argument("--batch-size", type=int, default=128, help="graphs")
    parser.add_argument("--batches", type=int, default=6, help="of different sizes")
    parser.add_argument("--dropout", type=float, default=0.1, help="everywhere")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=7, help="timed, after one more")
    parser.add_argument("--device", default="cpu", help="default: %(default)s")
    parser.add_argument("--bf16", action="store_true", help="autocast to bfloat16")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="of all threads, not by the clock: for cores that other work shares",
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)

    store = get_store(DatasetOptions(name=args.csv))
    cfg = model_config(args.arch)
    sizes = {name: value for name, value in args.size.items() if name in vars(cfg)}
    vars(cfg).update(sizes)
    rates = {"dropout", "attention_dropout", "act_dropout"} & vars(cfg).keys()
    rates = dict.fromkeys(rates, args.dropout)
    model = build_model(args.arch, store.schema, store.targets, **rates, **sizes)
    collator = store_collator(store, model.batch_spec)
    graph_ids = store.splits["train"]
    graph_ids = graph_ids[np.argsort(store.sizes[graph_ids], kind="stable")]
    # Taken from the middle of equal shares of the split, so that all sizes count alike.
    slices = [
        part[len(part) // 2 :] for part in np.array_split(graph_ids, args.batches)
    ]
    batches = [collator(part[: args.batch_size]) for part in slices]
    for sample in batches:
        fields = sample["net_input"]["batch"]
        fields |= {name: field.to(args.device) for name, field in fields.items()}
        sample["target"] = sample["target"].nan_to_num().to(args.device)
    plain = PlainTransformer(cfg, store.schema.node_dims[0], args.dropout)

    models = {args.arch: model.to(args.device), PLAIN: plain.to(args.device)}
    steps = {
        name: make_step(module, batches, args.bf16) for name, module in models.items()
    }
    clock = time.process_time if args.cpu_time else time.perf_counter
    seconds, _ = in_turn(steps, args.rounds + 1, clock)
    seconds = {name: times[1:] for name, times in seconds.items()}  # one warms up

    graphs = sum(sample["nsamples"] for sample in batches)
    nodes = sum(sample["ntokens"] for sample in batches) / graphs
    print(
        f"{args.batches} batches of {args.batch_size} molecules sorted by size, "
        f"{nodes:.1f} atoms a molecule, dropout {args.dropout}, {args.threads} threads"
    )
    for name, times in seconds.items():
        print(f"{name:18} {graphs / statistics.median(times):8.0f} graphs/s")
    print(ratio(seconds[PLAIN], seconds[args.arch]))


if __name__ == "__main__":
    main()

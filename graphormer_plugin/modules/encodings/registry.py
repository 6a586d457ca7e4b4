"""What encodings of nodes and of node pairs have in common, and their registries."""

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from graphormer_plugin.choices import UnknownNameError, check_least
from graphormer_plugin.components import is_same_definition, matching
from graphormer_plugin.modules.encodings.vocabulary import Vocabularies
from graphormer_plugin.modules.layers.encoder_config import LayersConfig
from graphormer_plugin.modules.layers.sparse import Batch, wide_type


class Encoding(nn.Module):
    """Numbers that are computed from batch fields, the base of `NodeEncoding` and
    `PairEncoding`.

    A subclass sets `fields` and `num_features` and defines `forward`. It may have weights
    of its own, which are trained with the model.

    `forward` takes only the batch `fields`: per graph [B, ...], node [B, N, ...] or pair
    [B, N, N, ...]. Their types and padding are in `graphormer_plugin.data.batches.fields`;
    fields of `graphormer_plugin.data.batches.fields.registered.register_field` are float32,
    0 at padding. `node_mask` is a field; the vectors of the nodes are not.

    Attributes:
        fields: batch fields that `forward` takes, in its order.
        num_features: F, numbers per node or pair.
        options: fields of the encoder's config that the class takes by name.
        random: after the fields, `forward` takes the seed of each graph [B], or None, for
            `graphormer_plugin.modules.layers.graph_random`.
        label: its name in the registry, for messages.
        constant: columns that have one value by definition.
    """

    fields: tuple[str, ...]
    num_features: int
    options: tuple[str, ...] = ()
    random = False
    label = ""
    constant: list[int] = []

    def __init__(self, vocabularies: Vocabularies) -> None:
        super().__init__()
        self.register_buffer("one", torch.ones(()), persistent=False)

    @property
    def dtype(self) -> torch.dtype:
        """Number format to compute in: float32, or float64 in a model of doubles."""
        return wide_type(self.one)

    @property
    def field_options(self) -> dict[str, Any]:
        """Parameters of the fields, by their names in `BatchSpec`, e.g. `max_hop`."""
        return {}

    def arguments(self, batch: Batch) -> list[Tensor | None]:
        """What `forward` takes of a batch."""
        fields: list[Tensor | None] = [batch[name] for name in self.fields]
        return [*fields, batch.get("seed")] if self.random else fields

    def forward(self, *fields: Tensor) -> Tensor:
        """The batch fields -> [..., F], finite, also at padding."""
        raise NotImplementedError


E = TypeVar("E", bound=Encoding)


class EncodingRegistry(dict[str, Callable[..., E]], Generic[E]):
    """Functions or classes that make encodings, by name.

    Args:
        kind: "node encoding" or "pair encoding", for messages.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind

    def register(self, name: str) -> Callable[[Callable[..., E]], Callable[..., E]]:
        """Decorator that makes an encoding known to its option.

        It is called with the vocabularies and the numbers behind its name, if there are any:
        `name:8` calls it with 8. A class of the same name and module, such as a notebook's
        cell that is run again, replaces the earlier class.

        Args:
            name: value of the option, without a comma or a colon.

        Raises:
            ValueError: another class or module has the name, or a function without a name.
        """

        def _register(factory: Callable[..., E]) -> Callable[..., E]:
            if name in self and not is_same_definition(self[name], factory):
                raise ValueError(f"{self.kind} {name!r} is already registered")
            self[name] = factory
            return factory

        return _register

    def list_names(self, *patterns: str) -> list[str]:
        """Names that match one of some patterns of `fnmatch`; all without a pattern."""
        return matching(self, patterns)

    def make(
        self,
        words: str,
        config: LayersConfig,
        vocabularies: Vocabularies,
        **defaults: tuple[int, ...],
    ) -> list[E]:
        """Encodings by their names, which are separated by commas.

        Args:
            words: `name`, or `name:8` with a number for the encoding, of which the first is 1
                or more; "" or "none": no encoding.
            config: has the `options` of the encodings.
            **defaults: numbers of a name that has none.
        """
        made = []
        for word in words.split(",") if words not in ("", "none") else ():
            name, *numbers = word.strip().split(":")
            if name not in self:
                raise UnknownNameError(self.kind, name, self)
            if not all(number.isdecimal() for number in numbers):
                raise ValueError(
                    f"{self.kind} {word.strip()!r}: expected {name} or {name}:NUMBER"
                )
            sizes = [int(number) for number in numbers] or defaults.get(name, ())
            make = self[name]
            options = {
                one: getattr(config, one) for one in getattr(make, "options", ())
            }
            try:
                inspect.signature(make).bind(vocabularies, *sizes, **options)
            except TypeError:
                raise ValueError(
                    f"{self.kind} {word.strip()!r}: too many numbers"
                ) from None
            for size, least in zip(sizes, (1, 0)):
                check_least(name, size, least)
            made.append(make(vocabularies, *sizes, **options))
            made[-1].label = name
        return made

"""Heads beside checkpoints, folders of models, and likeness to the training molecules."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

from graphormer_plugin import hub
from graphormer_plugin.cli import explain
from graphormer_plugin.cli.predict import main
from graphormer_plugin.finetune.fit_head import fit_head, save_training_domain
from graphormer_plugin.heads import kernels
from graphormer_plugin.heads.domain import domain_file, read_domain, save_domain
from graphormer_plugin.heads.head import read_head
from graphormer_plugin.heads.kernels import raw_features
from graphormer_plugin.inference import loading, model_folder
from graphormer_plugin.inference.model_folder import write_folder
from support.tables import rows

TRAIN = [f"{'C' * (i // 2 + 1)}{'ON'[i % 2]}" for i in range(24)]
BLOCKS = ["vectors", "fingerprint"]
LABELS = np.array([[i / 2, -i] for i in range(24)])
MEMBER = "member1/checkpoint_best.pt"  # in the folder of a test
NEW = ["CCCO", "CCCCN", "C1CC", "BrC#CBr", "C" * 40]


@pytest.fixture(scope="module")
def trained(checkpoint, tmp_path_factory):
    """Folder with a checkpoint of one target and a head with two."""
    folder = tmp_path_factory.mktemp("with_head")
    path = shutil.copy(checkpoint("grpe_tiny"), folder / "checkpoint_best.pt")
    head = fit_head(path, TRAIN, LABELS, names=["a", "b"], unit="K", blocks=BLOCKS)
    head.save(folder / "head.npz")
    return folder


@pytest.fixture
def folder(trained, tmp_path, monkeypatch):
    """A copy of it as member1, with molecules to predict."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "member1")
    Path("in.csv").write_text("\n".join(["smiles", *NEW]) + "\n")
    return tmp_path


def error_of(capsys, *arguments):
    """The one line of a refused command."""
    capsys.readouterr()
    assert main([*arguments, "in.csv", "out.csv", "--quiet"]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and not Path("out.csv").exists()
    return line


def test_head(folder, capsys):
    assert main([MEMBER, "in.csv", "out.csv", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert "5 rows, 1 without prediction; a, b (K)" in out
    first, second, third = err.splitlines()
    assert "Br (in 1 molecule)" in first
    assert "1 molecule smaller or larger" in second and "2 to 13 heavy" in second
    assert "in_domain < 0.05" in third
    found = rows()
    names = ["a", "a_std", "b", "b_std", "in_domain"]
    assert list(found[0]) == ["smiles", *names, "reason"]
    predictor = hub.load(MEMBER)
    good = [NEW[row] for row in (0, 1, 3, 4)]
    vectors = predictor.embed(good)
    raw = {block: raw_features(block, vectors, good) for block in BLOCKS}
    expected = read_head("member1/head.npz").predict_features(raw)
    columns = [[float(row[name]) for name in names] for row in found if row["a"]]
    a, b = np.stack([expected.values, expected.std], 2).transpose(1, 0, 2)
    wanted = np.column_stack([a, b, expected.in_domain])
    np.testing.assert_allclose(columns, wanted, rtol=1e-4)
    np.testing.assert_allclose(predictor.predict(good), expected.values, rtol=1e-6)
    assert float(found[0]["in_domain"]) == 1  # a training molecule
    assert repr(predictor) == (
        "<Predictor: a, b (K); grpe_tiny, head: Gaussian process on vectors + fingerprint "
        "+ scores of 24 molecules>"
    )
    with pytest.raises(ValueError, match="has no gradient"):
        predictor.gradient_times_input(good)
    capsys.readouterr()
    assert explain.main([MEMBER, "CC(C)CO", "out.svg", "--target", "b"]) == 0
    value, std = (part[0, 1] for part in predictor.estimate(["CC(C)CO"])[:2])
    assert f"\tb: {value:.4g} ± {std:.2g} K\n" in capsys.readouterr().out
    assert explain.main([MEMBER, "CCO", "out.svg", "--attention"]) == 2
    assert "graphormer-train --model finetune" in capsys.readouterr().err


def test_without_head(folder, capsys):
    assert main([MEMBER, "in.csv", "out.csv", "--quiet", "--head", "none"]) == 0
    assert list(rows()[0]) == ["smiles", "gap", "reason"]
    predictor = hub.load(MEMBER, head=None)
    assert repr(predictor) == "<Predictor: gap (eV); grpe_tiny>"
    shutil.move("member1/head.npz", "other.npz")
    assert main([MEMBER, "in.csv", "out2.csv", "--quiet", "--head", "other.npz"]) == 0
    assert "a_std" in rows("out2.csv")[0]


def test_a_molecule_is_parsed_once(folder, monkeypatch):
    """For the graph, the fingerprint and the domain, of all members."""
    write_folder(".", [MEMBER] * 3)
    seen = {"parsed": [], "fingerprints": [], "folders": []}

    def count(owner, function, name, items):
        called = getattr(owner, function)

        def counted(argument, *more, **options):
            seen[name].extend(items(argument))
            return called(argument, *more, **options)

        monkeypatch.setattr(owner, function, counted)

    count(Chem, "MolFromSmiles", "parsed", lambda text: [text])
    count(kernels, "morgan_counts", "fingerprints", list)
    count(model_folder, "read_folder", "folders", lambda path: [str(path)])
    assert main([".", "in.csv", "out.csv", "--quiet", "--workers", "0"]) == 0
    assert seen["parsed"] == NEW and seen["folders"] == ["."]
    assert len(seen["fingerprints"]) == len(NEW) - 1  # one is refused
    ensemble = hub.load(".")
    ensemble.predict(TRAIN)
    assert seen["parsed"] == NEW + TRAIN


def test_folder(folder, checkpoint):
    """An ensemble of a head and a head: the law of total variance, and a calibration."""
    Path("member2").mkdir()
    other = shutil.copy(checkpoint("grpe_tiny", "--seed", "2"), "member2/best.pt")
    named = {"names": ["a", "b"], "unit": "K"}
    head = fit_head(other, TRAIN, LABELS, **named, blocks=["vectors"])
    head.save("member2/head.npz")
    paths = [MEMBER, "member2/best.pt"]
    write_folder(".", paths, spread_scale={"b": 2.0})
    assert main([".", "in.csv", "out.csv", "--quiet"]) == 0
    found = rows()[1]
    members = [hub.load(path) for path in paths]
    each = [member.estimate(["CCCCN"]) for member in members]
    mean = np.mean([one.values[0] for one in each], 0)
    within = np.mean([one.std[0] ** 2 for one in each], 0)
    between = np.var([one.values[0] for one in each], 0, ddof=1)
    std = np.sqrt(within + between) * [1, 2]
    assert [float(found["a"]), float(found["b"])] == pytest.approx(mean, rel=1e-4)
    found_std = [float(found["a_std"]), float(found["b_std"])]
    assert found_std == pytest.approx(std, rel=1e-4)
    assert explain.main([".", "CCO", "out.svg"]) == 0
    ensemble = hub.load(".")
    np.testing.assert_allclose(ensemble.predict(["CCCCN"])[0], mean, rtol=1e-5)
    np.testing.assert_allclose(ensemble.estimate(["CCCCN"]).std[0], std, rtol=1e-5)
    text = repr(ensemble)
    assert "a, b (K); 2 models" in text and "scores of 24 molecules" in text
    write_folder(".", [MEMBER], coverage=0.8, interval={"a": 2, "b": 1})
    assert main([".", "in.csv", "intervals.csv", "--quiet"]) == 0
    one, value = rows("intervals.csv")[1], each[0].values[0, 0]
    ends = [float(one[name]) for name in ("a_low80", "a_high80")]
    half = 2 * each[0].std[0, 0]
    assert ends == pytest.approx([value - half, value + half], rel=1e-5)


def test_wrong_folders(folder, capsys):
    assert "is a folder without models.json" in error_of(capsys, "member1")
    for content, reason in [
        ("[", "JSONDecodeError"),
        ('{"models": []}', "models []"),
        ('{"models": ["../x.pt"]}', "names inside of the folder"),
        ('{"models": ["/x.pt"]}', "names inside of the folder"),
        ('{"models": ["x.pt"], "spread": {"a": 1}}', "unexpected keyword argument"),
        ("[]", "TypeError"),
        ("[" * 200_000, "RecursionError"),
    ]:
        Path("models.json").write_text(content)
        line = error_of(capsys, ".")
        assert "models.json is damaged" in line and reason in line
    Path("models.json").write_text('{"models": ["gone.pt"]}')
    assert "gone.pt: no such file" in error_of(capsys, ".")
    write_folder(".", [MEMBER] * 2)
    line = error_of(capsys, ".", "--head", "member1/head.npz")
    assert "--head FILE is for one checkpoint" in line
    assert "no other model" in error_of(capsys, ".", MEMBER)


def test_a_folder_that_lost_a_head(folder, capsys):
    """It does not answer with the targets of the checkpoint."""
    write_folder(".", [MEMBER])
    Path("member1/head.npz").unlink()
    assert "member1/head.npz, which models.json names, is missing" in error_of(
        capsys, "."
    )


def test_a_model_that_is_named_often_is_loaded_once(folder, monkeypatch):
    write_folder(".", [MEMBER] * 3000)
    loaded, read = [], loading.read_checkpoint
    monkeypatch.setattr(
        loading, "read_checkpoint", lambda path: loaded.append(path) or read(path)
    )
    assert len(hub.load(".").members) == 3000 and len(loaded) == 1


def test_classes(trained, tmp_path):
    """Probabilities and their spread."""
    labels = (LABELS[:, :1] > 5).astype(float)
    path = trained / "checkpoint_best.pt"
    head = fit_head(path, TRAIN, labels, classes=True, names=["active"], blocks=BLOCKS)
    head.save(tmp_path / "other.npz")
    predictor = hub.load(path, head=tmp_path / "other.npz")
    found = predictor.estimate(["CO", "CCCCCCCCCCCN"])
    low, high = found.values[:, 0]
    assert low < 0.3 and high > 0.7 and (found.std > 0).all()
    assert "active (probability)" in repr(predictor)


def test_mixed_up_pairs(folder, checkpoint, capsys):
    other = checkpoint("grpe_tiny", "--seed", "2")
    shutil.copy(other, MEMBER)
    assert "head.npz belongs to another checkpoint" in error_of(capsys, MEMBER)
    assert "no.npz" in error_of(capsys, MEMBER, "--head", "no.npz")


def rewritten(path, **changes):
    """Change arrays of a file; None leaves one out."""
    with np.load(path) as file:
        arrays = dict(file)
    for name, value in changes.items():
        array = value(arrays[name]) if callable(value) else value
        arrays[name] = array
        if array is None:
            del arrays[name]
    np.savez(path, **arrays)


def change(name, value):
    def changed(meta):
        return np.array(json.dumps({**json.loads(str(meta)), name: value}))

    return changed


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"dual": None}, "KeyError: 'dual'"),
        ({"meta": np.array("{")}, "JSONDecodeError"),
        ({"meta": change("version", 2)}, "version 2, expected 1"),
        ({"meta": change("blocks", ["pixels"])}, "KeyError"),
        ({"meta": change("targets", {"nom": ["a"]})}, "TypeError"),
        ({"meta": change("atoms", [1])}, "not enough values"),
        ({"dual": np.array([print], dtype=object)}, "Object arrays cannot be loaded"),
    ],
)
def test_damaged_heads(folder, capsys, changes, reason):
    rewritten("member1/head.npz", **changes)
    line = error_of(capsys, MEMBER)
    assert "head.npz is not a head, or damaged: " in line and reason in line


def test_descriptors_of_another_rdkit(folder, capsys):
    fit_head(MEMBER, TRAIN, LABELS).save("member1/head.npz")
    rewritten("member1/head.npz", descriptors=lambda values: values[:, 1:])
    assert "another version of RDKit wrote it" in error_of(capsys, MEMBER)


@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_files_of_another_kind(folder, capsys, place):
    """With another byte, or without the last of them."""
    head = Path("member1/head.npz")
    content = bytearray(head.read_bytes())
    if place < 1:
        content[int(place * len(content))] ^= 0xFF
    head.write_bytes(content[: -100 if place == 1 else None])
    assert "not a head, or damaged" in error_of(capsys, MEMBER)


def test_domain_of_a_checkpoint_without_head(folder, capsys):
    Path("member1/head.npz").unlink()
    plain = hub.load(MEMBER)
    assert save_training_domain(MEMBER, TRAIN) == domain_file(MEMBER)
    domain = read_domain(domain_file(MEMBER))
    assert main([MEMBER, "in.csv", "out.csv", "--quiet"]) == 0
    assert "Br (in 1 molecule)" in capsys.readouterr().err
    found = rows()
    assert list(found[0]) == ["smiles", "gap", "in_domain", "reason"]
    predictor = hub.load(MEMBER)
    good = [NEW[row] for row in (0, 1, 3, 4)]
    estimate = predictor.estimate(good)
    np.testing.assert_allclose(estimate.values, plain.predict(good), rtol=1e-5)
    assert estimate.std is None and estimate.in_domain[0] == 1
    scores = [float(row["in_domain"]) for row in found if row["gap"]]
    np.testing.assert_allclose(scores, estimate.in_domain, rtol=1e-5)
    save_domain(domain, domain_file(MEMBER), "another")
    capsys.readouterr()
    assert main([MEMBER, "in.csv", "out3.csv", "--quiet"]) == 2
    err = capsys.readouterr().err
    assert "domain.npz belongs to another checkpoint" in err and "remove it" in err
    # What makes the files of this training is not stopped by one of another.
    fit_head(MEMBER, TRAIN, LABELS, blocks=["vectors"])
    save_training_domain(MEMBER, TRAIN[:1])
    assert hub.load(MEMBER).estimate(TRAIN[:2]).in_domain.tolist() == [1, 0]

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
from graphormer_plugin.estimators import kernels
from graphormer_plugin.estimators.domain import domain_file, read_domain, save_domain
from graphormer_plugin.estimators.gp import read_estimator
from graphormer_plugin.inference import loading, member, model_folder
from graphormer_plugin.inference.model_folder import write_folder
from graphormer_plugin.workbench.fitting.fit_gp import fit_gp, save_training_domain
from support.heads import predictions_of
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
    head = fit_gp(path, TRAIN, LABELS, names=["a", "b"], unit="K", blocks=BLOCKS)
    head.save(folder / "head.npz")
    return folder


@pytest.fixture
def folder(trained, tmp_path, monkeypatch):
    """A copy of it as member1, with molecules to predict."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, "member1")
    Path("in.csv").write_text("\n".join(["smiles", *NEW]) + "\n")
    return tmp_path


def test_head(folder, capsys):
    assert main([MEMBER, "in.csv", "out.csv", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert "5 rows, 1 without prediction; a, b (K)" in out
    fitted, first, second, third = err.splitlines()
    assert "fitted to the molecules of 2 of 5 rows" in fitted
    assert "Br (in 1 molecule)" in first
    assert "1 molecule smaller or larger" in second and "2 to 13 heavy" in second
    assert "in_domain < 0.05" in third
    found = rows()
    names = ["a", "a_std", "b", "b_std", "in_domain"]
    assert list(found[0]) == ["smiles", *names, "reason"]
    predictor = hub.load(MEMBER)
    good = [NEW[row] for row in (0, 1, 3, 4)]
    vectors = predictor.embed(good)
    head = read_estimator("member1/head.npz")
    expected = predictions_of(head, vectors, good)
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
    """For the graph, the vectors, the fingerprint and the domain, of all members."""
    shutil.copytree("member1", "member2")
    write_folder(".", [MEMBER, f"member2/{Path(MEMBER).name}", MEMBER])
    parsed, described, folders, batches, loaded = [], [], [], [], []

    def watch(owner, name, seen):
        function = getattr(owner, name)

        def watched(first, *rest, **more):
            seen.append(first)
            return function(first, *rest, **more)

        monkeypatch.setattr(owner, name, watched)

    watch(Chem, "MolFromSmiles", parsed)
    watch(kernels, "morgan_counts", described)
    watch(model_folder, "read_folder", folders)
    watch(loading, "read_checkpoint", loaded)
    watch(member, "layer_vectors", batches)
    assert main([".", "in.csv", "out.csv", "--quiet", "--workers", "0"]) == 0
    assert parsed == NEW and len(folders) == len(batches) == 1 and len(loaded) == 2
    assert [len(mols) for mols in described] == [len(NEW) - 1]  # one is refused
    hub.load(".").predict(TRAIN)
    assert parsed == NEW + TRAIN


def test_folder(folder, checkpoint):
    """An ensemble of a head and a head: the law of total variance, and a calibration."""
    Path("member2").mkdir()
    other = shutil.copy(checkpoint("grpe_tiny", "--seed", "2"), "member2/best.pt")
    named = {"names": ["a", "b"], "unit": "K"}
    head = fit_gp(other, TRAIN, LABELS, **named, blocks=["vectors"])
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
    assert main([".", "in.csv", "each.csv", "--quiet", "--members"]) == 0
    found = rows("each.csv")[1]
    names = [f"{name}_member{number}" for number in (1, 2) for name in "ab"]
    expected = np.concatenate([one.values[0] for one in each])
    assert [float(found[name]) for name in names] == pytest.approx(expected, rel=1e-4)
    assert rows("each.csv")[2]["a_member1"] == ""
    assert explain.main([".", "CCO", "out.svg"]) == 0
    assert "a, b (K); 2 models" in repr(hub.load("."))


def test_heads_of_one_checkpoint_that_read_other_layers(folder):
    shutil.copytree("member1", "member2")
    paths = [MEMBER, f"member2/{Path(MEMBER).name}"]
    head = fit_gp(MEMBER, TRAIN, LABELS, names=["a", "b"], unit="K", layers=2)
    head.save("member2/head.npz")
    write_folder(".", paths)
    several = hub.load(".")
    assert len({member.model for member in several.members}) == 1
    expected = np.mean([hub.load(path).predict(TRAIN) for path in paths], 0)
    np.testing.assert_allclose(several.predict(TRAIN), expected, rtol=1e-6)


def test_intervals(folder):
    write_folder(".", [MEMBER], coverage=0.8, interval={"a": 2, "b": 1})
    assert main([".", "in.csv", "out.csv", "--quiet"]) == 0
    names = ["a_low80", "a_high80", "b_low80", "b_high80"]
    assert list(rows()[1])[5:9] == names
    ends = [float(rows()[1][name]) for name in names[:2]]
    values, std, _ = hub.load(MEMBER).estimate(["CCCCN"])
    expected = values[0, 0] + 2 * std[0, 0] * np.array([-1, 1])
    assert ends == pytest.approx(expected, rel=1e-5)


def test_shortlist(folder, capsys):
    """Columns of all rows, by all of them; those without a prediction have empty cells."""
    calibration = {"a": ([[0, 1, 2, 3, 99, 5]], [*range(6)], [*range(6)])}
    write_folder(".", [MEMBER], calibration=calibration)
    words = ["--quiet", "--above", "a=3", "--false-share", "0.5"]
    Path("in.csv").write_text("\n".join(["smiles,p_value", *(f"{x},1" for x in NEW)]))
    assert main([".", "in.csv", "out.csv", *words]) == 0
    found = rows()
    assert [*found[0]][-3:] == ["p_value_predicted", "selected", "reason"]
    predicted = [row for row in found if row["a"]]
    expected = [
        (1 + sum(k >= float(row["a"]) for k in range(4))) / 7 for row in predicted
    ]
    assert [float(row["p_value_predicted"]) for row in predicted] == pytest.approx(
        expected
    )
    assert found[1]["selected"] == "yes"  # 3.5
    failed = found[2]
    assert failed["p_value_predicted"] == failed["selected"] == "" and failed["reason"]
    count = sum(row["selected"] == "yes" for row in found)
    line = (
        f"{count} of 4 molecules; on average at most 50 % of such a list are below 3\n"
    )
    assert line in capsys.readouterr().out
    for limit, share, text in (
        ("4.9", "0.2", "predicted as well as any"),
        ("3", "0.15", "takes"),
    ):
        words = ["--quiet", "--above", f"a={limit}", "--false-share", share]
        assert main([".", "in.csv", f"{limit}.csv", *words]) == 0
        assert text in capsys.readouterr().out


WRONG_FOLDERS = """
[ | is damaged.*JSONDecodeError
[] | is damaged.*TypeError
{"models": ["x.pt"], "spread": {}} | is damaged.*unexpected keyword argument
{"models": ["../x.pt"]} | '../x.pt', expected a name inside the folder
{"models": ["x.pt"], "heads": {"/tmp/head.npz": ""}} | '/tmp/head.npz', expected a name inside
{"models": ["x.pt"], "interval": {"a": 0}} | factors .0., expected finite ones above 0
{"models": ["x.pt"], "spread_scale": {"a": Infinity}} | factors .inf., expected finite
{"models": ["x.pt"], "spread_floor": {"a": NaN}} | floors .nan., expected finite ones of
{"models": ["x.pt"], "coverage": "a", "interval": {}} | models.json is damaged.*TypeError
{"models": ["x.pt"], "coverage": 1} | models.json is damaged.*coverage 1, expected a share
{"models": ["gone.pt"]} | gone.pt: no such
{"models": ["x.pt"], "heads": {"x/head.npz": ""}} | x/head.npz, which .*models.json names, is
"""


@pytest.mark.parametrize(
    "content, words", [x.split(" | ") for x in WRONG_FOLDERS.strip().splitlines()]
)
def test_wrong_folders(tmp_path, content, words):
    (tmp_path / "models.json").write_text(content)
    with pytest.raises((ValueError, OSError), match=words):
        hub.load(tmp_path)


@pytest.mark.parametrize(
    "content", [{"log_targets": ["x"]}, {"coverage": 0.8, "interval": {"a": 2}}]
)
def test_a_folder_of_other_targets(folder, content):
    write_folder(".", [MEMBER], **content)
    with pytest.raises(ValueError, match="models.json has other targets than a, b"):
        hub.load(".")


def test_an_exchanged_head(folder):
    """All heads on one start fit its checkpoint; the folder knows its own."""
    write_folder(".", [MEMBER])
    hub.load(".")
    head = fit_gp(MEMBER, TRAIN, -LABELS, names=["a", "b"], unit="K", blocks=BLOCKS)
    head.save("member1/head.npz")
    hub.load(MEMBER)
    with pytest.raises(ValueError, match="member1/head.npz is not the head that"):
        hub.load(".")


@pytest.mark.parametrize("layers", ["x", 99, None])
def test_a_head_of_other_layers(folder, layers):
    head = read_estimator("member1/head.npz")
    head.layers = layers
    head.save("member1/head.npz")
    with pytest.raises(ValueError, match="member1/head.npz does not fit member1/check"):
        hub.load(MEMBER)


def test_models_that_are_not_a_folder(folder, refused):
    write_folder(".", [MEMBER])
    for words, line in {
        "member1": "is a folder without models.json",
        f". {MEMBER}": "no other model",
        f"{MEMBER} {MEMBER} --head x.npz": "--head FILE is for one checkpoint",
        f"{MEMBER} --head no.npz": "no.npz",
    }.items():
        assert line in refused(main, *words.split(), "in.csv", "out.csv")


def rewritten(path, name, value):
    """Change an array of a file, or leave it out for None."""
    with np.load(path) as file:
        arrays = dict(file)
    old = arrays.pop(name)
    if value is not None:
        arrays[name] = value(old) if callable(value) else value
    np.savez(path, **arrays)


def meta(name, value):
    return lambda text: np.array(json.dumps({**json.loads(str(text)), name: value}))


@pytest.mark.parametrize(
    "name, value, reason",
    [
        ("dual", None, "another version .*, without 'dual'; train again"),
        ("meta", np.array("{"), "damaged: JSONDecodeError"),
        ("meta", meta("version", 2), "another version .*'version 1'; train again"),
        ("meta", meta("blocks", ["vectors", "pixels", "scores"]), "another version"),
        ("meta", meta("atoms", [1]), "damaged: .*not enough values"),
        ("meta", meta("checkpoint", "x"), "belongs to another checkpoint"),
        ("dual", np.array([print], object), "damaged: .*Object arrays cannot be"),
    ],
)
def test_wrong_heads(folder, name, value, reason):
    rewritten("member1/head.npz", name, value)
    with pytest.raises(
        ValueError, match=f"head.npz (is of |is not a head, or )?{reason}"
    ):
        hub.load(MEMBER)


def test_descriptors_of_another_rdkit(folder, refused):
    fit_gp(MEMBER, TRAIN, LABELS).save("member1/head.npz")
    rewritten("member1/head.npz", "descriptors", lambda values: values[:, 1:])
    line = refused(main, MEMBER, "in.csv", "out.csv", "--quiet")
    assert "another version of RDKit wrote it" in line


def test_domain_of_a_checkpoint_without_head(folder, capsys):
    Path("member1/head.npz").unlink()
    plain = hub.load(MEMBER)
    assert save_training_domain(MEMBER, TRAIN) == domain_file(MEMBER)
    domain = read_domain(domain_file(MEMBER))
    assert main([MEMBER, "in.csv", "out.csv", "--quiet"]) == 0
    err = capsys.readouterr().err
    assert "Br (in 1 molecule)" in err and "molecules of 2 of 5 rows" in err
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
    with pytest.raises(ValueError, match="domain.npz belongs to another.*remove it"):
        hub.load(MEMBER)
    # What makes the files of this training is not stopped by one of another.
    fit_gp(MEMBER, TRAIN, LABELS, blocks=["vectors"])
    save_training_domain(MEMBER, TRAIN[:1])
    assert hub.load(MEMBER).estimate(TRAIN[:2]).in_domain.tolist() == [1, 0]

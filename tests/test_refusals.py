"""What a person may mistype or have in a file: exit code 2, one line that says what and where,
and no file written.

A row is the command, of which MODEL is the packaged model, and words of the line.
"""

import importlib
import os
import shlex
from pathlib import Path

import pytest
from rdkit import Chem
from rdkit.Chem import AllChem

from graphormer_plugin.cli.explain import MAX_MOLECULES
from graphormer_plugin.data import DATASETS

ALCOHOLS = [f"{'C' * n}O,{n}" for n in range(1, 31)]
BUTANE = Chem.MolToMolBlock(Chem.MolFromSmiles("CCCC"))  # all z are 0
PROPANE = Chem.MolFromSmiles("CCC")
AllChem.Compute2DCoords(PROPANE)  # which the block says, as drawing programs do
FILES = {
    "t.csv": "\n".join(["smiles,y", *ALCOHOLS]),
    "in.csv": "smiles,y\nCCO,1\nCC,2\n",
    "empty.csv": "",
    "head.csv": "smiles\n",
    "short.csv": "smiles,a\nCCO,1\nCC\n",
    "two.csv": "smiles_a,smiles_b\nCCO,1\n",
    "bad.csv": "smiles\nC1CC\n",
    "none.smi": "smiles\n\n",
    "none.sdf": "",
    "none.txt": "\n",
    "few.smi": "C methane\n",
    "csv.smi": "smiles;y\nCCO;1\n",
    "list.txt": "CCO ethanol\nC\n",
    "t.XLS": "",
    "many.smi": "C\n" * (MAX_MOLECULES + 1),
    "o.npy": "mine",
    "camphor.csv": "smiles,y\nCC1(C)[C@@H]2CC[C@]1(C)C(=O)C2,1\n" + "C,1\n" * 9,
    "flat.sdf": BUTANE + ">  <y>\n1\n\n$$$$\n",
    "nan.xyz": "1\nenergy=1\nH nan 0 0\n" * 9,
    "same.xyz": "2\nenergy=1\nH 0 0 0\nH 0 0 0\n" * 9,
    "nm.xyz": "2\nenergy=1\nC 0 0 0\nO 0 0 0.113\n" * 9,
    "few.xyz": "1\nenergy=1\nH 0 0 0\n3\nenergy=1\nH 0 0 0\nH 0 0 1\n",
    "many.xyz": "1\nenergy=1\nH 0 0 0\nH 0 0 1\n",
    "slope.xyz": "1\nProperties=species:S:1:pos:R:3:forces:R:3:gradient:R:3\nH 0 0 0 0 0 0 0 0 0\n"
    * 9,
    "count.xyz": "1000000000\nenergy=1\nH 0 0 0\n",
    "long.xyz": "1\nenergy=1\nH 0 0 0\n" * 2 + "2\nenergy=1\nH 0 0 0\n" * 3,
    "twice.xyz": "1\nenergy=1 Energy=2\nH 0 0 0\n" * 9,
    "water.xyz": '3\nenergy=1 dipole="0 0 1"\nO 0 0 0\nH 0 0 1\nH 0 1 0\n' * 9,
    "xtb.xyz": "1\n energy: -0.5 gnorm: 0.01\nH 0 0 0\n" * 9,
    "far.xyz": "2\nenergy=1\nH 0 0 0\nH 0 0 1e30\n" * 9,
    "Z.xyz": "1\nProperties=Z:I:1:pos:R:3 energy=1\n200 0 0 0\n" * 9,
    "many_C.xyz": "3\nenergy=1\nC 0 0 0\nC 0 0 1\nC 0 0 2\n" * 9,
    "2d.sdf": Chem.MolToMolBlock(PROPANE) + ">  <y>\n1\n\n$$$$\n",
    "Xx.xyz": "1\nenergy=1\nXx 0 0 0\n" * 9,
    "X.xyz": "1\nenergy=1\nX 0 0 0\n" * 9,
    "0.xyz": "0\nenergy=1\n" * 9,
    "none.xyz": "",
    "word.xyz": "1\nwater\nH 0 0 0\n" * 9,
    "inf.xyz": "1\nenergy=inf\nH 0 0 0\n" * 9,
    "two.xyz": "1\nenergy=1 energy_b=1\nH 0 0 0\n" * 9,
    "cost.csv": "smiles,a,b,c,d\nC,1,0,1,1\nCC,,1,-2,free\n",
    "d.csv": "smiles,y,d\nC,1,1\nC,2,2\n",
}
COMMANDS = f"""
compare | --help lists
convert | --help lists
explain | --help lists
next | --help lists
predict | --help lists
preprocess | --help lists
train t.csv --target-columns y smiles | smiles (commas join the names of a list: a,b)
train | --help lists
compare a b --typo | --help lists
convert a b --typo | --help lists
convert --info '' | IN: it is empty
convert --info a.pt b.pt | leave out b.pt
convert --slim a.pt | name the checkpoint to write
convert --slim a.pt b.pt --target-unit eV | --target-unit only works with --from
convert --info a.pt --vectors nodes | --vectors only works with --slim
convert --info a.pt --config a.json | --config only works with --from

predict '' in.csv out.csv | CKPT: it is empty
predict MODEL '' out.csv | INPUT.csv: it is empty
predict MODEL in.csv out.csv --typo | --help lists
predict --max-atoms=0 | --max-atoms: 0, expected a whole number, 1 or more
predict --batch-size=0 | --batch-size: 0, expected a whole number
predict --batch-size=x | --batch-size: x, expected a whole number, 1 or more
predict --cut-off=-1 | --cut-off: -1, expected a number
predict --cut-off=30 | --cut-off: 30, expected a number, 0 or more, 1 or less
predict --layers=x | --layers: x, expected a whole number
predict --workers=x | --workers: x, expected a whole number
predict MODEL in.csv out.txt | out.txt: expected a name
predict MODEL in.csv out.xyz | out.xyz: in.csv is no .xyz or .db; give another ending
predict MODEL in.csv in.csv | in.csv exists already
predict MODEL in.csv no/out.csv | no/out.csv: there is no folder
predict MODEL gone.csv out.csv | gone.csv: No such file
predict gone in.csv out.csv | gone: no such file or folder; models that come along: grpe_min
predict MODEL empty.csv out.csv | empty.csv: the file is empty
predict MODEL head.csv out.csv | head.csv: there are no rows
predict MODEL none.smi out.csv | none.smi: there are no molecules
predict MODEL none.sdf out.csv | none.sdf: there are no molecules
predict MODEL short.csv out.csv | short.csv: row 1 (line 3) has 1 cell, exp
predict MODEL two.csv out.csv | two.csv: which column
predict MODEL in.csv out.csv --smiles-column mol | in.csv: no column 'mol'
predict MODEL in.csv out.csv --above y=1 | expected TARGET=VALUE; the targets: minimol_0
predict MODEL in.csv out.csv --below minimol_1=1 | no calibration molecules; name a folder of
predict MODEL in.csv out.csv --above y=1 --above y=2 | expected one threshold
predict MODEL in.csv out.csv --false-share 0.2 | and --above or --below
predict MODEL in.csv out.csv --above y=1 --false-share 1 | 1.0: expected a number above 0
predict MODEL in.csv out.csv --above y=1 --false-share x | --false-share: x, expected a number
predict MODEL in.csv out.csv --above y=1 --mean | drop --shard, --mean and --head
predict MODEL in.csv out.csv --members | --members is for several models
predict MODEL in.csv out.csv --layers 2 | --layers and --grpe-fingerprint belong
predict MODEL in.csv out.csv --grpe-fingerprint | belong to --embeddings
predict MODEL in.csv out.csv --embeddings e.txt | e.txt: expected a name
predict MODEL in.csv out.csv --embeddings o.npy | o.npy exists already
predict MODEL in.csv out.csv --embeddings e.npy --layers 99 | 99 layers, expected 1 to
predict MODEL MODEL in.csv out.csv --embeddings e.npy | not for an ensemble
predict MODEL in.csv out.csv --device cuda:9 | --device cuda:9 cannot be used
predict MODEL in.csv out.csv --device gpu | --device gpu cannot be used
predict MODEL in.csv out.csv --workers -1 | --workers -1: expected 0 or more
predict MODEL in.csv out.csv --shard=3/2 | --shard 3/2: expected i/n
predict MODEL in.csv out.csv --shard=0/2 | --shard 0/2: expected i/n
predict MODEL in.csv out.csv --shard=1/2/3 | --shard 1/2/3: expected i/n
predict MODEL in.csv out.csv --shard=a/b | --shard a/b: expected i/n

next '' in.csv out.csv | MODEL: it is empty
next MODEL in.csv out.csv | --size 20: in.csv has 2 rows
next MODEL t.csv out.csv --size=0 | --size: 0, expected a whole number, 1
next MODEL t.csv out.csv --size=9 --goal best | invalid choice: 'best'
next MODEL t.csv out.sdf | out.sdf: expected a name that ends in .csv
next MODEL in.csv in.csv --size=1 | in.csv exists already
next MODEL in.csv out.csv --size=1 | a network without head: only Gaussian processes
next MODEL in.csv out.csv --size=1 --cost=z | no column 'z'
next MODEL cost.csv out.csv --size=1 --cost=a | row 1, column 'a': expected a cost
next MODEL cost.csv out.csv --size=1 --cost=b | row 0, column 'b': expected a cost
next MODEL cost.csv out.csv --size=1 --cost=c | row 1, column 'c': expected a cost
next MODEL cost.csv out.csv --size=1 --cost=d | row 1, column 'd': expected a cost

explain '' C x.svg | CKPT: it is empty
explain --max-atoms=0 | --max-atoms: 0, expected a whole number, 1 or more
explain --layer=x | --layer: x, expected a whole number
explain MODEL CCO a.jpg | a.jpg: expected a name that ends in .svg, .png, .html, .csv
explain MODEL in.csv in.csv | in.csv exists already
explain MODEL CCO a.csv --atoms 1 | a.csv has no attention maps; use .html
explain MODEL CCO CCN a.png | a.png is for one molecule, not 2; use .html
explain MODEL C1CC a.png | SMILES 'C1CC': SMILES Parse Error: unclosed ring
explain MODEL bad.csv a.html | bad.csv, line 2: SMILES 'C1CC'
explain MODEL bad.csv a.html --smiles-column mol | no column 'mol'
explain MODEL many.smi a.html | many.smi: more than {MAX_MOLECULES} molecules
explain MODEL none.txt a.html | no molecule in none.txt
explain MODEL few.smi C a.html --smiles-column=x | no column to choose in few
explain MODEL gone.csv a.html | gone.csv
explain MODEL CCO a.html --target mu | --target mu: expected one of
explain MODEL CCO a.html --myerson=bonds | invalid choice: 'bonds'
explain MODEL CCO a.html --sum | --sum is of Gaussian processes
explain MODEL CCO a.html --layer 99 | --layer 99: the model has
explain MODEL CCO a.html --channels 1 | --channels needs --layer
explain MODEL CCO a.html --layer=1 --channels=2,999 | channels 999: layer 1 has
explain MODEL CCO a.png --atoms 4 | --atoms 4: CCO has 3 atoms
explain MODEL CCO C a.html --atoms 2 | --atoms 2: C has 1 atom,
explain MODEL CCO a.png --atoms 0 | --atoms 0: expected numbers from 1
explain MODEL CCO a.png --atoms 1,x | --atoms 1,x: expected numbers from 1
explain MODEL '' a.png | SMILES '': no SMILES
explain MODEL CCO no_folder/a.html | there is no folder no_folder

preprocess --dataset-name t.csv --smiles-column mol | no column 'mol'
preprocess --dataset-name t.csv --split kfold | --split kfold
preprocess --dataset-name t.csv --workers -1 | workers
preprocess --dataset-name t.csv --split column: | --split column:
preprocess --dataset-name t.csv --target-kind text | --target-kind
preprocess --dataset-name t.csv --max-atoms 0 | --max-atoms
preprocess --dataset-name t.csv --class-names ,, | --class-names ,,
preprocess --dataset-name t.csv --seed -1 | --seed
preprocess --seed x | --seed: x, expected a whole number
preprocess --max-atoms 1.5 | --max-atoms: 1.5, expected a whole number
preprocess --workers x | --workers: x, expected a whole number
preprocess --dataset-name '' | dataset
preprocess --dataset-name nzi | unknown dataset 'nzi', expected the path
preprocess --dataset-name ~nobody-here/m | unknown dataset '~nobody-here/m'
preprocess --dataset-name ~nobody-here/m.csv | ~nobody-here/m.csv: No such file
preprocess --dataset-name m --user-data-dir ~nobody-here | ~nobody-here: no such folder
preprocess --dataset-name m --user-data-dir none | none: no such folder with .py
preprocess --dataset-name m --user-data-dir . | : no such folder with .py
preprocess --dataset-name t.csv,d.csv --split rows:o.npy | of the rows of one dataset
preprocess --dataset-name t.csv --split rows:gone.json | No such file or directory: 'gone.json'
preprocess --dataset-name nci, | a name is empty
preprocess --dataset-name nci --data-root /proc/x | prepared data in /proc/x/stores (No such
preprocess --dataset-name nci --dataset-source ogb | comes from rdkit, not from 'ogb'
preprocess --dataset-name zinc-full --dataset-source smiles | 'zinc-full' comes from pyg
preprocess --dataset-name nci --split scaffold | 'nci' does not read --split; leave it out
preprocess --dataset-name nci --target-unit eV | 'nci' does not read --target-unit;
preprocess --dataset-name nci --shard 1/2 | --shard is for tables of molecules
preprocess --dataset-name t.csv --shard 3/2 | --shard 3/2: expected i/n
preprocess --dataset-name t.csv --shard 1/100 | there are no rows in this shard
preprocess --dataset-name d.csv --shard 1/2 --split time:d | time:d is for whole tables
preprocess --dataset-name t.csv --shard 1/2 --split scaffold | share scaffolds
preprocess --dataset-name gone.csv | gone.csv: No such file
preprocess --dataset-name none.txt | give --dataset-source csv
preprocess --dataset-name t.XLS | .XLS files are not read; save it as .xlsx
preprocess --dataset-name t.jsonl | .jsonl files are not read; save it as .csv
preprocess --dataset-name t.traj --positions file | with positions as .xyz (ase convert)
predict MODEL - out.csv | -: standard input is not read; save
predict MODEL csv.smi out.csv | heading 'smiles;y'; save it with commas
preprocess --dataset-name t.csv --dataset-source ogb | --dataset-source csv, not 'ogb'

preprocess --dataset-name t.csv --positions 3d | --positions 3d: expected none
preprocess --dataset-name t.csv --positions file --quiet | it has no mol block with
preprocess --dataset-name few.smi --positions file | expected mol blocks with positions; --pos
preprocess --dataset-name t.csv --forces-column f | --forces-column is for .xyz and .db files
preprocess --dataset-name contacts --dataset-source rdkit:0 | expected rdkit, rdkit:N
preprocess --dataset-name contacts --dataset-source table: | expected table:FILE
preprocess --dataset-name contacts --dataset-source files | 'contacts' comes from rdkit
preprocess --dataset-name contacts --dataset-source table:gone.csv | gone.csv: No such file
preprocess --dataset-name contacts --dataset-source table:bad.csv --quiet | row 0, C1CC
preprocess --dataset-name zinc --positions rdkit | 'zinc' does not read --positions
preprocess --dataset-name nci --positions file | 'nci': --positions file, expected none
preprocess --dataset-name flat.sdf --positions file --canonical-smiles | leave out --canon
preprocess --dataset-name flat.sdf --positions file | 1 row cannot be split
preprocess --dataset-name flat.sdf --positions file --split scaffold --quiet | it is a drawing
preprocess --dataset-name camphor.csv --positions rdkit --quiet | RDKit finds no conf
preprocess --dataset-name nan.xyz | nan.xyz: has atoms, expected SMILES; --positions file is
preprocess --dataset-name gone.xyz --positions file | gone.xyz: No such file
preprocess --dataset-name nan.xyz --positions file --quiet | the first: atom 0 has position [nan
preprocess --dataset-name same.xyz --positions file --quiet | atoms 0 and 1 are in one
preprocess --dataset-name nm.xyz --positions file --length-unit pm | pm: expected angstrom
preprocess --dataset-name t.csv --length-unit nm | --length-unit is for --positions file
predict MODEL in.csv out.csv --length-unit nm | --length-unit is for --positions file
preprocess --dataset-name slope.xyz --positions file --forces-column gradient | =-gradient reads
preprocess --dataset-name few.xyz --positions file | 1 frame can be read, then XYZError
preprocess --dataset-name many.xyz --positions file | line 4 is 'H 0 0 1', expected the number
preprocess --dataset-name count.xyz --positions file | ends in a frame of 1,000,000,000 at
preprocess --dataset-name long.xyz --positions file | in the frame of 2 atoms from line 7
preprocess --dataset-name twice.xyz --positions file | energy is there twice (energy, Energy)
preprocess --dataset-name water.xyz --positions file --target-columns dipole | molecule, not a list
preprocess --dataset-name water.xyz --positions file --forces-column dipole | no forces 'dipole'
preprocess --dataset-name xtb.xyz --positions file | gnorm: 0.01' name no value; write energy=NUMBER
preprocess --dataset-name far.xyz --positions file --quiet | expected three numbers below
preprocess --dataset-name Z.xyz --positions file | of no element (atomic number 200)
preprocess --dataset-name many_C.xyz --positions file --quiet --max-atoms 2 | 3 atoms, above --max
preprocess --dataset-name many_C.xyz --positions file --smiles-column mol | it has atoms, not
preprocess --dataset-name many_C.xyz --positions file --descriptors | descriptors are of molec
preprocess --dataset-name 2d.sdf --positions file --split scaffold --quiet | it is a drawing
preprocess --dataset-name Xx.xyz --positions file | can be read, then an unknown element, 'Xx'
preprocess --dataset-name X.xyz --positions file | 0 frames can be read, then ValueError: an atom of
preprocess --dataset-name 0.xyz --positions file | a frame without atoms
preprocess --dataset-name none.xyz --positions file | none.xyz: there are no atoms
preprocess --dataset-name word.xyz --positions file | such as 'water' name no value; write
preprocess --dataset-name inf.xyz --positions file | 'energy': 'inf' is not a number that fits
preprocess --dataset-name slope.xyz --positions file | forces without energies, of which
preprocess --dataset-name two.xyz --positions file --target-columns e | no column 'e', the
preprocess --dataset-name two.xyz --positions file --forces-column f | no forces 'f', atoms have
preprocess --dataset-name nm.xyz --positions file --split scaffold | have no scaffold; give
explain MODEL nan.xyz a.html | nan.xyz: has atoms, expected SMILES
train nan.xyz | nan.xyz: fairseq-train learns atoms without bonds
predict MODEL nan.xyz out.csv | nan.xyz: has atoms, expected SMILES

train '' | TABLE: it is empty
train t.csv --positions file --model scratch | it has no mol block with positions
train t.csv --forces-column f | t.csv: fairseq-train learns atoms without bonds, and forces
train nan.xyz --positions file | nan.xyz: fairseq-train learns atoms without bonds
train flat.sdf --positions file --largest-fragment | leave out --largest-fragment
train flat.sdf --positions file --ignore-stereo | and --ignore-stereo
train t.csv --positions rdkit --model finetune | the start grpe_minimol does not read them
train gone.csv | gone.csv: No such file or directory
train t.csv --ratios 1,1 | --ratios 1,1: expected three numbers
train t.csv --smiles-column x | no column 'x', the header has
train t.csv --model scratch --start a.pt | --start has no effect
train t.csv --model trees --start a.pt | --start has no effect with --model trees
train t.csv --model trees --epochs 3 | --epochs: no effect with --model trees
train t.csv --model forest | --model
train t.csv --trees 0 | --trees
train t.csv --start a.pt | a.pt
train t.csv --start grpe_minimol --arch gcn | --arch gcn: the start
train t.csv --model scratch --arch lstm | unknown --arch lstm
train t.csv --split column:part | no column 'part'
train t.csv --weight-column w | no column 'w'
train t.csv --class-names no,yes | --class-names
train t.csv --extra-columns pH | no column 'pH'
train t.csv --extra-columns , | --extra-columns ,: expected names
train t.csv --class-weights 1,2 | --class-weights 1,2: the targets are
train t.csv --split random --out /proc/x | No such file or directory
train t.csv --ensemble 0 | --ensemble
train t.csv --batch-size 0 | --batch-size
train t.csv --batch-size x | --batch-size: x, expected a whole number
train t.csv --folds 2.5 | --folds: 2.5, expected a whole number
train t.csv --lr x | --lr: x, expected a number
train t.csv --coverage nan | --coverage: nan, expected a number
train t.csv --seed -1 | --seed
train t.csv --seed {2**31} | --seed {2**31}: expected {2**31 - 1} or less
train t.csv --folds 2 | --folds 2: expected 3 or more
train t.csv --folds 3 --ratios .5,.25,.25 | --folds and --ratios exclude
train t.csv --lr 0 | --lr 0.0: expected a number above 0
train t.csv --lr inf | --lr inf: expected a number above 0, not inf
train t.csv --target-unit \udcff | --target-unit \\udcff: expected text in UTF-8
train t.csv --class-names no,\udcff | --class-names no,\\udcff: expected text in UTF-8
train \udcff.csv | \\udcff.csv: expected a name in UTF-8
train t.csv --out \udcff | \\udcff: expected a name in UTF-8
preprocess --dataset-name t.csv --target-unit \udcff | --target-unit \\udcff: expected
train t.csv --split time | --split time
train t.csv --split column:part --folds 3 | --split column:part is one split
train t.csv --split column:part --ratios .5,.3,.2 | is one split
train t.csv --split time:year --folds 3 | --split time:year is one split
train t.csv --valid-file in.csv | --valid-file needs --test-file
train t.csv --valid-file in.csv --test-file in.csv --split cluster | drop --split
train t.csv --test-file in.csv --folds 3 | --test-file is part of the split
train t.csv --test-file in.csv --split column:part | --test-file is part of
train t.csv --model head --ensemble 2 --descriptors | --ensemble, --descriptors
train t.csv --interval conformal --folds 3 | --interval conformal
train t.csv --interval conformal --coverage 1 | --coverage 1.0: expected a number
train t.csv --coverage 0.5 | --interval conformal
train t.csv --target-kind text | --target-kind
train t.csv --out . | . holds other files; name a new folder
train t.csv | all molecules have one scaffold, so give --split random
train t.csv --folds 3 | 1 group cannot make 3 folds; give --split random without --groups
train t.csv --test-file in.csv --split scaffold | labels to t.csv, or give --split random
train t.csv --groups none | --groups none: expected one of the columns
train t.csv --log-targets x | --log-targets x: no such target that is a
train t.csv --split random --interval conformal | 3 labels in valid, --coverage 0.9 takes 9
train few.smi | no labels; save them as CSV
train list.txt | list.txt: SMILES and names, no labels; save them
"""
# Content of a table (; ends a line), flags of graphormer-preprocess, words of the line.
TABLES = """
 | | the file is empty
;; | | the file is empty
smiles,y; | | no rows below the header
smiles,y,y;C,1,2; | --target-columns y | several columns have the name 'y'
mol,y;C,1; | | --smiles-column; the header has 'mol', 'y'
smiles,y;C,1; | --smiles-column S | no column 'S'
smiles,y;C,1; | --target-columns y,z | no column 'z'
smiles,y;C,1; | --target-columns N-* | no column 'N-*'
smiles,y;C,1; | --target-columns y,y | named twice
smiles,y;C,1; | --split column:fold | no column 'fold'
smiles,a,b;C,1,2; | | Name them with --target-columns
smiles;C; | | Name them with --target-columns
smiles,a,b;C,1,2;C,2,1;C,0,2;C,2,2; | --target-columns a,b --target-kind multiclass | 2 targets of
smiles,y;C,1;C,high; | | row 1 (line 3), column 'y': 'high'
smiles,y;C,1;C,inf; | | row 1 (line 3), column 'y': 'inf'
smiles,y;C,1_0; | | is not a number
smiles,y;C,"[1, 2]"; | | one number per molecule, not a list
smiles,y;C,1e99; | | fits float32
smiles,y;C,-1e-300; | | fits float32
smiles,y;C,1e-39; | | fits float32
smiles,y;C,-nan; | | '-nan' is not a number
smiles,y;C,1;C,>9;C,ND;C,>9; | | 'y': '>9' is not a number (3 such cells: '>9', 'ND')
smiles,y;C,1;C,ND; | | correct them, or name missing ones with --missing-labels
smiles,y;C,1;C,ND; | --missing-labels >* --target-kind binary | 'ND' is not a number
smiles,y;C,1;C,>9; | | --censored takes bounds such as >100
smiles,y;C,1;C,>1 mg; | --censored | '>1 mg' is not a number
smiles,y;C,1;C,3.1-4.2; | | --censored takes bounds such as >100 or 3.1-4.2
smiles,y;C,1;C,4.2 - 3.1; | --censored | '4.2 - 3.1' is not a number (1 such cell: '4.2 - 3.1');
smiles,y;C,1;C,2024-03-31; | --censored | '2024-03-31' is not a number
smiles,y;C,1;C,03-2024; | --censored | '03-2024' is not a number (1 such cell: '03-2024'); dates
smiles,y;C,1;C,01/02/2024; | | '01/02/2024'); dates are no labels; write
smiles,y;C,007-9;C,1-5; | --censored | '007-9' is not a number
smiles,y;C,5-10 nM;C,3 nM;C,4nM - 5nM; | --censored | write the numbers without nM, and name
smiles,y;C,1;C,5-HT; | --censored | '5-HT' is not a number
smiles,y_low,y_high;C,1,2;C,4,3; | --censored | 'y': '4…3' is not a number
smiles,y;C,1;C,3…4…5; | --censored | '3…4…5' is not a number
smiles,y_low,y_low,y_high;C,1,2,3; | --censored --target-columns y | no column 'y'
smiles,y_low,y_high;C,1,2;C,4,ND; | --censored --target-columns y | column 'y': '4…ND'
smiles,y;C,1;C,~5; | --censored | '~5' is not a number
smiles,y;C,0;C,1; | --censored --target-kind binary | --censored is for targets that are num
smiles,y;C,"1,234";C,"12,500"; | | write numbers as 1234.5, without commas
smiles,y;C,"1,5";C,2.5; | | write numbers as 1234.5, without commas
smiles,y;C,"1,234.5";C,"2,000.1"; | | write numbers as 1234.5, without commas
smiles,y;C,yes;C,1; | --target-kind binary | 'yes' is not a number
smiles,y;C,yes;C,no; | | 'yes' is not a number
smiles,y;C,low;C,top; | --target-kind binary --class-names low,high | 'top' is not one of
smiles,y;C,low;C,top; | --target-kind binary | 2 words ('low', 'top') of two classes: give --class
smiles,y;C,active; | --target-kind binary | 1 word ('active') of two classes
smiles,y;C,a;C,b;C,c; | --target-kind binary | 3 words ('a', 'b', 'c') of two classes
smiles,y;C,a;C,b;C,c; | --target-kind binary | or give --target-kind multiclass
smiles,y;C,a; | --target-kind binary --class-names a,b,c | two classes, not --class-names a,b,c
smiles,y;C,no;C,Yes;C,YES; | --target-kind binary | 'YES', 'Yes', 'no' differ in their case
smiles,y;C,1;C,0; | --target-kind binary --class-names a,b | targets that are words
smiles,y,w;C,1,;C,2,1;C,3,1; | --weight-column w | column 'w': a weight is a number
smiles,y,w;C,1,0;C,2,0;C,3,0; | --weight-column w | all weights in column 'w' are 0
smiles,y,w;C,1,a; | --extra-columns w | row 0 (line 2), column 'w': 'a' is not a number
smiles,y,unit;C,1,nM;C,2,mg/l; | --target-columns y --target-unit nM | (line 3), column 'unit': a
smiles,pIC50,unit;C,5,nM;CC,6,uM; | --target-columns pIC50 --target-unit uM | a logarithm
smiles,a,unit,b;C,1,nM,2;CC,2,uM,3; | --target-columns b --target-unit uM | call it 'a units'
smiles,a,relation,b;C,1,>,2;CC,2,=,3; | --target-columns b --censored | call it 'a relation'
smiles,y,relation,qualifier;C,1,>,;CC,2,=,>; | --target-columns y --censored | which column
smiles,y,unit;C,1,nM;C,2,; | --target-columns y --target-unit uM | (line 3), column 'unit': a label
smiles,y;C,1; | --extra-columns y --target-columns y | named twice, or in --extra-columns
smiles,a,b;C,1,inf;C,2,3; | --target-columns all | column 'b': 'inf' is not a number that fits
smiles,n;C,0;C,1; | --target-columns all | no column of numbers but 'n', which only
smiles,y;C,1;;C; | | row 1 (line 4) has 1 cell, expected 2
smiles,y;C,1,2; | | row 0 (line 2) has 3 cells, expected 2
smiles,y;,1; | | row 0 (line 2), column 'smiles': no SMILES
smiles,y;C,;C,nan;C,NULL; | | have no label at all
smiles,y;C,1;C,2; | | 2 rows cannot be split
smiles,y;C,1; | | 1 row cannot be split
smiles,y;C,2; | --target-kind binary | 2 is not a label
smiles,y;C,1.5; | --target-kind multiclass | 1.5 is not a label
smiles,y,z;C,1,1; | --target-kind binary,binary --target-columns y,z | binary,binary: expected
id,smiles;7,C;9,CC; | | other column, 'id', looks like an identifier
smiles,;C,7;CC,8; | | the only other column, '', looks like
smiles,y,split;C,1,train; | | no rows in split valid
smiles,y,split;C,1,valid; | | no rows in split train
smiles,y,split;C,1,hold; | | 'hold' is not a split
smiles,y,split,Split;C,1,train,0; | --target-columns y | split, split or Split? Name it with
smiles,y;C,1;CC,2;CCC,3; | --split scaffold | no rows in split valid (each scaffold
smiles,y,d;C,1,soon;CC,2,04.02.2024; | --split time:d | row 0 (line 2), column 'd': 'soon'
smiles,y,d;C,1,;CC,2,04.02.2024; | --split time:d | row 0 (line 2), column 'd': ''
smiles,y,d;C,1,01/02/2024;CC,2,03/04/2024; | --split time:d | column 'd': day and month
smiles,y,d;C,1,01/02/2024;CC,,soon; | --split time:d | column 'd': day and month
smiles y;CO 1;C 2; | | a single cell, 'smiles y'; separate
smiles,y;C,1;"C,1; | | line 3: unexpected end of data; check the
"""
# Content of a table, behind & of test.csv; flags of graphormer-train, words of the line.
TRAININGS = f"""
smiles,y;C,1;CC,1; | | all labels of y are equal
smiles,y;C,1-2;CC,2-3; | --censored | all labels of y are equal, missing or bounds
smiles,y,z;C,1.5,3;CC,2,4; | | which columns are targets
smiles,y,MW;C,1.5,16;CC,2,30;CO,>9,32; | | are targets? Name them with --target-columns; there
smiles,y,MW;C,1.5,16;CC,2,30;CO,>9,32; | | row 2 (line 4), column 'y': '>9' is not a number
smiles,y,plate;C,1.5,1;CC,2,1;CO,n.d.,2;CN,3,2; | | row 2 (line 4), column 'y': 'n.d.' is not
smiles,y,MW;C,n.d.,16;CC,n.d.,30;CO,2,32;CN,3,31; | | row 0 (line 2), column 'y': 'n.d.' is not
smiles,y,y_pred;C,1.5,1;CC,?,1;CO,2,2;CN,?,2; | | row 1 (line 3), column 'y': '?' is not a number
smiles,y,MW;C,5 nM,16;CC,2 nM,30;CO,7 nM,32; | | 'y', 'MW'; row 0 (line 2), column 'y': '5 nM' is
smiles,active,MW;C,yes,16;CC,no,30;CO,yes,32; | | which columns are targets
smiles,active,MW;C,yes,16;CC,no,30;CO,yes,32;CN,odd,31; | | which columns are targets
smiles,hit,MW;C,1,16;CC,0,30;CO,odd,32; | | row 2 (line 4), column 'hit': 'odd' is not a number
smiles,note,y;C,a,1;CC,b,2;CO,c,>9; | | row 2 (line 4), column 'y': '>9' is not a number
smiles,y;C,93 %;CC,5 %;CO,7 %; | | write the numbers without %
smiles,y;C,9mg/L;CC,5 mg/L;CO,7 mg/L; | | without mg/L, and name their unit with --target-unit
smiles,y;C,5 nM;CC,2 nM;CO,7 nM;CN,9 nM; | | write the numbers without nM
smiles,y;C,5 nM;CC,2;CO,7 nM;CN,9 nM; | | units differ (nM, none): convert
smiles,y;C,5 nM;CC,2 uM;CO,7 nM;CN,1e3 uM;CF,4 nM; | | units differ (nM, uM): convert
smiles,y;C,92%;CC,0.9;CO,91%;CN,7%; | | units differ (%, none): convert
smiles,y,d;C,1,2020;CC,2,2021;CO,3,04.02.2022; | --split time:d --target-columns y | '04.02.2022'
smiles,y,d;C,1,2020;CC,2,04.02.2021;CO,3,04.02.2022; | --split time:d --target-columns y | '2020'
smiles,y,z;C,1,1;CC,2,0; | --target-kind binary,binary,binary --target-columns y,z | one for each
smiles,y,z;C,3,0;N,2,1;O,1,0; | --target-columns y,z --model scratch --split random | kinds
smiles,y;C,1;CC,2;CO,3; | --folds 4 --split random | 3 rows cannot make 4 folds; give fewer --folds,
smiles,y;'C,1;'CC,2; | | it begins with ', as text in spreadsheets does; remove it
smiles,y;C1CC,1;CC,2; | | 1 molecule cannot be parsed (first: row 0, 'C1CC': SMILES
smiles,y;CC,1;,2; | | no SMILES; --skip-invalid
smiles,y;C1CC,1;C1CC,2; | --skip-invalid | none of 2 molecules can be parsed (first: row 0
smiles,y;{"C" * 1001},1;CO,2; | | 1,001 atoms, above --max-atoms 1000
smiles,y;C,yes;CC,no;CO,?;C,no;CC,yes;CO,no; | --target-columns y | column 'y' has 3 words
smiles,y;C,low;CC,mid;CO,high;C,low;CC,mid;CO,high; | | --target-kind multiclass
smiles,y;C,0;CC,1;CO,999; | --target-kind multiclass | class 999, but only 3 different
smiles,y;C,no;CC,yes; | --class-weights 1,2,3 | --class-weights 1,2,3: expected 2 numbers
smiles,y;C,0;CC,-1;CO,9; | --log-targets y | --log-targets y: 2 labels of 0 or less
smiles,y;C,0;CC,1;CO,2; | --log-targets y --target-kind multiclass | target that is a num
smiles,y,log10 y;C,1,2;CC,2,3; | --target-columns y,* --log-targets y | called 'log10 y'
smiles,y,log10 y;C,1,2;CC,2,3; | --extra-columns 'log10 y' --log-targets y | called 'log10 y'
smiles,y,split;C,1,train;CC,1,train;CO,2,valid;CN,3,test; | --model head | y has too few
smiles,y,split;C,1,train;CC,2,train;CO,,valid;CN,3,test; | | no label in split valid of
smiles,y,split;C,,train;CC,,train;CO,1,valid;CN,3,test; | | no label in split train of --split
smiles,y,split;C,1,train;CC,2,train;CO,>1,valid;CN,3,test; | --censored | no exact label in
smiles,y,w,split;C,1,0,train;CO,2,1,valid;CN,3,1,test; | --weight-column w | a weight above 0
smiles,y,split;C,0,train;CC,1,train;CO,1,valid;CN,0,test; | --interval conformal | 0 of y has 0
smiles,y,f;C,1,0;CC,2,1;CO,3,0; | --split column:f --target-columns y | has 2 folds, expected
smiles,y,split;C,1,0;CC,2,0;CO,3,0;CN,4,1;CF,5,2; | | folds of 3, 1, 1 rows; if
smiles,y,f;C,1,0;CC,2,1;CO,3,x; | --split column:f --target-columns y | column 'f'
smiles,y,g,split;C,1,a,train;CC,2,a,test; | --groups g --target-columns y | rows of 'a' are in
smiles,y;C,1;CC,2;&smiles,z;C,1; | --test-file test.csv | test.csv: no column 'y', the header
smiles,y;C,1;CC,2;&smiles,y;C,1;CC,high; | --test-file test.csv | test.csv: row 1 (line 3), col
smiles,y;C,1;CC,2;&smiles,y;C,1;,2; | --test-file test.csv | test.csv: row 1 (line 3), column
smiles,y;C,1;CC,2;&smiles,y;C,1;C(,2; | --test-file test.csv | row 1 of test.csv, 'C('
"""
# Labels of a path of three nodes, what its source says, words of the line.
NODES = """
torch.zeros(2, 3) | kind="binary" | y has shape [2, 3] and dtype float32, expected values [3] or
torch.zeros(3, 2, 1) | kind="regression" | expected values [3] or [3, C] of nodes, NaN for no label
torch.zeros(3, 0) | kind="binary" | expected values [3] or [3, C] of nodes, NaN for no label
torch.full((3,), 9e99, dtype=float) | kind="regression" | numbers that fit float32
torch.full((3, 2), 2) | kind="binary" | label 0 of y0 is 2, expected 0 or 1
torch.full((3, 2), torch.nan) | kind="regression" | no node has a label
torch.full((3,), -1) | | no node has a label
torch.zeros(3, 2) | kind="binary", target_names="a" | have shape [9, 2], expected [9 nodes, 1]
torch.zeros(3, 2) | | expected integer classes [3] of nodes, -1 for no label
torch.full((3,), -2) | | y has class -2, expected -1 and above
torch.zeros(3) | level="atom" | unknown level 'atom', expected graph
torch.zeros(3) | level="edge", kind="binary" | y has shape [3] and dtype float32, expected values
torch.full((2,), -2) | level="edge" | y has class -2, expected -1 and above
torch.full((2,), torch.nan) | level="edge", kind="regression" | no edge has a label
None, edge_label=torch.ones(1) | level="link" | graph 0: Data has no edge_label_index
None, edge_label_index=edges | level="link" | graph 0: Data has no edge_label
None, **pairs(edges[0], 1, 1) | level="link" | edge_label_index has shape [2]
None, **pairs(edges + 1, 1, 1) | level="link" | edge_label_index names node 3, expected 0..2
None, **pairs(edges, 1, 1, 0) | level="link" | edge_label has shape [3] and dtype int64, expected
None, **pairs(edges, 1, 2) | level="link" | label 1 of y is 2, expected 0 or 1
"""
SOURCE = """
import torch
from torch_geometric.data import Data

from graphormer_plugin.data import DatasetSource, register_dataset


def pairs(index, *labels):
    return {"edge_label_index": index, "edge_label": torch.tensor(labels)}


@register_dataset("nodes")
def nodes():
    edges = torch.tensor([[0, 1], [1, 2]])
    graph = Data(x=torch.ones(3, 1), edge_index=edges, y=Y)
    splits = {"train": [0], "valid": [1], "test": [2]}
    options = {"level": "node"} | dict(SOURCE)
    return DatasetSource(graphs=[graph] * 3, splits=splits, **options)
"""


def rows_of(text):
    lines = [*filter(None, text.splitlines())]
    return [[cell.strip() for cell in line.split("|")] for line in lines]


@pytest.fixture
def root(monkeypatch, tmp_path_factory):
    """Folder of prepared stores."""
    folder = tmp_path_factory.mktemp("root")
    monkeypatch.setenv("GRAPHORMER_DATA_ROOT", str(folder))
    return folder


@pytest.fixture
def check(tmp_path, monkeypatch, capfd, root):
    """Function that runs a command, which must end with the words."""
    monkeypatch.chdir(tmp_path)

    def check(command, words):
        name, *arguments = shlex.split(command.replace("MODEL", "grpe_minimol"))
        capfd.readouterr()
        before = {name: Path(name).read_bytes() for name in os.listdir()}
        try:
            code = importlib.import_module(f"graphormer_plugin.cli.{name}").main(
                arguments
            )
        except SystemExit as stop:  # argparse
            code = stop.code
        out, line = capfd.readouterr()
        assert (code, out) == (2, "")
        assert line.startswith("error: ") and line.count("\n") == 1
        assert words in line
        assert {name: Path(name).read_bytes() for name in os.listdir()} == before

    return check


@pytest.mark.parametrize("command, words", rows_of(COMMANDS))
def test_a_command(command, words, check):
    if ".xyz" in command:
        pytest.importorskip("ase", reason="pip install ase")
    for name, content in FILES.items():
        Path(name).write_text(content)
    check(command, words)


@pytest.mark.parametrize("content, flags, words", rows_of(TABLES))
def test_a_table(content, flags, words, check, root):
    Path("data.csv").write_text(content.replace(";", "\n"))
    check(f"preprocess --dataset-name data.csv --quiet {flags}", words)
    assert not any(path.is_dir() for path in root.glob("stores/*"))


@pytest.mark.parametrize("labels, says, words", rows_of(NODES))
def test_labels_of_parts(labels, says, words, check, root):
    (root / "nodes.py").write_text(
        SOURCE.replace("Y)", f"{labels})", 1).replace("SOURCE", says)
    )
    DATASETS.pop("nodes", None)
    check(f"preprocess --dataset-name nodes --user-data-dir {root} --quiet", words)


@pytest.mark.parametrize("content, flags, words", rows_of(TRAININGS))
def test_a_training(content, flags, words, check):
    table, _, test = content.replace(";", "\n").partition("&")
    Path("data.csv").write_text(table)
    Path("test.csv").write_text(test)
    check(f"train data.csv --quiet {flags}", words)
